"""Data of the circuit breaker: failures in a row, the scopes that they pause, and the causes shown to users."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from .amounts import counted
from .events import Cause, PauseKind
from .job import Job, JobId

# Failures in a row


MOST_SLOTS = 16
"""Maximum number of slots counted for the limit of failures in a row.

It keeps a large machine from failing hundreds of jobs before it pauses.
"""


class Failure(Struct, frozen=True):
    """A job that failed and is not retried."""

    job: JobId
    signature: str
    message: str = ""
    """The error message, or an empty string if the signature is the message."""
    group: str = ""

    @property
    def reason(self) -> str:
        return self.message or self.signature


def failure_of(job: Job) -> Failure:
    """Return the failure of a job whose last attempt failed."""
    attempt = job.attempts[-1]
    return Failure(job.id, attempt.signature or attempt.end.name, attempt.message or "", job.spec.group)


class Streak(Struct, frozen=True, omit_defaults=True):
    """Failures in a row of different jobs, only of attempts that started after the last resume."""

    since: float = 0.0
    failures: tuple[Failure, ...] = ()
    groups_since: dict[str, float] = {}
    """Resume times of the groups that were resumed individually, after `since`."""

    def reset(self, now: float, group: str | None = None) -> Streak:
        """Return a streak that ignores attempts started before `now`, in the group or, if it is None, in all groups."""
        if group is None:
            return Streak(since=now)
        return replace(self.cleared(group), groups_since={**self.groups_since, group: now})

    def cleared(self, group: str) -> Streak:
        """Return the streak without the failures of a group. Used after a success or a rerun in the group."""
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
    """Return the latest consecutive failures that have the same signature as the last one."""
    count = 0
    for failure in reversed(row):
        if failure.signature != row[-1].signature:
            break
        count += 1
    return row[-count:]


def limit_of_any_kind(pause_after: int, slots: int) -> int:
    """Return how many failures in a row pause the jobs even if their errors differ."""
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
    """The attempt that is started alone, as a test, after repeated errors."""

    job: JobId
    attempt: int


class Scope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The jobs that repeated errors pause: all jobs or one group."""

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
    """Whether the next probe is due, so that it starts as soon as it fits."""
    probe: Probe | None = None
    first: JobId | None = None
    """The job to be used as the next probe at the user's request, or None if there is none."""
    common: dict[str, str] = {}
    """Parameters whose value is the same in all failed jobs and differs in every successful job of their groups."""
    life: float = SHORTEST_WORKING_AFTER
    """Seconds after which a running probe counts as working."""
    stopped: bool = False
    """Whether the user has since paused the scheduler or left the session, so that no probe starts by itself."""

    def covers(self, group: str) -> bool:
        return self.group is None or self.group == group

    def opened(self, now: float, wait: float | None) -> Scope:
        """Return the scope in its open state: no job starts except a probe, which is due after `wait` seconds."""
        probe_at = now + wait if wait is not None and not self.stopped else None
        return replace(
            self, state=ScopeState.PAUSED, probe=None, wait=wait, probe_at=probe_at, due=wait == 0 and not self.stopped
        )

    def due_now(self, now: float) -> Scope:
        return replace(self, state=ScopeState.PAUSED, probe=None, probe_at=now, due=True)

    def halted(self, *, left: bool) -> Scope:
        """Return the scope with no probe scheduled until the user resumes.

        `left` says whether the session was left on purpose.
        """
        assert self.cause is not None
        cause = replace(self.cause, left=True) if left else self.cause
        return replace(
            self, state=ScopeState.PAUSED, cause=cause, probe=None, probe_at=None, due=False, first=None, stopped=True
        )

    def probing(self, probe: Probe) -> Scope:
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
        """Return the scope of exactly this group (None: the scope of all jobs), or None if it does not exist."""
        return next((scope for scope in self.scopes if scope.group == group), None)

    def scope_pausing(self, group: str) -> Scope | None:
        """Return the scope that keeps jobs of the group from starting, or None if there is none."""
        return next((scope for scope in self.paused_scopes if scope.covers(group)), None)

    def scope_probing(self, job: JobId) -> Scope | None:
        """Return the scope that has this job as its running probe, or None if there is none."""
        return next((scope for scope in self.scopes if scope.probe is not None and scope.probe.job == job), None)

    @property
    def paused_scopes(self) -> tuple[Scope, ...]:
        return tuple(scope for scope in self.scopes if scope.state is not ScopeState.RUNNING)

    @property
    def pause(self) -> Scope | None:
        """The scope of all jobs if it is paused, else None."""
        return next((scope for scope in self.paused_scopes if scope.group is None), None)

    def put(self, scope: Scope) -> Breaker:
        """Return the breaker with the scope added or replaced.

        A paused scope of all jobs replaces the scopes of groups.
        """
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
