"""Which processes and devices of a sample are which job's. Looks at the scheduler, changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from gputui.core.job import JobId, Running, Stopping, Suspended
from gputui.core.scheduler import Scheduler
from gputui.gpus.identity import find
from gputui.gpus.picture import Leftover
from gputui.gpus.sample import Sample
from gputui.gpus.strangers import ours_in
from gputui.gpus.usage import DeviceHolding


def ours(scheduler: Scheduler, sample: Sample, token: Callable[[JobId, int], str]) -> dict[int, JobId]:
    """The processes of attempts under way, by their token or by the wrapper that leads their kernel session."""
    runs: dict[str, JobId] = {}
    wrappers: dict[int, JobId] = {}
    for job_id in scheduler.book.active:
        job = scheduler.book[job_id]
        assert job.active is not None
        runs[token(job_id, job.active.attempt)] = job_id
        if isinstance(job.state, Running | Suspended | Stopping) and job.state.pid is not None:
            wrappers[job.state.pid] = job_id
    return ours_in(sample, runs, wrappers)


def left_behind(sample: Sample, session: str, ours: dict[int, JobId]) -> tuple[Leftover, ...]:
    """Processes on a device that carry the token of an attempt that is over."""
    leftovers: dict[int, Leftover] = {}
    for process in (process for device in sample.devices for process in device.processes):
        match (process.run or "").split("."):
            case [name, job, attempt] if name == session and job.isdecimal() and attempt.isdecimal():
                if process.alive and process.pid not in ours:
                    leftovers[process.pid] = Leftover(process.pid, int(job), int(attempt))
    return tuple(leftovers.values())


def holdings(scheduler: Scheduler, sample: Sample) -> list[DeviceHolding]:
    """Every attempt under way with the devices it was given, whether it uses them or not."""
    held = []
    for job_id in scheduler.book.active:
        placed = scheduler.book[job_id].active
        assert placed is not None
        keys = tuple(device.key for word in placed.gpus if (device := find(sample.devices, word)) is not None)
        held.append(DeviceHolding(job_id, placed.attempt, keys, placed.since))
    return held
