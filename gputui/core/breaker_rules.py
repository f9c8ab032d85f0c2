"""The breaker's table: what each event makes of a scope, and which job is tried next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .amounts import duration_words
from .book import Place
from .breaker import (
    SHORTEST_LIFE,
    Failure,
    Probe,
    Scope,
    ScopeState,
    crash_cause,
    doubled,
    failure_of,
    joined,
    limit_of_any_kind,
)
from .eta import median
from .events import AttemptEnded, Mode, NeverRan, NoRoom, Refusal, TryFirst
from .job import Crashed, End, Ended, Failed, Job, JobId, Queued, Refused, Request, Running, Succeeded, TimedOut

if TYPE_CHECKING:
    from .scheduler import Scheduler


# ---- Which waiting job is tried when jobs have crashed ----


LOOKED_AT = 200
REMEMBERED = 100

FITS, WILL_FIT, NEVER = range(3)


class Successes:
    """The last jobs of each group that succeeded: what they were told is not what makes others crash."""

    def __init__(self) -> None:
        self._of_group: dict[str, deque[JobId]] = {}

    def note(self, job: Job) -> None:
        self._of_group.setdefault(job.spec.group, deque(maxlen=REMEMBERED)).append(job.id)

    def of(self, group: str) -> tuple[JobId, ...]:
        return tuple(self._of_group.get(group, ()))


def parameters_of(job: Job) -> dict[str, str]:
    # An owner whose jobs do not crash need not load all that reads commands.
    from .parameter_columns import parameters_of

    return parameters_of(job.spec)


def shared(common: dict[str, str], job: Job) -> dict[str, str]:
    """Those of the parameters that this job has as well."""
    if not common:
        return common
    named = parameters_of(job)
    return {name: value for name, value in common.items() if named.get(name) == value}


def acquitted(common: dict[str, str], job: Job) -> dict[str, str]:
    """Those of the parameters that this job, which succeeded, does not have."""
    if not common:
        return common
    named = parameters_of(job)
    return {name: value for name, value in common.items() if named.get(name) != value}


def suspected(scheduler: Scheduler, crashed: Sequence[Job]) -> dict[str, str]:
    """What all crashed jobs share, and none of their group has succeeded with."""
    common = parameters_of(crashed[0])
    for job in crashed[1:]:
        common = shared(common, job)
    for group in sorted({job.spec.group for job in crashed}):
        for succeeded in scheduler.successes.of(group):
            common = acquitted(common, scheduler.book[succeeded])
    return common


def crashed_groups(scheduler: Scheduler, scope: Scope) -> set[str]:
    if scope.group is not None:
        return {scope.group}
    assert scope.cause is not None
    return {scheduler.book[job].spec.group for job in scope.cause.jobs}


def next_probe(scheduler: Scheduler, scope: Scope) -> Job | None:
    """The job that is tried as soon as it is due and fits; None: none in the scope is eligible."""
    fits = _Fitting(scheduler)
    wanted = _wanted(scheduler, scope)
    if wanted is not None and fits(wanted) != NEVER:
        return wanted
    crashed = crashed_groups(scheduler, scope)
    best: tuple[int, int] | None = None
    chosen: Job | None = None
    for place in islice(eligible(scheduler, scope), LOOKED_AT):
        job = scheduler.book[place.job]
        likeness = len(shared(scope.common, job)) if job.spec.group in crashed else -1
        rank = (fits(job), likeness)
        if rank[0] != NEVER and (best is None or rank < best):
            best, chosen = rank, job
    return chosen


def eligible(scheduler: Scheduler, scope: Scope) -> Iterator[Place]:
    """The places of jobs that could start, were they not paused; in the order of the queue."""
    lines = (line for (_, group), line in scheduler.book.ready.items() if scope.covers(group))
    return merge(*lines)


def _wanted(scheduler: Scheduler, scope: Scope) -> Job | None:
    if scope.first is None:
        return None
    job = scheduler.book[scope.first]
    return job if isinstance(job.state, Queued) and scope.covers(job.spec.group) and not job.archived else None


class _Fitting:
    """Whether jobs fit now; asked once for each request."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._known: dict[Request, int] = {}

    def __call__(self, job: Job) -> int:
        request = self._scheduler.asked(job)
        if request not in self._known:
            self._known[request] = self._answer(request)
        return self._known[request]

    def _answer(self, request: Request) -> int:
        scheduler = self._scheduler
        if not scheduler.board.takes_lane(request):
            return FITS if scheduler.cpu_jobs_running < scheduler.settings.cpu_jobs else WILL_FIT
        if scheduler.fit(request) is not None:
            return FITS
        return WILL_FIT if scheduler.board.could_ever_fit(request) else NEVER


