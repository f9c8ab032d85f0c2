"""Snapshots in the shapes that `--json` promises: stable, additions only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any

from gputui.core.job import Attempt, Crashed, Job, JobId, Running, StateName, Stopping, Suspended
from gputui.core.lanes import Lane
from gputui.core.scheduler import Moment
from gputui.core.snapshot import Snapshot
from gputui.core.states import FAILURES
from gputui.core.transitions import words
from gputui.core.views.parameter_columns import parameters_of
from gputui.core.views.standing import standing
from gputui.process.processes import command_of
from gputui.session.files.folders import Folders

ENDED, DONE, STARTED = range(3)
"""What happens in one turn has one time: what is done about an end comes after it, and a start after what led to it."""


def scheduler_json(snapshot: Snapshot, *, owned: bool) -> dict[str, Any]:
    """`state` is what the scheduler may do, `standing` what comes of it: running, waiting, idle, done …"""
    cause, stands = snapshot.cause, standing(snapshot, owned=owned)
    return {
        "state": snapshot.mode,
        "standing": stands.word,
        "awaits": stands.awaits or None,
        "cause": None
        if cause is None
        else {
            "kind": cause.kind,
            "message": cause.message,
            "jobs": list(cause.jobs),
            "signature": cause.signature,
            "since": cause.since,
        },
    }


def row_json(job: Job, why: str | None) -> dict[str, Any]:
    """What a table shows of a job; one that never ran has no more to tell, and there may be very many of them."""
    row = {
        "id": job.id,
        "name": job.name,
        "group": job.spec.group,
        "command": job.spec.command,
        "state": job.state.name,
        "priority": job.priority,
        "why": why,
    }
    return row | run_json(job) if job.issued or job.state.name is StateName.SKIPPED else row


def run_json(job: Job) -> dict[str, Any]:
    """How the newest attempt goes or went."""
    placed, last = job.active, job.attempts[-1] if job.attempts else None
    over = last if placed is None else None
    return {
        "exit_code": over.exit_code if over is not None else None,
        "signal": over.end.signal if over is not None and isinstance(over.end, Crashed) else None,
        "gpus": list(placed.gpus if placed is not None else over.gpus if over is not None else ()),
        "started": placed.since if placed is not None else over.started if over is not None else None,
        "ended": over.ended if over is not None else None,
        "end": _end_words(job, over),
    }


def job_json(job: Job, folders: Folders, why: str | None) -> dict[str, Any]:
    placed = job.active
    number = placed.attempt if placed is not None else job.attempts[-1].number if job.attempts else 0
    files = folders.written(job, number) if number else None
    return {
        **row_json(job, why),
        **run_json(job),
        "params": parameters_of(job.spec),
        "cwd": job.spec.cwd,
        "attempt": job.issued,
        "pid": pid_of(job),
        "wrapper": _wrapper_of(job),
        "kill_at": job.state.deadline if isinstance(job.state, Stopping) else None,
        "added": job.added,
        "out": files.out if files is not None else None,
        "err": files.err if files is not None else None,
        "progress": None,
        "left": _left_json(job.attempts[-1]) if job.attempts else [],
    }


def _end_words(job: Job, over: Attempt | None) -> str | None:
    if job.state.name is StateName.SKIPPED:
        return words(job.state)  # type: ignore[arg-type]  # the name says it is an end
    return over.said if over is not None and job.state.name in FAILURES else None


def attempt_json(job: Job, attempt: Attempt, folders: Folders) -> dict[str, Any]:
    files = folders.written(job, attempt.number)
    return {
        "number": attempt.number,
        "state": attempt.end.name,
        "exit_code": attempt.exit_code,
        "signal": attempt.end.signal if isinstance(attempt.end, Crashed) else None,
        "gpus": list(attempt.gpus),
        "started": attempt.started,
        "ended": attempt.ended,
        "out": files.out,
        "err": files.err,
        "gpu_mean": attempt.usage.gpu_mean if attempt.usage is not None else None,
        "gpu_peak_memory": attempt.usage.gpu_peak_memory if attempt.usage is not None else None,
        "gpu_seconds": attempt.usage.gpu_seconds if attempt.usage is not None else None,
        "signature": attempt.signature,
        "message": attempt.said,
        "kind": attempt.kind,
        "environment": attempt.environment,
        "pid": None,
        "wrapper": attempt.pid,
        "left": _left_json(attempt),
    }


def pid_of(job: Job) -> int | None:
    """The command's own, by which it can be signalled; None: it is not there yet, or not any more."""
    wrapper = _wrapper_of(job)
    return command_of(wrapper) if wrapper is not None else None


def _wrapper_of(job: Job) -> int | None:
    return job.state.pid if isinstance(job.state, Running | Suspended | Stopping) else None


def _left_json(attempt: Attempt) -> list[dict[str, Any]]:
    return [{"pid": one.pid, "started": one.started, "words": one.words} for one in attempt.left]


def story_json(job: Job, moments: Iterable[Moment]) -> list[dict[str, Any]]:
    """What the attempts tell and what the user did, in the order it happened."""
    done = ((moment.at, DONE, moment.text) for moment in moments)
    told = merge(_attempts_told(job), done, key=lambda line: line[:2])
    return [{"time": at, "text": text} for at, _, text in told]


def _attempts_told(job: Job) -> Iterator[tuple[float, int, str]]:
    yield job.added, ENDED, "added"
    for attempt in job.attempts:
        yield attempt.started, STARTED, f"attempt {attempt.number} started{_where(attempt.gpus)}"
        why = f": {attempt.said}" if attempt.said else ""
        yield attempt.ended, ENDED, f"attempt {attempt.number} {attempt.end.name}{why}"
    if job.active is not None:
        yield job.active.since, STARTED, f"attempt {job.active.attempt} started{_where(job.active.gpus)}"


def _where(gpus: tuple[str, ...]) -> str:
    return f" on GPU {', '.join(gpus)}" if gpus else ""


def lanes_json(snapshot: Snapshot) -> list[dict[str, Any]]:
    leaving = {lane.id for lane in snapshot.leaving}
    return [_lane_json(snapshot, lane, leaving) for lane in (*snapshot.lanes, *snapshot.leaving)]


def _lane_json(snapshot: Snapshot, lane: Lane, leaving: set[int]) -> dict[str, Any]:
    job: JobId | None = snapshot.holders.get(lane.id)
    state = "draining" if lane.id in leaving else "busy" if job is not None else "free"
    return {"id": lane.id, "devices": list(lane.devices), "kind": lane.kind, "job": job, "state": state}
