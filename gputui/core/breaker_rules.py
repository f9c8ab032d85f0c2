"""Rules of the circuit breaker: how events change a scope, and which job is the next probe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from heapq import merge
from itertools import islice

from msgspec.structs import replace

from .amounts import duration_words
from .book import median
from .breaker import (
    LONGEST_WAIT,
    SHORTEST_WORKING_AFTER,
    Failure,
    Probe,
    Scope,
    ScopeState,
    error_cause,
    failure_of,
    joined,
    limit_of_any_kind,
)
from .events import AttemptEnded, Mode, NeverRan, NoRoom, Refusal, TryFirst
from .job import End, Ended, Failed, Job, JobId, Queued, Refused, Request, Running, Succeeded, TimedOut
from .parameters import common_parameters, params_in_common, params_missing
from .state import SchedulerState

MOST_CANDIDATES = 200
"""Maximum number of queued jobs that are considered for a probe."""
FAILURES = (Failed, TimedOut, Refused)

# Probes


class Fit(IntEnum):
    """Whether a job can be placed. The values are ordered from best to worst."""

    NOW = 0
    LATER = 1
    NEVER = 2


def failed_groups(scheduler: SchedulerState, scope: Scope) -> set[str]:
    if scope.group is not None:
        return {scope.group}
    assert scope.cause is not None
    return {scheduler.book[job].spec.group for job in scope.cause.jobs}


def next_probe(scheduler: SchedulerState, scope: Scope) -> Job | None:
    """Return the job to run as the next probe, or None if no job is eligible.

    This is the job that the user chose, or else the job that fits best and is least similar to the failed jobs.
    """
    fits: dict[Request, Fit] = {}

    def fit(job: Job) -> Fit:
        request = scheduler.effective_request(job)
        if request not in fits:
            fits[request] = _fit(scheduler, request)
        return fits[request]

    if scope.first is not None:
        job = scheduler.book[scope.first]
        is_eligible = isinstance(job.state, Queued) and scope.covers(job.spec.group) and not job.archived
        if is_eligible and fit(job) is not Fit.NEVER:
            return job
    failed = failed_groups(scheduler, scope)
    best: tuple[Fit, int] | None = None
    chosen: Job | None = None
    lines = (line for (_, group), line in scheduler.book.ready.items() if scope.covers(group))
    for place in islice(merge(*lines), MOST_CANDIDATES):
        job = scheduler.book[place.job]
        likeness = len(params_in_common(scope.common, job.spec)) if job.spec.group in failed else -1
        rank = (fit(job), likeness)
        if rank[0] is not Fit.NEVER and (best is None or rank < best):
            best, chosen = rank, job
    return chosen


def _fit(scheduler: SchedulerState, request: Request) -> Fit:
    if not scheduler.board.takes_slot(request):
        return Fit.NOW if scheduler.cpu_job_may_start else Fit.LATER
    if scheduler.fit(request) is not None:
        return Fit.NOW
    return Fit.LATER if scheduler.board.could_ever_fit(request) else Fit.NEVER


# Ends of jobs


def ended(scheduler: SchedulerState, job: Job, end: End, now: float) -> None:
    """Handle the final end of a job, unless the job is the probe. `probe_ended` handles the end of the probe."""
    if scheduler.breaker.scope_probing(job.id) is not None:
        return
    if isinstance(end, Succeeded):
        _succeeded(scheduler, job, now)
    elif isinstance(end, FAILURES) and job.attempts:
        _failed(scheduler, job, now)


def _succeeded(scheduler: SchedulerState, job: Job, now: float) -> None:
    breaker, group = scheduler.breaker, job.spec.group
    scope = breaker.scope_pausing(group)
    if scope is None:
        scheduler.breaker = replace(breaker.without(group, None), streak=breaker.streak.cleared(group))
        return
    if group in failed_groups(scheduler, scope):
        scope = replace(scope, common=params_missing(scope.common, job.spec))
    probes_by_itself = scope.state is ScopeState.PAUSED and scope.probe_at is not None
    scheduler.breaker = breaker.put(scope.due_now(now) if probes_by_itself else scope)


def _failed(scheduler: SchedulerState, job: Job, now: float) -> None:
    breaker = scheduler.breaker
    scope = breaker.scope_pausing(job.spec.group)
    if scope is not None:
        scheduler.breaker = breaker.put(_joined_by(scheduler, scope, job))
        return
    pause_after, slots = scheduler.settings.pause_after, len(scheduler.board.slots)
    keep = 2 * limit_of_any_kind(pause_after, slots)
    streak = breaker.streak.failed(failure_of(job), job.attempts[-1].started, keep)
    scheduler.breaker = replace(breaker, streak=streak)
    enough = streak.too_many(pause_after, slots)
    if enough and scheduler.wanted_mode is Mode.RUNNING:
        _trip(scheduler, enough, now)


def _trip(scheduler: SchedulerState, failures: Sequence[Failure], now: float) -> None:
    """Pause the scope of these failures.

    If nothing has succeeded since the last pause of the scope, double the wait.
    """
    group = _scope_of(scheduler, {failure.group for failure in failures})
    before, wait = scheduler.breaker.scope_of(group), scheduler.settings.probe
    if before is not None and before.wait is not None and wait is not None:
        wait = _doubled(before.wait)
    breaker = scheduler.breaker.put(_paused_scope(scheduler, group, failures, now).opened(now, wait))
    streak = breaker.streak.cleared(group) if group is not None else replace(breaker.streak, failures=())
    scheduler.breaker = replace(breaker, streak=streak)


def _doubled(wait: float | None) -> float | None:
    return min(LONGEST_WAIT, 2 * wait) if wait is not None else None


def _scope_of(scheduler: SchedulerState, groups: set[str]) -> str | None:
    """Return the group of the failures if it is the only one and jobs of other groups wait, else None for all jobs."""
    if len(groups) != 1:
        return None
    (group,) = groups
    return group if any(other != group for _, other in scheduler.book.waiting_of) else None


def _paused_scope(scheduler: SchedulerState, group: str | None, failures: Sequence[Failure], now: float) -> Scope:
    """Return a new scope for these failures. A scope of all jobs takes over the causes of the paused groups."""
    earlier = [scope for scope in scheduler.breaker.paused_scopes if group is None and scope.group is not None]
    earlier_jobs = [job for scope in earlier if scope.cause is not None for job in scope.cause.jobs]
    new = {failure.job for failure in failures}
    cause = error_cause(tuple(failures), now)
    if earlier_jobs:
        cause = joined(cause, [*_failures_of(scheduler, (job for job in earlier_jobs if job not in new)), *failures])
    failed = [scheduler.book[job] for job in cause.jobs]
    common = common_parameters(failed)
    for failed_group in {job.spec.group for job in failed}:
        for succeeded in scheduler.successes.get(failed_group, ()):
            common = params_missing(common, succeeded.spec)
    return Scope(group=group, cause=cause, common=common, life=_working_after(failed))


def _failures_of(scheduler: SchedulerState, jobs: Iterable[JobId]) -> list[Failure]:
    return [failure_of(scheduler.book[job]) for job in jobs if _has_failed(scheduler.book[job])]


def _has_failed(job: Job) -> bool:
    return bool(job.attempts) and isinstance(job.attempts[-1].end, FAILURES)


def _working_after(failed: Iterable[Job]) -> float:
    """Return the number of seconds after which a probe has run clearly longer than the failed jobs did."""
    lives = [job.attempts[-1].seconds for job in failed]
    return max(SHORTEST_WORKING_AFTER, 3 * median(lives))


def _joined_by(scheduler: SchedulerState, scope: Scope, job: Job) -> Scope:
    """Return the scope with another failed job added to its cause. The time of the next probe does not change."""
    assert scope.cause is not None
    others = _failures_of(scheduler, (other for other in scope.cause.jobs if other != job.id))
    cause = joined(scope.cause, [*others, failure_of(job)])
    life = _working_after(scheduler.book[other] for other in cause.jobs)
    return replace(scope, cause=cause, common=params_in_common(scope.common, job.spec), life=life)


# Start and end of a probe


def started(scheduler: SchedulerState, scope: Scope, job: Job, now: float) -> None:
    """Record that the due probe was given its slots."""
    assert scope.cause is not None
    scheduler.breaker = scheduler.breaker.put(scope.probing(Probe(job.id, job.issued)))
    cause = scope.cause
    errors = f"{cause.count} jobs failed" if cause.count > 1 else f"#{cause.jobs[0]} failed"
    scheduler.record_history(job.id, now, f"runs alone as a probe: {errors}", keep=True)


def probe_ended(scheduler: SchedulerState, scope: Scope, event: AttemptEnded, now: float) -> None:
    """Handle the end of the probe's attempt. `scope` is the state of the scope before that end."""
    assert scope.probe is not None
    job = scheduler.book[scope.probe.job]
    if isinstance(event.outcome, NeverRan | NoRoom):
        scheduler.breaker = scheduler.breaker.put(replace(scope.due_now(now), first=job.id))
        return
    end = job.attempts[-1].end
    # A probe that ran out of GPU memory and is retried alone says nothing about the errors.
    retried_alone = job.after_oom is not None and job.after_oom.attempt == scope.probe.attempt
    if isinstance(end, Succeeded):
        scheduler.record_history(job.id, now, "probe succeeded: resuming", keep=True)
        close(scheduler, scope, now)
    elif isinstance(end, FAILURES) and not retried_alone:
        scope = _joined_by(scheduler, scope, job)
        scheduler.breaker = scheduler.breaker.put(scope.opened(now, _doubled(scope.wait)))
    else:
        scheduler.breaker = scheduler.breaker.put(scope.opened(now, scope.wait))


