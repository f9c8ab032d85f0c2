"""Snapshots and jobs in the shapes that are answered (`session/messages/replies.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any

from gputui.core.attempts.end_words import words
from gputui.core.job import Attempt, Crashed, Job, JobId, Running, StateName, Stopping, Suspended
from gputui.core.lanes import Lane
from gputui.core.scheduler import Moment
from gputui.core.snapshot import Snapshot
from gputui.core.states import FAILURES, WORDS
from gputui.core.views.caution import Caution
from gputui.core.views.parameter_columns import parameters_of
from gputui.core.views.standing import standing
from gputui.process.processes import command_of
from gputui.session.files.folders import Folders
from gputui.session.messages.replies import (
    CauseShown,
    JobRow,
    LaneShown,
    LeftShown,
    ListedJob,
    MetricShown,
    PausedShown,
    SchedulerShown,
    ShownAttempt,
    ShownJob,
    StoryLine,
)

NO_METRICS: dict[str, MetricShown] = {}
ENDED, DONE, STARTED = range(3)
"""What happens in one turn has one time: what is done about an end comes after it, and a start after what led to it."""


def scheduler_shown(snapshot: Snapshot, *, owned: bool) -> SchedulerShown:
    cause, stands = snapshot.cause, standing(snapshot, owned=owned)
    cause_shown = (
        CauseShown(cause.kind, cause.message, cause.jobs, cause.signature, cause.since, cause.count)
        if cause is not None
        else None
    )
    paused = tuple(map(_paused_shown, snapshot.cautions))
    return SchedulerShown(snapshot.mode, stands.word, stands.awaits or None, cause_shown, paused)


def _paused_shown(caution: Caution) -> PausedShown:
    cause = caution.cause
    return PausedShown(
        group=caution.group,
        message=cause.message,
        jobs=cause.jobs,
        count=cause.count,
        signature=cause.signature,
        since=cause.since,
        common=caution.common,
        job=caution.job,
        trying=caution.tries,
        at=caution.at,
        alive_after=caution.life,
    )


def row(job: Job, results: dict[str, Any], why: str | None) -> JobRow:
    """One that never ran has no more to tell, and there may be very many of them."""
    if not job.issued and job.state.name is not StateName.SKIPPED:
        spec = job.spec
        return JobRow(
            id=job.id,
            name=job.name,
            group=spec.group,
            command=spec.command,
            state=job.state.name,
            priority=job.priority,
            why=why,
        )
    return JobRow(**_row_fields(job, why), **_run_fields(job, _over(job)), **results)


def _row_fields(job: Job, why: str | None) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "group": job.spec.group,
        "command": job.spec.command,
        "state": job.state.name,
        "priority": job.priority,
        "why": why,
    }


def _over(job: Job) -> Attempt | None:
    """The newest attempt, when it has ended."""
    return job.attempts[-1] if job.active is None and job.attempts else None


def _run_fields(job: Job, over: Attempt | None) -> dict[str, Any]:
    """How the newest attempt goes or went."""
    placed = job.active
    if placed is not None:
        silent_since = job.state.silent_since if isinstance(job.state, Running) else None
        return {"gpus": placed.gpus, "started": placed.since, "silent_since": silent_since}
    if over is None:
        return {"end": _end_words(job, None)}
    return {
        "exit_code": over.exit_code,
        "signal": over.end.signal if isinstance(over.end, Crashed) else None,
        "gpus": over.gpus,
        "started": over.started,
        "ended": over.ended,
        "end": _end_words(job, over),
    }


def listed_job(job: Job, folders: Folders, results: dict[str, Any], why: str | None) -> ListedJob:
    return ListedJob(**_listed_fields(job, folders, why), **results)


def shown_job(job: Job, folders: Folders, results: dict[str, Any], why: str | None, **more: Any) -> ShownJob:
    """`more`: what only the owner knows of it."""
    fields = _listed_fields(job, folders, why) | results
    return ShownJob(**fields, spec=job.spec, archived=job.archived, folder=folders.folder(job), **more)


def _listed_fields(job: Job, folders: Folders, why: str | None) -> dict[str, Any]:
    placed, over = job.active, _over(job)
    number = placed.attempt if placed is not None else over.number if over is not None else 0
    files = folders.written(job, number) if number else None
    return {
        **_row_fields(job, why),
        **_run_fields(job, over),
        "params": parameters_of(job.spec),
        "cwd": job.spec.cwd,
        "attempt": job.issued,
        "pid": pid_of(job),
        "wrapper": _wrapper_of(job),
        "kill_at": job.state.deadline if isinstance(job.state, Stopping) else None,
        "added": job.added,
        "out": files.out if files is not None else None,
        "err": files.err if files is not None else None,
        "left": _left_shown(job.attempts[-1]) if job.attempts else [],
    }


def _end_words(job: Job, over: Attempt | None) -> str | None:
    if job.state.name is StateName.SKIPPED:
        return words(job.state)  # type: ignore[arg-type]  # the name says it is an end
    return over.said if over is not None and job.state.name in FAILURES else None


def shown_attempt(
    job: Job, attempt: Attempt, folders: Folders, results: dict[str, MetricShown] = NO_METRICS
) -> ShownAttempt:
    files, usage = folders.written(job, attempt.number), attempt.usage
    return ShownAttempt(
        number=attempt.number,
        state=attempt.end.name,
        exit_code=attempt.exit_code,
        signal=attempt.end.signal if isinstance(attempt.end, Crashed) else None,
        gpus=attempt.gpus,
        started=attempt.started,
        ended=attempt.ended,
        out=files.out,
        err=files.err,
        gpu_mean=usage.gpu_mean if usage is not None else None,
        gpu_peak_memory=usage.gpu_peak_memory if usage is not None else None,
        gpu_seconds=usage.gpu_seconds if usage is not None else None,
        signature=attempt.signature,
        message=attempt.said,
        kind=attempt.kind,
        environment=attempt.environment,
        wrapper=attempt.pid,
        left=_left_shown(attempt),
        results=results,
    )


def pid_of(job: Job) -> int | None:
    """The command's own, by which it can be signalled; None: it is not there yet, or not any more."""
    wrapper = _wrapper_of(job)
    return command_of(wrapper) if wrapper is not None else None


