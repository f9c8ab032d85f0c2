"""The circuit breaker: failures in a row pause jobs, and probes test whether the jobs work again.

The first part is the stored data, `Breaker` and its `Scope`s. The second part is the rules that change this data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum
from functools import cache, partial
from heapq import merge
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from .amounts import counted, duration_words
from .book import kind_of, median
from .events import AttemptEnded, Cause, Mode, NeverRan, NoRoom, PauseKind, Refusal, TryFirst
from .job import End, Ended, Failed, Job, JobId, Queued, Refused, Request, Running, Succeeded, TimedOut
from .parameters import common_parameters, params_in_common, params_missing

if TYPE_CHECKING:
    from .state import SchedulerState

FAILURES = (Failed, TimedOut, Refused)

# Failures in a row


MOST_SLOTS = 16
"""Maximum number of slots that raise the limit. Otherwise hundreds of jobs could fail on a large machine first."""


class Failure(Struct, frozen=True):
    """A job that failed and is not retried."""

    job: JobId
    signature: str
    message: str = ""
    """The error message, or an empty string if it is identical to the signature."""
    group: str = ""

    @property
    def reason(self) -> str:
        return self.message or self.signature


def failure_of(job: Job) -> Failure:
    """Return the failure of a job whose last attempt failed."""
    attempt = job.attempts[-1]
    return Failure(job.id, attempt.signature or attempt.end.name, attempt.message or "", job.spec.group)


class Streak(Struct, frozen=True, omit_defaults=True):
    """A row of failures of different jobs. Attempts that started before the last resume are not counted."""

    since: float = 0.0
    failures: tuple[Failure, ...] = ()
    groups_since: dict[str, float] = {}
    """Resume times of groups that were resumed individually after `since`."""

    def reset(self, now: float, group: str | None = None) -> Streak:
        """Return a streak that ignores attempts of the group that started before `now`. None means all groups."""
        if group is None:
            return Streak(since=now)
        return replace(self.cleared(group), groups_since={**self.groups_since, group: now})

    def cleared(self, group: str) -> Streak:
        """Return the streak without the failures of a group. Called after a success or a rerun in that group."""
        if all(failure.group != group for failure in self.failures):
            return self
        return replace(self, failures=tuple(failure for failure in self.failures if failure.group != group))

    def failed(self, failure: Failure, started: float, keep: int) -> Streak:
        if started < max(self.since, self.groups_since.get(failure.group, self.since)):
            return self
        return replace(self, failures=(*self.failures, failure)[-keep:])

    def moved(self, by: float) -> Streak:
        """Return the streak with all times shifted, after the clock was set."""
        later = {group: since + by for group, since in self.groups_since.items()}
        return replace(self, since=self.since + by, groups_since=later)

    def too_many(self, pause_after: int, slots: int) -> tuple[Failure, ...]:
        """Return the failures that justify a pause, or an empty tuple if there are too few."""
        if pause_after == 0 or not self.failures:
            return ()
        own = tuple(failure for failure in self.failures if failure.group == self.failures[-1].group)
        for row in (self.failures, own):
            if len(alike := _same_error(row)) >= pause_after:
                return alike
        limit = limit_of_any_kind(pause_after, slots)
        return next((row for row in (own, self.failures) if len(row) >= limit), ())


def _same_error(row: tuple[Failure, ...]) -> tuple[Failure, ...]:
    """Return the failures at the end of the row that all have the same signature."""
    alike = takewhile(lambda failure: failure.signature == row[-1].signature, reversed(row))
    return row[-len(list(alike)) :]


def limit_of_any_kind(pause_after: int, slots: int) -> int:
    """Return how many failures in a row cause a pause even if their errors differ."""
    return max(6, 2 * min(slots, MOST_SLOTS), pause_after)


# Scopes


LONGEST_WAIT = 7200.0
SHORTEST_WORKING_AFTER = 60.0
"""Minimum number of seconds that a probe must run to count as working."""


class ScopeState(StrEnum):
    RUNNING = "closed"
    """Jobs start normally."""
    PAUSED = "open"
    """No job starts until a probe is due."""
    PROBING = "half"
    """A probe is running. No other job of the scope starts."""


class Probe(Struct, frozen=True):
    """An attempt that runs alone, as a test, after repeated errors."""

    job: JobId
    attempt: int


class Scope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The jobs that are paused together after repeated errors: all jobs or one group."""

    group: str | None = None
    """The group, or None for all jobs."""
    state: ScopeState = ScopeState.RUNNING
    cause: Cause | None = None
    """Why the scope is paused, or None if it is closed."""
    wait: float | None = None
    """Seconds from an error to the next probe, or None if a probe starts only on request."""
    probe_at: float | None = None
    """When the next probe is due, or None if no probe is scheduled."""
    due: bool = False
    """Whether the next probe is due. It then starts as soon as there is a slot for it."""
    probe: Probe | None = None
    first: JobId | None = None
    """The job that the user chose as the next probe, or None."""
    common: dict[str, str] = {}
    """Parameters whose value is the same in all failed jobs and differs in every successful job of their groups."""
    life: float = SHORTEST_WORKING_AFTER
    """Number of seconds that a probe must run to count as working."""
    stopped: bool = False
    """Whether the user has paused the scheduler or left the session since then. If so, no probe starts by itself."""

    @property
    def probing(self) -> bool:
        """Whether a probe is running."""
        return self.state is ScopeState.PROBING

    def covers(self, group: str) -> bool:
        return self.group is None or self.group == group

    def opened(self, now: float, wait: float | None) -> Scope:
        """Return the scope in its paused state. The next probe is due after `wait` seconds."""
        probe_at = now + wait if wait is not None and not self.stopped else None
        return replace(
            self, state=ScopeState.PAUSED, probe=None, wait=wait, probe_at=probe_at, due=wait == 0 and not self.stopped
        )

    def due_now(self, now: float) -> Scope:
        return replace(self, state=ScopeState.PAUSED, probe=None, probe_at=now, due=True)

    def halted(self, *, left: bool) -> Scope:
        """Return the scope without probes until the user resumes. `left`: the user left the session on purpose."""
        assert self.cause is not None
        cause = replace(self.cause, left=True) if left else self.cause
        return replace(
            self, state=ScopeState.PAUSED, cause=cause, probe=None, probe_at=None, due=False, first=None, stopped=True
        )

    def with_probe(self, probe: Probe) -> Scope:
        return replace(self, state=ScopeState.PROBING, probe=probe, probe_at=None, due=False, first=None)

    def moved(self, by: float) -> Scope:
        """Return the scope with all times shifted, after the clock was set."""
        cause = replace(self.cause, since=self.cause.since + by) if self.cause is not None else None
        return replace(self, cause=cause, probe_at=self.probe_at + by if self.probe_at is not None else None)