# ---- The breaker's table ----


FAILURES = (Failed, Crashed, TimedOut, Refused)


def ended(scheduler: Scheduler, job: Job, end: End, now: float) -> None:
    """A job's final end. Of one that is tried, `probe_ended` tells what it means."""
    is_tried = scheduler.breaker.trying(job.id) is not None
    if isinstance(end, Succeeded):
        scheduler.successes.note(job)
        if not is_tried:
            _succeeded(scheduler, job, now)
    elif isinstance(end, FAILURES) and job.attempts and not is_tried:
        _failed(scheduler, job, now)


def _succeeded(scheduler: Scheduler, job: Job, now: float) -> None:
    breaker, group = scheduler.breaker, job.spec.group
    scope = breaker.over(group)
    if scope is None:
        scheduler.breaker = replace(breaker.without(group, None), streak=breaker.streak.cleared(group))
        return
    if group in crashed_groups(scheduler, scope):
        scope = replace(scope, common=acquitted(scope.common, job))
    goes_on = scope.state is ScopeState.OPEN and scope.probe_at is not None
    scheduler.breaker = breaker.put(scope.due_now(now) if goes_on else scope)


def _failed(scheduler: Scheduler, job: Job, now: float) -> None:
    breaker = scheduler.breaker
    scope = breaker.over(job.spec.group)
    if scope is not None:
        scheduler.breaker = breaker.put(_joined_by(scheduler, scope, job))
        return
    pause_after, lanes = scheduler.settings.pause_after, len(scheduler.board.lanes)
    keep = 2 * limit_of_any_kind(pause_after, lanes)
    streak = breaker.streak.failed(failure_of(job), job.attempts[-1].started, keep)
    scheduler.breaker = replace(breaker, streak=streak)
    enough = streak.too_many(pause_after, lanes)
    if enough and scheduler.wanted_mode is Mode.RUNNING:
        _trip(scheduler, enough, now)


def _trip(scheduler: Scheduler, failures: Sequence[Failure], now: float) -> None:
    """Nothing more starts in the scope; the wait is longer when nothing has succeeded since the last time."""
    group = _scope_of(scheduler, {failure.group for failure in failures})
    before, probe = scheduler.breaker.at(group), scheduler.settings.probe
    again = before is not None and before.wait is not None and probe is not None
    wait = doubled(before.wait) if before is not None and again else probe
    breaker = scheduler.breaker.put(_cautious(scheduler, group, failures, now).opened(now, wait))
    streak = breaker.streak.cleared(group) if group is not None else replace(breaker.streak, failures=())
    scheduler.breaker = replace(breaker, streak=streak)


def _scope_of(scheduler: Scheduler, groups: set[str]) -> str | None:
    """The one group, if another one has work that can go on meanwhile; None: all jobs."""
    if len(groups) != 1:
        return None
    (group,) = groups
    return group if any(other != group for _, other in scheduler.book.waiting_of) else None


