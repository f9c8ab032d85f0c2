"""Who has a device, its processes and figures, its short name, and what can be done about it."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct

from gputui.core.amounts import duration_cell
from gputui.core.amounts import duration_words as duration
from gputui.core.amounts import memory as size
from gputui.core.job import JobId, StateName
from gputui.core.snapshot import Snapshot
from gputui.gpus.machine import MachineFacts
from gputui.gpus.picture import DevicePicture, DevicesPicture, LaneState
from gputui.gpus.sample import DeviceSample, ProcessSample
from gputui.gpus.strangers import Stranger
from gputui.logs.plain import plain
from gputui.session.devices.lane_changes import stoppable
from gputui.tui.queue.row_facts import clock
from gputui.views.format import cut as clipped
from gputui.views.format import width

# ---- Who has a device, in a few words ----


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


# ---- Short names for devices ----


_NOISE = re.compile(
    r"\b(?:NVIDIA|GeForce|Tesla|Quadro|Graphics|Generation|CPU|Processor|\d+-Core|HBM\d\w*|PCIe?)\b"
    r"|-?\b(?:SXM\d*|PCIE)\b|\((?:R|TM)\)|@.*$",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"(\d+)\s?GB\b")
_SLICE = re.compile(r"MIG\s+(\S+)")


def short(name: str) -> str:
    """What tells one card from another, and nothing else."""
    bare = _MEMORY.sub(r"\1G", _NOISE.sub(" ", plain(name)))
    joined = re.sub(r"\s*-\s*-?\s*", "-", " ".join(bare.split())).strip("- ")
    return re.sub(r"-(\d+G)$", r" \1", joined) or plain(name)


def device_name(device: DeviceSample) -> str:
    """A MIG instance is named by its slice, below its parent."""
    if device.mig is not None:
        slice_name = _SLICE.search(device.name)
        return f"└ {plain(slice_name[1]) if slice_name else f'{device.mig.gpu_instance}/{device.mig.compute_instance}'}"
    if device.uuid.startswith("CPU-"):
        return "lane"
    return "simulated" if device.uuid.startswith("SIM-") else short(device.name)


# ---- What can be done about a device as it is now, each in one sentence ----


class DeviceChoice(StrEnum):
    """What the user wants done about the device."""

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
"""Lower case never touches running work; capitals may."""


def choices(device: DevicePicture, snapshot: Snapshot | None) -> Iterator[tuple[DeviceChoice, str]]:
    """Nothing where there is no session."""
    if snapshot is None or device.state is None:
        return
    jobs = stoppable(device, snapshot)
    named = ", ".join(f"#{job.id}" for job in jobs)
    if device.elsewhere:
        pass  # its node decides
    elif device.state in (LaneState.FREE, LaneState.BUSY):
        end = f"; {named} may end" if jobs else ""
        yield DeviceChoice.DRAIN, f"drain: nothing more starts here{end}"
    elif device.state is LaneState.DRAINING or device.drained or device.sample.schedulable:
        yield DeviceChoice.ENABLE, "enable: jobs may start here"
    if jobs:
        yield DeviceChoice.REQUEUE, f"requeue {named}; checkpoints are kept"
        yield DeviceChoice.KILL, f"kill {named}"
    if device.leftovers:
        left_by = ", ".join(f"#{job}" for job in dict.fromkeys(each.job for each in device.leftovers))
        pids = ", ".join(str(each.pid) for each in device.leftovers)
        yield DeviceChoice.KILL_LEFTOVERS, f"kill what {left_by} left behind (pid {pids})"


# ---- Figures as text of a fixed width, so that nothing shifts when they change ----


UNKNOWN = "–"
_GIB = 1024**3


def percent(value: float | None) -> str:
    return f"{UNKNOWN if value is None else f'{value:.0f}%':>4}"


def memory(used: int | None, total: int | None, *, brief: bool = False) -> str:
    """`28.1/40G`, briefly `28/40G`; in terabytes for the largest machines."""
    unit, letter = (_GIB * 1024, "T") if (total or 0) >= 1000 * _GIB else (_GIB, "G")
    if used is None and total is None:
        return UNKNOWN
    coarse = brief and used is not None and total is not None and total >= 9.95 * unit
    amount = f"{(used or 0) / unit:.0f}" if coarse else _amount(used, unit)
    return f"{amount}/{_total(total, unit)}{letter}"


def memory_width(total: int | None, *, brief: bool = False) -> int:
    """Of the widest text for a device of this size."""
    if total is None:
        return 1
    unit = _GIB * 1024 if total >= 1000 * _GIB else _GIB
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
    """`61°C`, briefly `61°`; too hot is `88°!` and `88!`, no wider."""
    if degrees is None:
        return UNKNOWN
    return f"{degrees}{'' if brief and hot else '°'}{'!' if hot else '' if brief else 'C'}"


def watts(used: float | None, limit: float | None) -> str:
    """Below a heading that tells the unit."""
    if used is None:
        return UNKNOWN
    return f"{used:.0f}" if limit is None else f"{used:.0f}/{limit:.0f}"


def power(used: float | None, limit: float | None) -> str:
    return UNKNOWN if used is None else f"{watts(used, limit)}W"


# ---- The processes on a device, one line each ----


HEADING = f"{'pid':>8}  {'whose':<17} {'memory':>7}  {'age':>6}  command"


def process_lines(view: View, device: DevicePicture) -> list[str]:
    """The largest first."""
    on_it = sorted(device.sample.processes, key=lambda each: -(each.memory or 0))
    return [process_line(each, owner_of(view, device, each), view.now) for each in on_it]


def left_over(device: DevicePicture, process: ProcessSample) -> JobId | None:
    """The job that is over and left it."""
    return next((each.job for each in device.leftovers if each.pid == process.pid), None)


def owner_of(view: View, device: DevicePicture, process: ProcessSample) -> str:
    """Our job, what it left, or a user whose process is not ours."""
    job = view.picture.pids.get(process.pid)
    if job is not None:
        return f"#{job}"
    former_job = left_over(device, process)
    if former_job is not None:
        return f"left by #{former_job}"
    user = plain(process.user or "?")
    return user if device.state is None else f"{clipped(user, 7)}, not ours"


def process_line(process: ProcessSample, owner: str, now: float) -> str:
    memory = UNKNOWN if process.memory is None else size(process.memory)
    age = UNKNOWN if process.started is None else duration_cell(now - process.started)
    command = process.command or ("not visible here" if process.alive else "no such process here")
    kind = "" if process.compute else "(graphics) "
    return f"{process.pid:>8}  {padded(owner, 17)} {memory:>7}  {age:>6}  {kind}{plain(command)}"


def padded(text: str, columns: int) -> str:
    text = clipped(text, columns)
    return text + " " * (columns - width(text))
