"""What the pane shows about a device: its user, processes, figures and short name, and the actions on it."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct

from gputui.core.amounts import GIB, duration_cell, duration_exact
from gputui.core.amounts import duration_words as duration
from gputui.core.amounts import memory as size
from gputui.core.job import JobId, StateName
from gputui.core.regex import lazy_regex
from gputui.core.snapshot import Snapshot
from gputui.gpus.external_processes import ExternalProcess
from gputui.gpus.machine import MachineFacts
from gputui.gpus.picture import DevicePicture, DevicesPicture, SlotState
from gputui.gpus.sample import DeviceSample, ProcessSample, short_model
from gputui.gpus.simulated import Card
from gputui.logs.plain import plain
from gputui.session.devices.slot_changes import stoppable
from gputui.tui.text import ljust
from gputui.views.format import cut as clipped

# Occupants

IDLE = 5
"""Utilization in percent below which a device counts as idle."""


class View(Struct, frozen=True):
    """The data from which the lines of the GPU pane are made."""

    picture: DevicesPicture
    snapshot: Snapshot | None
    """The snapshot of the session, or None if there is no session."""
    name_of: Callable[[JobId], str]
    now: float
    machine: MachineFacts | None = None
    """Measurements of the machine, or None if they were not read."""


class Occupant(Struct, frozen=True):
    what: str
    time: str = ""
    """How long the occupant has been on the device, as text."""
    quiet: bool = False
    """Whether the occupant needs no attention."""


def occupant(view: View, device: DevicePicture) -> Occupant:
    sample = device.sample
    if device.jobs:
        return _jobs(view, device)
    if device.external_processes:
        return Occupant(_state_prefix(device) + _external(device))
    if device.leftovers:
        return Occupant(_state_prefix(device) + _left(device))
    if sample.mig_enabled:
        return Occupant("split into MIG instances", quiet=True)
    if not sample.visible:
        return Occupant("not in CUDA_VISIBLE_DEVICES", quiet=True)
    if device.state is None:
        return _processes(device)
    if device.state is SlotState.OFF:
        return Occupant("drained" if device.drained else "off: not in this session", quiet=True)
    if device.free_at is not None:
        return Occupant(f"free in {duration(device.free_at - view.now)}: just released")
    if device.blocked is not None:
        return Occupant(plain(device.blocked))
    return Occupant("free", quiet=True)


def _state_prefix(device: DevicePicture) -> str:
    """Return the slot's state as a prefix. It comes first because a narrow screen cuts the end of the line."""
    if device.state is SlotState.DRAINING:
        return "draining · "
    return "drained · " if device.drained and device.state is SlotState.OFF else ""


def _jobs(view: View, device: DevicePicture) -> Occupant:
    parts = [_job(view, job, alone=len(device.jobs) == 1) for job in device.jobs]
    if device.external_processes:
        parts.append(_external(device))
    if device.leftovers:
        parts.append(_left(device))
    first = device.jobs[0]
    placed = view.snapshot[first].active if view.snapshot is not None and first in view.snapshot else None
    return Occupant(
        _state_prefix(device) + " + ".join(parts), duration_exact(view.now - placed.since) if placed is not None else ""
    )


def _job(view: View, job: JobId, *, alone: bool) -> str:
    """Return a job as `#12 lr=0.1` or `#12 stopping · lr=0.1`. The name is omitted unless the job is alone."""
    state = ""
    if job in view.picture.idle_since:
        state = f"idle for {duration(view.now - view.picture.idle_since[job])}"
    elif view.snapshot is not None and job in view.snapshot and view.snapshot[job].state.name is not StateName.RUNNING:
        state = view.snapshot[job].state.name
    words = " · ".join(filter(None, (state, plain(view.name_of(job)) if alone else "")))
    return f"#{job} {words}".rstrip()


