"""Which sampler shows the devices of a set of lanes. Owns that choice; what the samples mean is for others."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from gputui.core.job import Running, Stopping, Suspended
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.scheduler import Scheduler
from gputui.gpus.hardware import driver_present
from gputui.gpus.process import ProcessSampler
from gputui.gpus.sample import Sampler


def kind_of(lanes: Iterable[Lane]) -> DeviceKind | None:
    """What is to be measured for these lanes; GPUs before all, then what is simulated. None: there are no lanes."""
    kinds = {lane.kind for lane in lanes}
    return next((kind for kind in (DeviceKind.GPU, DeviceKind.SIMULATED, DeviceKind.CPU) if kind in kinds), None)


class Wanted(Struct, frozen=True):
    """What is to be measured; a sampler serves as long as this stays the same."""

    kind: DeviceKind
    numbers: tuple[int, ...] = ()
    """Of the simulated devices, or of the CPU lanes."""


def wanted_for(lanes: Collection[Lane], *, looked_at: bool) -> Wanted | None:
    """`lanes`: with those that were taken off. What only the eye wants is measured if somebody looks."""
    kind = kind_of(lanes)
    if kind is DeviceKind.GPU:
        return Wanted(kind) if driver_present() else None
    if kind is None or not looked_at:
        return None
    mine = [lane for lane in lanes if lane.kind is kind]
    if kind is DeviceKind.CPU:
        return Wanted(kind, tuple(sorted({lane.id for lane in mine})))
    return Wanted(kind, tuple(sorted({int(word) for lane in mine for word in lane.devices if word.isdecimal()})))


def sampler_for(wanted: Wanted, scheduler: Scheduler) -> Sampler:
    """Imports what it needs when it is needed: a keeper that nobody looks at stays small."""
    if wanted.kind is DeviceKind.GPU:
        return ProcessSampler()
    if wanted.kind is DeviceKind.CPU:
        from gputui.gpus.cpu import CpuSampler

        return CpuSampler(wanted.numbers, roots=lambda: _roots(scheduler))
    from gputui.gpus.simulated import SimulatedSampler

    return SimulatedSampler(max(wanted.numbers, default=-1) + 1, busy=lambda: _busy(scheduler))


def _busy(scheduler: Scheduler) -> set[str]:
    """The keys of the simulated devices that run a job."""
    from gputui.gpus.simulated import device_key

    jobs = (scheduler.book[job].active for job in scheduler.book.active)
    words = (word for placed in jobs if placed is not None for word in placed.gpus)
    return {device_key(int(word)) for word in words if word.isdecimal()}


def _roots(scheduler: Scheduler) -> dict[int, int]:
    """The wrapper's pid for every lane that runs a job."""
    roots = {}
    for lane, job in scheduler.board.holders.items():
        state = scheduler.book[job].state
        if isinstance(state, Running | Suspended | Stopping) and state.pid is not None:
            roots[lane] = state.pid
    return roots