class Breaker(Struct, frozen=True, omit_defaults=True):
    """The stored state of the breaker. Either one scope covers all jobs, or groups have their own scopes."""

    streak: Streak = Streak()
    scopes: tuple[Scope, ...] = ()

    def scope_of(self, group: str | None) -> Scope | None:
        """Return the scope of this group (of all jobs if `group` is None), or None if there is no such scope."""
        return next((scope for scope in self.scopes if scope.group == group), None)

    def scope_pausing(self, group: str) -> Scope | None:
        """Return the scope that keeps jobs of the group from starting, or None if there is none."""
        return next((scope for scope in self.paused_scopes if scope.covers(group)), None)

    def scope_probing(self, job: JobId) -> Scope | None:
        """Return the scope for which this job is running as the probe, or None."""
        return next((scope for scope in self.scopes if scope.probe is not None and scope.probe.job == job), None)

    @property
    def paused_scopes(self) -> tuple[Scope, ...]:
        return tuple(scope for scope in self.scopes if scope.state is not ScopeState.RUNNING)

    @property
    def pause(self) -> Scope | None:
        """The scope of all jobs if it is paused, else None."""
        return next((scope for scope in self.paused_scopes if scope.group is None), None)

    def put(self, scope: Scope) -> Breaker:
        """Return the breaker with the scope added or replaced. A pause of all jobs replaces those of groups."""
        takes_all = scope.group is None and scope.state is not ScopeState.RUNNING
        others = () if takes_all else (other for other in self.scopes if other.group != scope.group)
        return replace(self, scopes=(*others, scope))

    def without(self, *groups: str | None) -> Breaker:
        if not any(scope.group in groups for scope in self.scopes):
            return self
        return replace(self, scopes=tuple(scope for scope in self.scopes if scope.group not in groups))

    def moved(self, by: float) -> Breaker:
        """Return the breaker with all times shifted, after the clock was set."""
        return Breaker(self.streak.moved(by), tuple(scope.moved(by) for scope in self.scopes))


