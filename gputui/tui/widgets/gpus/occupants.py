"""Who has a device, in a few words: our job, a stranger, somebody's leftovers, or nobody. Pure."""

from __future__ import annotations

import os.path
from collections.abc import Callable

from msgspec import Struct

from gputui.core.job import JobId, StateName
from gputui.core.snapshot import Snapshot
from gputui.core.views.amounts import duration_words as duration
from gputui.gpus.machine_facts import MachineFacts
from gputui.gpus.picture import DevicePicture, DevicesPicture, LaneState
from gputui.gpus.sample import ProcessSample
from gputui.gpus.strangers import Stranger
from gputui.logs.plain import plain
from gputui.tui.model.words import clock

IDLE = 5
"""Percent below which a device does nothing worth mentioning."""


class View(Struct, frozen=True):
    """All that rows are made from."""

    picture: DevicesPicture
    snapshot: Snapshot | None
    """None: there is no session."""
    name_of: Callable[[JobId], str]
    now: float
    machine: MachineFacts | None = None
    """The machine itself, where somebody looked."""


class Occupant(Struct, frozen=True):
    what: str
    time: str = ""
    """How long it has been there."""
    quiet: bool = False
    """Nothing to look at."""


def occupant(view: View, device: DevicePicture) -> Occupant:
    sample = device.sample
    if device.jobs:
        return _jobs(view, device)
    if device.strangers:
        return Occupant(_state(device) + _strangers(device, view.now))
    if device.leftovers:
        return Occupant(_state(device) + _left(device))
    if sample.mig_enabled:
        return Occupant("split into MIG instances", quiet=True)
    if not sample.visible:
        return Occupant("not in CUDA_VISIBLE_DEVICES", quiet=True)
    if device.state is None:
        return _processes(device)
    if device.state is LaneState.OFF:
        return Occupant("drained" if device.drained else "off: not in this session", quiet=True)
    if device.free_at is not None:
        return Occupant(f"free in {duration(device.free_at - view.now)}: just left by others")
    if device.blocked is not None:
        return Occupant(plain(device.blocked))
    return Occupant("free", quiet=True)


def _state(device: DevicePicture) -> str:
    """First of all, as the end of a line is what a narrow screen leaves out."""
    if device.state is LaneState.DRAINING:
        return "draining · "
    return "drained · " if device.drained and device.state is LaneState.OFF else ""


def _jobs(view: View, device: DevicePicture) -> Occupant:
    said = [_job(view, job, alone=len(device.jobs) == 1) for job in device.jobs]
    if device.strangers:
        said.append(_strangers(device, view.now))
    if device.leftovers:
        said.append(_left(device))
    first = device.jobs[0]
    placed = view.snapshot[first].active if view.snapshot is not None and first in view.snapshot else None
    return Occupant(_state(device) + " + ".join(said), clock(view.now - placed.since) if placed is not None else "")


def _job(view: View, job: JobId, *, alone: bool) -> str:
    name = plain(view.name_of(job)) if alone else ""
    if job in view.picture.idle_since:
        return _led(job, f"idle for {duration(view.now - view.picture.idle_since[job])}", name)
    state = view.snapshot[job].state.name if view.snapshot is not None and job in view.snapshot else None
    return _led(job, state if state is not None and state is not StateName.RUNNING else "", name)


def _led(job: JobId, state: str, name: str) -> str:
    """`#12 lr=0.1`, and `#12 stopping · lr=0.1`."""
    words = " · ".join(part for part in (state, name) if part)
    return f"#{job} {words}".rstrip()


def _strangers(device: DevicePicture, now: float) -> str:
    first, more = device.strangers[0], len(device.strangers) - 1
    return f"{_person(first)}{f' +{more}' if more else ''} · not ours"


def _person(stranger: Stranger) -> str:
    return " ".join(
        plain(word) for word in (stranger.user or "?", program(stranger.command), str(stranger.pid)) if word
    )


def _left(device: DevicePicture) -> str:
    first, more = device.leftovers[0], len(device.leftovers) - 1
    return f"pid {first.pid}{f' +{more}' if more else ''} left over from #{first.job}"


def _processes(device: DevicePicture) -> Occupant:
    """Where there is no session, whoever computes on it; the largest is named."""
    on_it = sorted(device.sample.processes, key=lambda each: (not each.compute, -(each.memory or 0)))
    if not on_it:
        busy = (device.sample.utilization or 0) >= IDLE
        return Occupant("in use, by nobody visible here" if busy else "idle", quiet=True)
    more = f" +{len(on_it) - 1}" if len(on_it) > 1 else ""
    return Occupant(f"{_process(on_it[0])}{more}", quiet=not on_it[0].compute)


def _process(process: ProcessSample) -> str:
    words = (process.user or "?", program(process.command), str(process.pid))
    return " ".join(plain(word) for word in words if word)


def program(command: str | None) -> str:
    """The name of what runs, without its folder and arguments."""
    return os.path.basename((command or "").partition(" ")[0])