def close(scheduler: SchedulerState, scope: Scope, now: float) -> None:
    """Let jobs of the scope start again."""
    breaker = scheduler.breaker.without(scope.group)
    scheduler.breaker = replace(breaker, streak=breaker.streak.reset(now, scope.group))


def outlives_at(scheduler: SchedulerState, scope: Scope) -> float | None:
    """Return when the running probe will count as working, or None if no probe is running or the probe is suspended."""
    if scope.probe is None:
        return None
    match scheduler.book[scope.probe.job].state:
        case Running(placed=placed, suspended_for=suspended_for):
            return placed.since + suspended_for + scope.life
    return None


# Timers


def next_moment(scheduler: SchedulerState) -> float | None:
    """Return when `tick` must be called next, or None if no call is needed."""
    moments = [
        moment
        for scope in scheduler.breaker.paused_scopes
        if (moment := scope.probe_at if not scope.due else None) is not None
        or (moment := outlives_at(scheduler, scope)) is not None
    ]
    return min(moments, default=None)


def tick(scheduler: SchedulerState, now: float) -> None:
    """Mark probes as due, and close the scopes of probes that have run long enough."""
    for scope in scheduler.breaker.paused_scopes:
        outlives = outlives_at(scheduler, scope)
        if scope.probe_at is not None and not scope.due and scope.probe_at <= now:
            scheduler.breaker = scheduler.breaker.put(replace(scope, due=True))
        elif scope.probe is not None and outlives is not None and outlives <= now:
            text = f"probe has run for {duration_words(scope.life)}: resuming"
            scheduler.record_history(scope.probe.job, now, text, keep=True)
            close(scheduler, scope, now)
            # Keep the wait until a job succeeds, so that another pause is longer.
            scheduler.breaker = scheduler.breaker.put(Scope(group=scope.group, wait=scope.wait))


