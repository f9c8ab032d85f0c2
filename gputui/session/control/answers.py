"""Conversion of snapshots, jobs and results to the replies defined in `session/messages.py`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from gputui.core.eta import progress_of
from gputui.core.events import Refusal
from gputui.core.job import (
    FAILURES,
    WORDS,
    Attempt,
    Failed,
    Job,
    JobId,
    Running,
    StateName,
    Stopping,
    Suspended,
    describe_end,
)
from gputui.core.parameters import parameters_of
from gputui.core.results import Curve, JobResults, MainMetric, direction_of, parse_wanted_metric
from gputui.core.scheduler import HistoryEntry
from gputui.core.snapshot import Snapshot
from gputui.process.processes import command_of
from gputui.session.job_directories import Directories
from gputui.session.messages import (
    CauseShown,
    CurvePoint,
    HistoryLine,
    JobRow,
    ListedJob,
    MainMetricShown,
    MetricShown,
    NeverShown,
    OutlookShown,
    PausedShown,
    SchedulerShown,
    ShownAttempt,
    ShownJob,
    SlotShown,
)
from gputui.views.format import silence
from gputui.views.status import queue_status
from gputui.views.waiting import Reason, needs, waiting_reason, why

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner
    from gputui.session.session_copy import SessionCopy


# Sessions and jobs


ENDED, DONE, STARTED = range(3)
"""Sort order of history lines with the same time: first ends, then actions taken after them, then starts."""


def scheduler_shown(snapshot: Snapshot, *, owned: bool) -> SchedulerShown:
    status, cause_shown = queue_status(snapshot, owned=owned), None
    if (cause := snapshot.cause) is not None:
        cause_shown = CauseShown(cause.kind, cause.message, cause.jobs, cause.signature, cause.since, cause.count)
    paused_scopes = tuple(
        PausedShown(
            group=paused.group,
            message=paused.cause.message,
            jobs=paused.cause.jobs,
            count=paused.cause.count,
            signature=paused.cause.signature,
            since=paused.cause.since,
            common=paused.common,
            job=paused.job,
            probing=paused.probing,
            at=paused.at,
            alive_after=paused.life,
        )
        for paused in snapshot.paused_scopes
    )
    return SchedulerShown(snapshot.mode, status.word, status.awaits or None, cause_shown, paused_scopes)


def outlook_shown(snapshot: Snapshot) -> OutlookShown:
    outlook = snapshot.outlook
    never = tuple(NeverShown(job.job, needs(job.request)) for job in outlook.never)
    return OutlookShown(outlook.at, outlook.jobs, outlook.unknown, never)


def row(job: Job, results: dict[str, Any], why: str | None) -> JobRow:
    if not job.issued and job.state.name is not StateName.SKIPPED:
        return JobRow(**_row_fields(job, why))  # fewer fields, because very many jobs may never have run
    return JobRow(**_row_fields(job, why), **_run_fields(job, _ended_attempt(job)), **results)


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


def _ended_attempt(job: Job) -> Attempt | None:
    """Return the newest attempt if no attempt is active, or None."""
    return job.attempts[-1] if job.active is None and job.attempts else None


def _run_fields(job: Job, ended: Attempt | None) -> dict[str, Any]:
    """Return the reply fields about the newest attempt."""
    if job.active is not None:
        return {"gpus": job.active.gpus, "started": job.active.since}
    if ended is None:
        return {"end": _end_reason(job, None)}
    return {
        "exit_code": ended.exit_code,
        "signal": ended.end.signal if isinstance(ended.end, Failed) else None,
        "gpus": ended.gpus,
        "started": ended.started,
        "ended": ended.ended,
        "end": _end_reason(job, ended),
    }


def listed_job(job: Job, directories: Directories, results: dict[str, Any], why: str | None) -> ListedJob:
    return ListedJob(**_listed_fields(job, directories, why), **results)


def shown_job(job: Job, directories: Directories, results: dict[str, Any], why: str | None, **more: Any) -> ShownJob:
    """Return the reply to `Show`. `more` contains the fields that only the owner can provide."""
    fields = _listed_fields(job, directories, why) | results
    return ShownJob(**fields, spec=job.spec, archived=job.archived, directory=directories.directory(job), **more)


def _listed_fields(job: Job, directories: Directories, why: str | None) -> dict[str, Any]:
    placed, ended = job.active, _ended_attempt(job)
    number = placed.attempt if placed is not None else ended.number if ended is not None else 0
    files = directories.current_files(job, number) if number else None
    return {
        **_row_fields(job, why),
        **_run_fields(job, ended),
        "params": parameters_of(job.spec),
        "cwd": job.spec.cwd,
        "attempt": job.issued,
        "pid": pid_of(job),
        "wrapper": _wrapper_of(job),
        "kill_at": job.state.deadline if isinstance(job.state, Stopping) else None,
        "added": job.added,
        "out": files.out if files is not None else None,
        "err": files.err if files is not None else None,
        "left": job.attempts[-1].left if job.attempts else (),
    }


def _end_reason(job: Job, ended: Attempt | None) -> str | None:
    if job.state.name is StateName.SKIPPED:
        return describe_end(job.state)  # type: ignore[arg-type]  # a skipped state is an end
    return ended.reason if ended is not None and job.state.name in FAILURES else None


def shown_attempt(
    job: Job, attempt: Attempt, directories: Directories, results: dict[str, MetricShown]
) -> ShownAttempt:
    files, usage = directories.current_files(job, attempt.number), attempt.usage
    return ShownAttempt(
        number=attempt.number,
        state=attempt.end.name,
        exit_code=attempt.exit_code,
        signal=attempt.end.signal if isinstance(attempt.end, Failed) else None,
        gpus=attempt.gpus,
        started=attempt.started,
        ended=attempt.ended,
        out=files.out,
        err=files.err,
        gpu_mean=usage.gpu_mean if usage is not None else None,
        gpu_peak_memory=usage.gpu_peak_memory if usage is not None else None,
        gpu_seconds=usage.gpu_seconds if usage is not None else None,
        signature=attempt.signature,
        message=attempt.reason,
        kind=attempt.kind,
        environment=attempt.environment,
        wrapper=attempt.pid,
        left=attempt.left,
        results=results,
    )


def pid_of(job: Job) -> int | None:
    """Return the pid of the command itself, or None if it is not running."""
    wrapper = _wrapper_of(job)
    return command_of(wrapper) if wrapper is not None else None


def _wrapper_of(job: Job) -> int | None:
    return job.state.pid if isinstance(job.state, Running | Suspended | Stopping) else None


def history_lines(job: Job, moments: Iterable[HistoryEntry]) -> list[HistoryLine]:
    """Return the starts and ends of the job's attempts, together with what was done in between, in
    chronological order.
    """
    done = ((moment.at, DONE, moment.text) for moment in moments)
    lines = merge(_attempt_lines(job), done, key=lambda line: line[:2])
    return [HistoryLine(at, text) for at, _, text in lines]


def _attempt_lines(job: Job) -> Iterator[tuple[float, int, str]]:
    yield job.added, ENDED, "added"
    for attempt in job.attempts:
        yield attempt.started, STARTED, f"attempt {attempt.number} started{_on_gpus(attempt.gpus)}"
        why = f": {attempt.reason}" if attempt.reason else ""
        yield attempt.ended, ENDED, f"attempt {attempt.number} {WORDS[attempt.end.name]}{why}"
    if job.active is not None:
        yield job.active.since, STARTED, f"attempt {job.active.attempt} started{_on_gpus(job.active.gpus)}"


def _on_gpus(gpus: tuple[str, ...]) -> str:
    return f" on GPU {', '.join(gpus)}" if gpus else ""


def shown_slots(snapshot: Snapshot) -> list[SlotShown]:
    leaving, slots = {slot.id for slot in snapshot.leaving}, []
    for slot in (*snapshot.slots, *snapshot.leaving):
        job: JobId | None = snapshot.holders.get(slot.id)
        idle = "blocked" if slot.id in snapshot.blocked else "free"
        state = "draining" if slot.id in leaving else "busy" if job is not None else idle
        slots.append(SlotShown(slot.id, slot.devices, slot.kind, job, state))
    return slots


# Results


def main_metric(metric: MainMetric | None) -> MainMetricShown | None:
    return MainMetricShown(metric.name, metric.direction, metric.is_chosen) if metric is not None else None


def job_results(snapshot: Snapshot, job: Job, now: float) -> dict[str, Any]:
    """Return the reply fields for the results of the newest attempt that printed any results."""
    results = snapshot.results.get(job.id)
    silent = {"silent_since": snapshot.silent_since(job, now)} if job.active is not None else {}
    if results is None:
        return silent
    eta, metrics = snapshot.job_eta(job, now), attempt_results(results)
    progress = progress_of(job, results) if job.active is not None else results.progress
    return {**silent, "progress": progress, "note": results.note, "eta": eta, "results": metrics}


def attempt_results(results: JobResults | None) -> dict[str, MetricShown]:
    metrics = results.metrics if results is not None else ()
    return {
        metric.name: MetricShown(
            _finite(metric.last), _finite(metric.best), metric.best_step, metric.low, metric.high, metric.count
        )
        for metric in metrics
    }


def points_of(curves: Iterable[Curve], metric: str | None) -> dict[str, list[CurvePoint]]:
    """Return the points of each curve, or of only one curve if `metric` is given."""
    return {
        curve.name: [CurvePoint(point.step, point.at, _finite(point.value)) for point in curve.points]
        for curve in curves
        if metric is None or curve.name == metric
    }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


# Job details and why jobs wait


class Details(Struct, frozen=True):
    """Everything that the details view shows about a job."""

    job: Job
    directory: str
    why: str | None
    remark: str | None
    history: tuple[tuple[float, str], ...]
    environment: dict[str, str]
    pid: int | None = None
    """The pid of the command itself, or None if it is not running."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Environments of the job's attempts by digest. Empty if all attempts used the same environment."""
    results: dict[int, JobResults] = field(default_factory=dict)
    """Results by attempt number."""