def _cautious(scheduler: Scheduler, group: str | None, failures: Sequence[Failure], now: float) -> Scope:
    """What all jobs as one scope take over from groups that were scopes is part of the cause."""
    earlier = [scope for scope in scheduler.breaker.cautious if group is None and scope.group is not None]
    earlier_jobs = [job for scope in earlier if scope.cause is not None for job in scope.cause.jobs]
    new = {failure.job for failure in failures}
    cause = crash_cause(tuple(failures), now)
    if earlier_jobs:
        cause = joined(cause, [*_failures_of(scheduler, (job for job in earlier_jobs if job not in new)), *failures])
    crashed = [scheduler.book[job] for job in cause.jobs]
    return Scope(group=group, cause=cause, common=suspected(scheduler, crashed), life=_life_to_outlive(crashed))


def _failures_of(scheduler: Scheduler, jobs: Iterable[JobId]) -> list[Failure]:
    candidates = (scheduler.book[job] for job in jobs)
    return [failure_of(job) for job in candidates if _has_failed(job)]


def _has_failed(job: Job) -> bool:
    return bool(job.attempts) and isinstance(job.attempts[-1].end, FAILURES)


def _life_to_outlive(crashed: Iterable[Job]) -> float:
    lives = [job.attempts[-1].ended - job.attempts[-1].started for job in crashed]
    return max(SHORTEST_LIFE, 3 * median(lives))


def _joined_by(scheduler: Scheduler, scope: Scope, job: Job) -> Scope:
    """A further crash belongs to the same story; the clock stays as it is."""
    assert scope.cause is not None
    others = _failures_of(scheduler, (other for other in scope.cause.jobs if other != job.id))
    cause = joined(scope.cause, [*others, failure_of(job)])
    life = _life_to_outlive(scheduler.book[other] for other in cause.jobs)
    return replace(scope, cause=cause, common=shared(scope.common, job), life=life)


# The one that is tried


def started(scheduler: Scheduler, scope: Scope, job: Job, now: float) -> None:
    """An eligible job got its lanes when it was due."""
    scheduler.breaker = scheduler.breaker.put(scope.trying(Probe(job.id, job.issued)))
    scheduler.tell(job.id, now, f"tried alone, for {_crashes(scope)}", keep=True)


def _crashes(scope: Scope) -> str:
    assert scope.cause is not None
    return f"{scope.cause.count} jobs crashed" if scope.cause.count > 1 else f"#{scope.cause.jobs[0]} crashed"


def probe_ended(scheduler: Scheduler, scope: Scope, event: AttemptEnded, now: float) -> None:
    """The attempt that was tried is over; `scope` as it was until then."""
    assert scope.probe is not None
    job = scheduler.book[scope.probe.job]
    if isinstance(event.outcome, NeverRan | NoRoom):
        scheduler.breaker = scheduler.breaker.put(replace(scope.due_now(now), first=job.id))
        return
    end = job.attempts[-1].end
    if isinstance(end, Succeeded):
        scheduler.tell(job.id, now, "it succeeded alone: all go on", keep=True)
        close(scheduler, scope, now)
    elif isinstance(end, FAILURES) and not _runs_once_more(job, scope.probe):
        scope = _joined_by(scheduler, scope, job)
        scheduler.breaker = scheduler.breaker.put(scope.opened(now, doubled(scope.wait)))
    else:
        scheduler.breaker = scheduler.breaker.put(scope.opened(now, scope.wait))


def _runs_once_more(job: Job, probe: Probe) -> bool:
    """Its card was full, which is nobody's crash."""
    return job.after_oom is not None and job.after_oom.attempt == probe.attempt


def close(scheduler: Scheduler, scope: Scope, now: float) -> None:
    """Jobs of the scope start again, as if nothing had been."""
    breaker = scheduler.breaker.without(scope.group)
    scheduler.breaker = replace(breaker, streak=breaker.streak.reset(now, scope.group))


def _outlived(scheduler: Scheduler, scope: Scope, job: Job, now: float) -> None:
    """It has run longer than what crashed: others may too. The wait is kept until one succeeds."""
    scheduler.tell(job.id, now, f"it has run for {duration_words(scope.life)} alone: all go on", keep=True)
    close(scheduler, scope, now)
    scheduler.breaker = scheduler.breaker.put(Scope(group=scope.group, wait=scope.wait))