def _wrapper_of(job: Job) -> int | None:
    return job.state.pid if isinstance(job.state, Running | Suspended | Stopping) else None


def _left_shown(attempt: Attempt) -> list[LeftShown]:
    return [LeftShown(process.pid, process.started, process.words) for process in attempt.left]


def story_lines(job: Job, moments: Iterable[Moment]) -> list[StoryLine]:
    """What the attempts tell and what the user did, in the order it happened."""
    done = ((moment.at, DONE, moment.text) for moment in moments)
    lines = merge(_attempts_told(job), done, key=lambda line: line[:2])
    return [StoryLine(at, text) for at, _, text in lines]


def _attempts_told(job: Job) -> Iterator[tuple[float, int, str]]:
    yield job.added, ENDED, "added"
    for attempt in job.attempts:
        yield attempt.started, STARTED, f"attempt {attempt.number} started{_where(attempt.gpus)}"
        why = f": {attempt.said}" if attempt.said else ""
        yield attempt.ended, ENDED, f"attempt {attempt.number} {WORDS[attempt.end.name]}{why}"
    if job.active is not None:
        yield job.active.since, STARTED, f"attempt {job.active.attempt} started{_where(job.active.gpus)}"


def _where(gpus: tuple[str, ...]) -> str:
    return f" on GPU {', '.join(gpus)}" if gpus else ""


def shown_lanes(snapshot: Snapshot) -> list[LaneShown]:
    leaving = {lane.id for lane in snapshot.leaving}
    return [_shown_lane(snapshot, lane, leaving) for lane in (*snapshot.lanes, *snapshot.leaving)]


def _shown_lane(snapshot: Snapshot, lane: Lane, leaving: set[int]) -> LaneShown:
    job: JobId | None = snapshot.holders.get(lane.id)
    state = "draining" if lane.id in leaving else "busy" if job is not None else "free"
    return LaneShown(lane.id, lane.devices, lane.kind, job, state)
