"""Snapshots, jobs and results in the shapes of the replies."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from gputui.core.eta import progress_of
from gputui.core.events import Refusal, words
from gputui.core.job import FAILURES, WORDS, Attempt, Crashed, Job, JobId, Running, StateName, Stopping, Suspended
from gputui.core.lanes import Lane
from gputui.core.parameter_columns import parameters_of
from gputui.core.results import Curve, JobResults, MainMetric, MetricResult, direction_of, wanted_of
from gputui.core.scheduler import Moment
from gputui.core.snapshot import Caution, Snapshot
from gputui.core.spans import RecordedSpan
from gputui.process.processes import command_of
from gputui.session.job_folders import Folders
from gputui.session.messages import (
    CauseShown,
    CurvePoint,
    JobRow,
    LaneShown,
    LeftShown,
    ListedJob,
    MainMetricShown,
    MetricShown,
    NeverShown,
    OutlookShown,
    PausedShown,
    SchedulerShown,
    ShownAttempt,
    ShownJob,
    StoryLine,
)
from gputui.views.format import silence
from gputui.views.results_table import results_table
from gputui.views.status import standing
from gputui.views.summary import Summary, summarize
from gputui.views.waiting import needs, why

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner
    from gputui.session.session_copy import SessionCopy


# ---- Snapshots and jobs in the shapes that are answered (`session/messages/replies.py`) ----


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


def outlook_shown(snapshot: Snapshot) -> OutlookShown:
    outlook = snapshot.outlook
    never = tuple(NeverShown(each.job, needs(each.request)) for each in outlook.never)
    return OutlookShown(outlook.at, outlook.jobs, outlook.unknown, never)


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
        return {"gpus": placed.gpus, "started": placed.since}
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
    idle = "blocked" if lane.id in snapshot.blocked else "free"
    state = "draining" if lane.id in leaving else "busy" if job is not None else idle
    return LaneShown(lane.id, lane.devices, lane.kind, job, state)


# ---- Results in the shapes that are answered (`session/messages/replies.py`) ----


def main_metric(metric: MainMetric | None) -> MainMetricShown | None:
    """What jobs are compared by."""
    return MainMetricShown(metric.name, metric.direction, metric.is_chosen) if metric is not None else None


def job_results(snapshot: Snapshot, job: Job, now: float) -> dict[str, Any]:
    """Fields of what a job's newest attempt that printed anything has come to; none where none has."""
    results = snapshot.results.get(job.id)
    silent = {"silent_since": snapshot.silent_since(job, now)} if job.active is not None else {}
    if results is None:
        return silent
    eta, metrics = snapshot.job_eta(job, now), attempt_results(results)
    progress = progress_of(job, results) if job.active is not None else results.progress
    return {**silent, "progress": progress, "note": results.note, "eta": eta, "results": metrics}


def attempt_results(results: JobResults | None) -> dict[str, MetricShown]:
    return {metric.name: _metric(metric) for metric in results.metrics} if results is not None else {}


def _metric(metric: MetricResult) -> MetricShown:
    return MetricShown(
        _number(metric.last), _number(metric.best), metric.best_step, metric.low, metric.high, metric.count
    )


def points_of(curves: Iterable[Curve], metric: str | None) -> dict[str, list[CurvePoint]]:
    """Of each metric, or of this one."""
    return {
        curve.name: [CurvePoint(point.step, point.at, _number(point.value)) for point in curve.points]
        for curve in curves
        if metric is None or curve.name == metric
    }


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


# ---- All that an owner can say of one job, and why jobs wait ----


class Details(Struct, frozen=True):
    """All that can be said of one job."""

    job: Job
    folder: str
    why: str | None
    remark: str | None
    story: tuple[tuple[float, str], ...]
    environment: dict[str, str]
    pid: int | None = None
    """The command's own; None: it has not begun, or has ended."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Those of its attempts, by digest; where all had the same, none."""
    results: dict[int, JobResults] = field(default_factory=dict)
    """What each attempt came to, as far as any printed something."""


def remark(owner: Owner | SessionCopy, job: Job, now: float) -> str | None:
    """What is odd about a job that runs."""
    said = owner.scheduler.remarks.get(job.id)
    return said or silence(owner.snapshot, job, now) or owner.devices.remark(job)


def whys(owner: Owner, jobs: Sequence[JobId]) -> dict[JobId, str]:
    """Why each of these waits, or what is odd about one that runs."""
    now = time.time()
    sentences: dict[JobId, str] = {}
    for job_id in jobs:
        job = owner.scheduler.book[job_id]
        sentence = why(owner.scheduler, job, now) or remark(owner, job, now)
        if sentence:
            sentences[job_id] = sentence
    return sentences


def details(owner: Owner, job_id: JobId) -> Details:
    job = owner.scheduler.book[job_id]
    environment = owner.environment(job.spec.environment)
    used = {attempt.environment for attempt in job.attempts} | {job.active.environment if job.active else ""} - {""}
    return Details(
        job=job,
        folder=owner.folders.folder(job),
        why=why(owner.scheduler, job, time.time()),
        remark=remark(owner, job, time.time()),
        story=tuple((line.time, line.text) for line in story_lines(job, owner.story(job_id))),
        environment={**environment, **job.spec.variables},
        pid=pid_of(job),
        environments={name: owner.environment(name) for name in used} if len(used) > 1 else {},
        results=owner.parts.results.attempts(job_id),
    )


# ---- What a client may ask of a session's results ----


def asked_metric(snapshot: Snapshot, written: str) -> MainMetric | None:
    """None: the session's own. Refusal: nobody printed it, with the names that were."""
    if not written:
        return None
    try:
        wanted = wanted_of(written)
    except ValueError as error:
        raise Refusal(str(error)) from None
    if wanted.name is None:
        raise Refusal(f'{written!r} names no result; an expression belongs to a job: metric = "…"')
    metric_names = {metric.name for results in snapshot.results.values() for metric in results.metrics}
    if wanted.name not in metric_names:
        names = ", ".join(sorted(metric_names)[:20]) or "nothing"
        raise Refusal(f"no job has printed {wanted.name}; what was read: {names}")
    return MainMetric(wanted.name, wanted.direction or direction_of(wanted.name), is_chosen=True)


def told_results(snapshot: Snapshot, metric: str, top: int | None) -> Any:
    table = results_table(snapshot, asked_metric(snapshot, metric))
    return replace(table, rows=table.rows[:top] if top is not None else table.rows)


def told_summary(snapshot: Snapshot, metric: str, left: float | None, spans: Sequence[RecordedSpan]) -> Summary:
    return summarize(snapshot, time.time(), spans, left, asked_metric(snapshot, metric))
