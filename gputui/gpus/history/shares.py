"""Whose load and memory a device carries: a job's of ours, somebody else's, or nobody's. Pure."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from msgspec import Struct

from gputui.gpus.sample import DeviceSample, ProcessSample


class LoadOwner(IntEnum):
    NOBODY = 0
    OURS = 1
    OTHERS = 2


class DeviceShare(Struct, frozen=True):
    """Bytes of memory on either side, and whose the load is; what neither has is the driver's."""

    owner: LoadOwner = LoadOwner.NOBODY
    ours: int = 0
    others: int = 0


def share(device: DeviceSample, is_ours: Callable[[ProcessSample], bool], *, held: bool) -> DeviceShare:
    """`held`: a job of ours has the device, whether processes of it are to be seen or not."""
    on_it = [each for each in device.processes if each.compute]
    mine = [each for each in on_it if is_ours(each)]
    theirs = [each for each in on_it if not is_ours(each)]
    if held and not mine:
        return DeviceShare(LoadOwner.OURS, max(0, (device.memory_used or 0) - _memory(theirs)), _memory(theirs))
    ours, others = _memory(mine), _memory(theirs)
    if device.memory_used is not None and on_it and all(each.memory is None for each in on_it):
        ours, others = (device.memory_used, 0) if mine else (0, device.memory_used)
    return DeviceShare(_owner(mine, theirs), ours, others)


def _owner(mine: list[ProcessSample], theirs: list[ProcessSample]) -> LoadOwner:
    if not theirs:
        return LoadOwner.OURS if mine else LoadOwner.NOBODY
    if not mine:
        return LoadOwner.OTHERS
    return LoadOwner.OURS if _load(mine) >= _load(theirs) else LoadOwner.OTHERS


def _load(processes: list[ProcessSample]) -> int:
    return sum(each.utilization or 0 for each in processes)


def _memory(processes: list[ProcessSample]) -> int:
    return sum(each.memory or 0 for each in processes)