def _external(device: DevicePicture) -> str:
    first, more = device.external_processes[0], len(device.external_processes) - 1
    return f"{_process(first)}{f' +{more}' if more else ''} · external"


def _left(device: DevicePicture) -> str:
    first, more = device.leftovers[0], len(device.leftovers) - 1
    return f"pid {first.pid}{f' +{more}' if more else ''} left over from #{first.job}"


def _processes(device: DevicePicture) -> Occupant:
    """Describe the largest computing process on a device without a session."""
    on_it = sorted(device.sample.processes, key=lambda each: (not each.compute, -(each.memory or 0)))
    if not on_it:
        busy = (device.sample.utilization or 0) >= IDLE
        return Occupant("in use by a hidden process" if busy else "idle", quiet=True)
    more = f" +{len(on_it) - 1}" if len(on_it) > 1 else ""
    return Occupant(f"{_process(on_it[0])}{more}", quiet=not on_it[0].compute)


def _process(process: ProcessSample | ExternalProcess) -> str:
    """Return the user, program and pid of a process."""
    words = (process.user or "?", program(process.command), str(process.pid))
    return " ".join(plain(word) for word in words if word)


def program(command: str | None) -> str:
    """Return the name of the program without its directory and arguments."""
    return os.path.basename((command or "").partition(" ")[0])


# Names

_SLICE = lazy_regex(r"MIG\s+(\S+)")


def short(name: str) -> str:
    """Shorten the name of a GPU to the part that distinguishes it from others."""
    return short_model(plain(name))


def device_name(device: DeviceSample) -> str:
    """Return the short name of a device. For a MIG instance, return the name of its slice."""
    if device.mig is not None:
        slice_name = _SLICE.search(device.name)
        return f"└ {plain(slice_name[1]) if slice_name else f'{device.mig.gpu_instance}/{device.mig.compute_instance}'}"
    if device.uuid.startswith("CPU-"):
        return "slot"
    return "simulated" if device.name == Card.name else short(device.name)


# Actions


class DeviceChoice(StrEnum):
    """An action that the user can choose for a device."""

    DRAIN = "drain"
    ENABLE = "enable"
    REQUEUE = "requeue"
    KILL = "kill"
    KILL_LEFTOVERS = "kill_leftovers"


KEYS = {
    DeviceChoice.DRAIN: "d",
    DeviceChoice.ENABLE: "d",
    DeviceChoice.REQUEUE: "B",
    DeviceChoice.KILL: "K",
    DeviceChoice.KILL_LEFTOVERS: "X",
}
"""The key of each action. Lowercase keys never affect running jobs, but uppercase keys may."""


def choices(device: DevicePicture, snapshot: Snapshot | None) -> Iterator[tuple[DeviceChoice, str]]:
    """Yield the possible actions and their descriptions. Yield none without a session."""
    if snapshot is None or device.state is None:
        return
    jobs = stoppable(device, snapshot)
    named = ", ".join(f"#{job.id}" for job in jobs)
    if device.elsewhere:
        pass  # its node decides
    elif device.state in (SlotState.FREE, SlotState.BUSY):
        end = f"; {named} may finish" if jobs else ""
        yield DeviceChoice.DRAIN, f"drain: start no more jobs here{end}"
    elif device.state is SlotState.DRAINING or device.drained or device.sample.schedulable:
        yield DeviceChoice.ENABLE, "enable: jobs may start here"
    if jobs:
        yield DeviceChoice.REQUEUE, f"requeue {named}; checkpoints are kept"
        yield DeviceChoice.KILL, f"kill {named}"
    if device.leftovers:
        left_by = ", ".join(f"#{job}" for job in dict.fromkeys(each.job for each in device.leftovers))
        pids = ", ".join(str(each.pid) for each in device.leftovers)
        yield DeviceChoice.KILL_LEFTOVERS, f"kill leftovers of {left_by} (pid {pids})"


# Figures of fixed width, so that nothing shifts when they change