# Causes


MOST_NAMED = 500
"""Maximum number of failed jobs listed in a cause. The latest ones are kept."""


def error_cause(failures: Sequence[Failure], since: float, more: int = 0) -> Cause:
    """Return the cause of a pause after errors. `more` is the number of failed jobs that are no longer listed."""
    newest, count = failures[-1], len(failures) + more
    signatures = {failure.signature for failure in failures}
    jobs = tuple(failure.job for failure in failures)
    if count == 1:
        message = f"#{newest.job} failed: {newest.reason}"
    elif len(signatures) == 1:
        others = len({failure.reason for failure in failures}) - 1
        variants = f" · +{counted(others, 'variant', 'variants')}" if others else ""
        message = f"{count:,} jobs failed: {newest.reason}{variants}"
    else:
        message = f"{count:,} jobs failed in a row with {len(signatures)} different errors; last: {newest.reason}"
    signature = newest.signature if len(signatures) == 1 else None
    return Cause(PauseKind.CRASHES, message, since, jobs, signature, more=more)


def joined(cause: Cause, failures: Sequence[Failure]) -> Cause:
    """Return the cause with all these failures, including those that happened after the pause began."""
    dropped = max(0, len(failures) - MOST_NAMED)
    newest, more = failures[dropped:], cause.more + dropped
    if cause.signature is None:
        return replace(error_cause(newest, cause.since, more), left=cause.left)
    same = [failure for failure in newest if failure.signature == cause.signature]
    others = [failure for failure in newest if failure.signature != cause.signature]
    message = error_cause(same, cause.since, more).message if same else cause.message
    if others:
        last = f"#{others[-1].job}: {others[-1].reason}"
        message += f"; since then {last}" if len(others) == 1 else f"; since then {len(others)} more, last: {last}"
    return replace(cause, message=message, jobs=tuple(failure.job for failure in newest), more=more)


# Rules: which job is the next probe


MOST_CANDIDATES = 200
"""Maximum number of queued jobs that are considered for a probe."""


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
    fit = cache(partial(_fit, scheduler))
    if scope.first is not None:
        job = scheduler.book[scope.first]
        is_eligible = isinstance(job.state, Queued) and scope.covers(job.spec.group) and not job.archived
        is_eligible = is_eligible and kind_of(job) not in scheduler.over_budget()
        if is_eligible and fit(scheduler.effective_request(job)) is not Fit.NEVER:
            return job
    failed = failed_groups(scheduler, scope)

    def rank(job: Job) -> tuple[Fit, int]:
        likeness = len(params_in_common(scope.common, job.spec)) if job.spec.group in failed else -1
        return fit(scheduler.effective_request(job)), likeness

    over_budget, ready = scheduler.over_budget(), scheduler.book.ready
    lines = (line for kind, line in ready.items() if scope.covers(kind[1]) and kind not in over_budget)
    jobs = (scheduler.book[place.job] for place in islice(merge(*lines), MOST_CANDIDATES))
    batch = (job for job in jobs if job.spec.terminal is None)
    possible = (job for job in batch if fit(scheduler.effective_request(job)) is not Fit.NEVER)
    return min(possible, key=rank, default=None)


def _fit(scheduler: SchedulerState, request: Request) -> Fit:
    if not scheduler.board.takes_slot(request):
        return Fit.NOW if scheduler.cpu_job_may_start else Fit.LATER
    if scheduler.fit(request) is not None:
        return Fit.NOW
    return Fit.LATER if scheduler.board.could_ever_fit(request) else Fit.NEVER