def remark(owner: Owner | SessionCopy, job: Job, now: float) -> str | None:
    """Return what is unusual about a running job, or None."""
    return owner.scheduler.remarks.get(job.id) or silence(owner.snapshot, job, now) or owner.devices.remark(job)


def why_or_remark(owner: Owner | SessionCopy, job: Job, now: float) -> str | None:
    """Return why a job is waiting or what is unusual about a running job, or None."""
    return why(owner.scheduler, job, now) or remark(owner, job, now)


def reasons(owner: Owner, jobs: Sequence[JobId]) -> dict[JobId, Reason]:
    """Return why each of these jobs is waiting or what is unusual about it. Jobs without a reason are left out."""
    now = time.time()
    reasons: dict[JobId, Reason] = {}
    for job_id in jobs:
        job = owner.scheduler.book[job_id]
        if (reason := waiting_reason(owner.scheduler, job, now)) is not None:
            reasons[job_id] = reason
        elif text := remark(owner, job, now):
            reasons[job_id] = Reason(text)
    return reasons


def details(owner: Owner, job_id: JobId) -> Details:
    job = owner.scheduler.book[job_id]
    environment = owner.environment(job.spec.environment)
    used = {attempt.environment for attempt in job.attempts} | {job.active.environment if job.active else ""} - {""}
    return Details(
        job=job,
        directory=owner.directories.directory(job),
        why=why(owner.scheduler, job, time.time()),
        remark=remark(owner, job, time.time()),
        history=tuple((line.time, line.text) for line in history_lines(job, owner.store.history(job_id))),
        environment={**environment, **job.spec.variables},
        pid=pid_of(job),
        environments={name: owner.environment(name) for name in used} if len(used) > 1 else {},
        results=owner.results.attempts(job_id),
    )


def find_metric(snapshot: Snapshot, written: str) -> MainMetric | None:
    """Parse a metric such as `val_acc max`. Return None for an empty string, which stands for the session's metric.
    Raise Refusal if no job has printed the metric.
    """
    if not written:
        return None
    try:
        wanted = parse_wanted_metric(written)
    except ValueError as error:
        raise Refusal(str(error)) from None
    if wanted.name is None:
        raise Refusal(f'{written!r} is not a metric name; set a regex per job: metric = "…"')
    metric_names = {metric.name for results in snapshot.results.values() for metric in results.metrics}
    if wanted.name not in metric_names:
        names = ", ".join(sorted(metric_names)[:20]) or "nothing"
        raise Refusal(f"no job has printed {wanted.name}; found: {names}")
    return MainMetric(wanted.name, wanted.direction or direction_of(wanted.name), is_chosen=True)