# Commands


def halt(scheduler: SchedulerState, *, left: bool) -> None:
    """Stop probes from starting by themselves, after a pause or drain or because the session was left."""
    for scope in scheduler.breaker.paused_scopes:
        scheduler.breaker = scheduler.breaker.put(scope.halted(left=left))


def probe_setting_changed(scheduler: SchedulerState, now: float) -> None:
    for scope in scheduler.breaker.paused_scopes:
        if scope.state is ScopeState.PAUSED:
            scheduler.breaker = scheduler.breaker.put(scope.opened(now, scheduler.settings.probe))
        else:
            scheduler.breaker = scheduler.breaker.put(replace(scope, wait=scheduler.settings.probe))


def rerun(scheduler: SchedulerState, job: Job, now: float) -> None:
    """Make a rerun job the next probe if its group is paused and the user has not already chosen another job.

    If the group is not paused, forget its failures in a row.
    """
    breaker = scheduler.breaker
    scope = breaker.scope_pausing(job.spec.group)
    if scope is None:
        scheduler.breaker = replace(breaker, streak=breaker.streak.cleared(job.spec.group))
    elif scope.state is ScopeState.PAUSED:
        first_waits = scope.first is not None and not isinstance(scheduler.book[scope.first].state, Ended)
        scheduler.breaker = breaker.put(replace(scope.due_now(now), first=scope.first if first_waits else job.id))


def try_first(scheduler: SchedulerState, event: TryFirst, now: float) -> None:
    """Run one of many rerun jobs as a probe before the others."""
    jobs = [scheduler.job(job) for job in event.jobs]
    failed = [job for job in jobs if _has_failed(job) and not isinstance(job.state, Ended)]
    if scheduler.settings.pause_after == 0 or len(failed) < 2:
        return
    groups = {job.spec.group for job in failed}
    scope = scheduler.breaker.scope_pausing(failed[0].spec.group)
    if scope is None or not all(map(scope.covers, groups)):
        failures = [failure_of(job) for job in failed]
        scope = _paused_scope(scheduler, _scope_of(scheduler, groups), failures, now)
        scope = replace(scope, wait=scheduler.settings.probe)
    elif scope.state is ScopeState.PROBING:
        return
    scheduler.breaker = scheduler.breaker.put(replace(scope.due_now(now), first=failed[0].id))


def resume(scheduler: SchedulerState, now: float) -> None:
    """Let jobs start again, and ignore failures of attempts that started before now."""
    if scheduler.wanted_mode is Mode.RUNNING and not scheduler.breaker.paused_scopes:
        raise Refusal("the scheduler is not paused")
    scheduler.wanted_mode, scheduler.wanted_cause = Mode.RUNNING, None
    scheduler.breaker = replace(scheduler.breaker, scopes=(), streak=scheduler.breaker.streak.reset(now))