# Rules: ends of jobs


def ended(scheduler: SchedulerState, job: Job, end: End, now: float) -> None:
    """Handle the final end of a job, unless the job is the probe. `probe_ended` handles the end of the probe."""
    if job.spec.terminal is not None or scheduler.breaker.scope_probing(job.id) is not None:
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
    """Pause the scope of these failures, with twice the wait if no job has succeeded since the scope's last pause."""
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
    """Return the group to pause, or None to pause all jobs.

    A single group is paused if all failures are in this group and jobs of other groups are waiting.
    """
    if len(groups) != 1:
        return None
    (group,) = groups
    return group if any(other != group for _, other in scheduler.book.waiting_of) else None


def _paused_scope(scheduler: SchedulerState, group: str | None, failures: Sequence[Failure], now: float) -> Scope:
    """Return a new scope for these failures. A scope of all jobs takes over the failures of paused groups."""
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
    """Return how many seconds a probe must run to count as working: clearly longer than the failed jobs ran."""
    lives = [job.attempts[-1].seconds for job in failed]
    return max(SHORTEST_WORKING_AFTER, 3 * median(lives))


def _joined_by(scheduler: SchedulerState, scope: Scope, job: Job) -> Scope:
    """Return the scope with this failed job added to its cause. The time of the next probe does not change."""
    assert scope.cause is not None
    others = _failures_of(scheduler, (other for other in scope.cause.jobs if other != job.id))
    cause = joined(scope.cause, [*others, failure_of(job)])
    life = _working_after(scheduler.book[other] for other in cause.jobs)
    return replace(scope, cause=cause, common=params_in_common(scope.common, job.spec), life=life)


# Rules: start and end of a probe


def started(scheduler: SchedulerState, scope: Scope, job: Job, now: float) -> None:
    """Record that the due probe has been given its slots."""
    assert scope.cause is not None
    scheduler.breaker = scheduler.breaker.put(scope.with_probe(Probe(job.id, job.issued)))
    cause = scope.cause
    errors = f"{cause.count} jobs failed" if cause.count > 1 else f"#{cause.jobs[0]} failed"
    scheduler.record_history(job.id, now, f"runs alone as a probe: {errors}", keep=True)


def probe_ended(scheduler: SchedulerState, scope: Scope, event: AttemptEnded, now: float) -> None:
    """Handle the end of the probe's attempt. `scope` is the scope as it was before the attempt ended."""
    assert scope.probe is not None
    job = scheduler.book[scope.probe.job]
    if isinstance(event.outcome, NeverRan | NoRoom):
        scheduler.breaker = scheduler.breaker.put(replace(scope.due_now(now), first=job.id))
        return
    end = job.attempts[-1].end
    # If the probe ran out of GPU memory and is retried alone, it is still unknown whether the other errors occur.
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
    """Return when the running probe will count as working, or None if there is no running probe or it is suspended."""
    if scope.probe is None:
        return None
    match scheduler.book[scope.probe.job].state:
        case Running(placed=placed, suspended_for=suspended_for):
            return placed.since + suspended_for + scope.life
    return None


# Rules: timers


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
            # Do not reset the wait until a job succeeds, so that a second pause lasts longer.
            scheduler.breaker = scheduler.breaker.put(Scope(group=scope.group, wait=scope.wait))


# Rules: commands


def halt(scheduler: SchedulerState, *, left: bool) -> None:
    """Start no more probes by themselves: the user paused or drained the queue or, with `left`, left the session."""
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
    elif scope.probing:
        return
    scheduler.breaker = scheduler.breaker.put(replace(scope.due_now(now), first=failed[0].id))


def resume(scheduler: SchedulerState, now: float) -> None:
    """Let jobs start again, and ignore failures of attempts that started before now."""
    if scheduler.wanted_mode is Mode.RUNNING and not scheduler.breaker.paused_scopes:
        raise Refusal("the scheduler is not paused")
    scheduler.wanted_mode, scheduler.wanted_cause = Mode.RUNNING, None
    scheduler.breaker = replace(scheduler.breaker, scopes=(), streak=scheduler.breaker.streak.reset(now))