def outlives_at(scheduler: Scheduler, scope: Scope) -> float | None:
    """When the job that is tried will have outlived the crashes; None while it stands still, or none is tried."""
    if scope.probe is None:
        return None
    match scheduler.book[scope.probe.job].state:
        case Running(placed=placed, suspended_for=suspended_for):
            return placed.since + suspended_for + scope.life
    return None


# Moments


def next_moment(scheduler: Scheduler) -> float | None:
    """When a Tick is due for the breaker."""
    moments = [
        moment
        for scope in scheduler.breaker.cautious
        if (moment := scope.probe_at if not scope.due else None) is not None
        or (moment := outlives_at(scheduler, scope)) is not None
    ]
    return min(moments, default=None)


def tick(scheduler: Scheduler, now: float) -> None:
    for scope in scheduler.breaker.cautious:
        outlives = outlives_at(scheduler, scope)
        if scope.probe_at is not None and not scope.due and scope.probe_at <= now:
            scheduler.breaker = scheduler.breaker.put(replace(scope, due=True))
        elif scope.probe is not None and outlives is not None and outlives <= now:
            _outlived(scheduler, scope, scheduler.book[scope.probe.job], now)


# What users ask for


def halt(scheduler: Scheduler, *, left: bool) -> None:
    """A pause, a drain or leaving: no try undoes it."""
    for scope in scheduler.breaker.cautious:
        scheduler.breaker = scheduler.breaker.put(scope.halted(left=left))


def probe_setting_changed(scheduler: Scheduler, now: float) -> None:
    for scope in scheduler.breaker.cautious:
        if scope.state is ScopeState.OPEN:
            scheduler.breaker = scheduler.breaker.put(scope.opened(now, scheduler.settings.probe))
        else:
            scheduler.breaker = scheduler.breaker.put(replace(scope, wait=scheduler.settings.probe))


def rerun(scheduler: Scheduler, job: Job, now: float) -> None:
    """Of one job: while its scope is open it is the next that is tried, unless another one was asked for before."""
    breaker = scheduler.breaker
    scope = breaker.over(job.spec.group)
    if scope is None:
        scheduler.breaker = replace(breaker, streak=breaker.streak.cleared(job.spec.group))
    elif scope.state is ScopeState.OPEN:
        first_waits = scope.first is not None and not isinstance(scheduler.book[scope.first].state, Ended)
        scheduler.breaker = breaker.put(replace(scope.due_now(now), first=scope.first if first_waits else job.id))


def try_first(scheduler: Scheduler, event: TryFirst, now: float) -> None:
    """Of many reruns one is tried alone; the others follow when it succeeds, or has outlived the crash."""
    jobs = [scheduler.job(job) for job in event.jobs]
    failed = [job for job in jobs if _has_failed(job) and not isinstance(job.state, Ended)]
    if scheduler.settings.pause_after == 0 or len(failed) < 2:
        return
    groups = {job.spec.group for job in failed}
    scope = scheduler.breaker.over(failed[0].spec.group)
    if scope is None or not all(map(scope.covers, groups)):
        failures = [failure_of(job) for job in failed]
        scope = _cautious(scheduler, _scope_of(scheduler, groups), failures, now)
        scope = replace(scope, wait=scheduler.settings.probe)
    elif scope.state is ScopeState.HALF:
        return
    scheduler.breaker = scheduler.breaker.put(replace(scope.due_now(now), first=failed[0].id))


def resume(scheduler: Scheduler, now: float) -> None:
    """Everything goes on; what began before no longer counts."""
    if scheduler.wanted_mode is Mode.RUNNING and not scheduler.breaker.cautious:
        raise Refusal("the scheduler is not paused")
    scheduler.wanted_mode, scheduler.wanted_cause = Mode.RUNNING, None
    scheduler.breaker = replace(scheduler.breaker, scopes=(), streak=scheduler.breaker.streak.reset(now))