UNKNOWN = "–"


def percent(value: float | None) -> str:
    return f"{UNKNOWN if value is None else f'{value:.0f}%':>4}"


def memory(used: int | None, total: int | None, *, brief: bool = False) -> str:
    """Return memory as `28.1/40G`, or as `28/40G` if `brief` is set. The largest machines are shown in terabytes."""
    unit, letter = (GIB * 1024, "T") if (total or 0) >= 1000 * GIB else (GIB, "G")
    if used is None and total is None:
        return UNKNOWN
    coarse = brief and used is not None and total is not None and total >= 9.95 * unit
    amount = f"{(used or 0) / unit:.0f}" if coarse else _amount(used, unit)
    return f"{amount}/{_total(total, unit)}{letter}"


def memory_width(total: int | None, *, brief: bool = False) -> int:
    """Return the maximum width of the text from `memory` for a device of this size."""
    if total is None:
        return 1
    unit = GIB * 1024 if total >= 1000 * GIB else GIB
    whole = _total(total, unit)
    used = "9.9" if total < 9.95 * unit else whole if brief else "99.9"
    return len(f"{used}/{whole}G")


def _amount(count: int | None, unit: int) -> str:
    if count is None:
        return UNKNOWN
    return f"{count / unit:.1f}" if count < 99.95 * unit else f"{count / unit:.0f}"


def _total(count: int | None, unit: int) -> str:
    if count is None:
        return UNKNOWN
    return f"{count / unit:.0f}" if count >= 9.95 * unit else f"{count / unit:.1f}"


def temperature(degrees: int | None, *, brief: bool = False, hot: bool = False) -> str:
    """Return a temperature as `61°C`, or `61°` if brief. If it is too hot, return `88°!` or `88!`."""
    if degrees is None:
        return UNKNOWN
    return f"{degrees}{'' if brief and hot else '°'}{'!' if hot else '' if brief else 'C'}"


def watts(used: float | None, limit: float | None) -> str:
    """Return the power without its unit, which is in the column heading."""
    if used is None:
        return UNKNOWN
    return f"{used:.0f}" if limit is None else f"{used:.0f}/{limit:.0f}"


def power(used: float | None, limit: float | None) -> str:
    return UNKNOWN if used is None else f"{watts(used, limit)}W"


# Processes

HEADING = f"{'pid':>8}  {'whose':<17} {'memory':>7}  {'age':>6}  command"


def process_lines(view: View, device: DevicePicture) -> list[str]:
    """Return one line for each process, largest first."""
    on_it = sorted(device.sample.processes, key=lambda each: -(each.memory or 0))
    return [process_line(each, owner_of(view, device, each), view.now) for each in on_it]


def leftover_of(device: DevicePicture, process: ProcessSample) -> JobId | None:
    """Return the ended job that left this process behind, or None."""
    return next((each.job for each in device.leftovers if each.pid == process.pid), None)


def owner_of(view: View, device: DevicePicture, process: ProcessSample) -> str:
    """Return who owns a process: our job, the ended job that left it behind, or its user."""
    job = view.picture.pids.get(process.pid)
    if job is not None:
        return f"#{job}"
    former_job = leftover_of(device, process)
    if former_job is not None:
        return f"left over from #{former_job}"
    user = plain(process.user or "?")
    return user if device.state is None else f"{clipped(user, 7)}, external"


def process_line(process: ProcessSample, owner: str, now: float) -> str:
    memory = UNKNOWN if process.memory is None else size(process.memory)
    age = UNKNOWN if process.started is None else duration_cell(now - process.started)
    kind = "" if process.compute else "(graphics) "
    return f"{process.pid:>8}  {ljust(owner, 17)} {memory:>7}  {age:>6}  {kind}{command_of(process)}"


def command_of(process: ProcessSample) -> str:
    return plain(process.command or ("not visible here" if process.alive else "no such process here"))
