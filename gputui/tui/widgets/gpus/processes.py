"""The processes on a device, one line each. Pure text, safe to show."""

from __future__ import annotations

from gputui.core.job import JobId
from gputui.core.views.amounts import duration_cell
from gputui.core.views.amounts import memory as size
from gputui.core.views.cells import cut as clipped
from gputui.core.views.cells import width
from gputui.gpus.picture import DevicePicture
from gputui.gpus.sample import ProcessSample
from gputui.logs.plain import plain

from .figures import UNKNOWN
from .occupants import View

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
