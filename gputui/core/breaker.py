"""The crash breaker's scopes: what they pause, which failures count, and why."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from .amounts import counted
from .events import Cause, PauseKind
from .job import Job, JobId

# ---- Failures in a row ----


MOST_LANES = 16
"""A machine with hundreds of lanes must not burn twice as many jobs before anybody wonders."""


class Failure(Struct, frozen=True):
    job: JobId
    signature: str
    message: str = ""
    """What the job itself said, where that is more than the signature."""
    group: str = ""

    @property
    def said(self) -> str:
        return self.message or self.signature


def failure_of(job: Job) -> Failure:
    """Of a job whose last attempt failed."""
    attempt = job.attempts[-1]
    return Failure(job.id, attempt.signature or attempt.end.name, attempt.message or "", job.spec.group)


class Streak(Struct, frozen=True, omit_defaults=True):
    """Final failures in a row that started after the last resume; distinct jobs, as a rerun begins a new row."""

    since: float = 0.0
    failures: tuple[Failure, ...] = ()
    groups_since: dict[str, float] = {}
    """Groups that went on by themselves later than all others."""

    def reset(self, now: float, group: str | None = None) -> Streak:
        """What began before no longer counts, of this group or of all."""
        if group is None:
            return Streak(since=now)
        return replace(self.cleared(group), groups_since={**self.groups_since, group: now})

    def cleared(self, group: str) -> Streak:
        """A success, or a rerun: the row of its group begins anew, that of others does not."""
        if all(failure.group != group for failure in self.failures):
            return self
        return replace(self, failures=tuple(failure for failure in self.failures if failure.group != group))

    def failed(self, failure: Failure, started: float, keep: int) -> Streak:
        if started < max(self.since, self.groups_since.get(failure.group, self.since)):
            return self
        return replace(self, failures=(*self.failures, failure)[-keep:])

    def moved(self, by: float) -> Streak:
        """The clock was set."""
        later = {group: since + by for group, since in self.groups_since.items()}
        return replace(self, since=self.since + by, groups_since=later)

    def too_many(self, pause_after: int, lanes: int) -> tuple[Failure, ...]:
        """The failures that are enough to be cautious; none: they are not."""
        if pause_after == 0 or not self.failures:
            return ()
        own = tuple(failure for failure in self.failures if failure.group == self.failures[-1].group)
        for row in (self.failures, own):
            if len(alike := _alike(row)) >= pause_after:
                return alike
        limit = limit_of_any_kind(pause_after, lanes)
        return next((row for row in (own, self.failures) if len(row) >= limit), ())


def _alike(row: tuple[Failure, ...]) -> tuple[Failure, ...]:
    """The newest failures that share the newest signature."""
    count = 0
    for failure in reversed(row):
        if failure.signature != row[-1].signature:
            break
        count += 1
    return row[-count:]


def limit_of_any_kind(pause_after: int, lanes: int) -> int:
    return max(6, 2 * min(lanes, MOST_LANES), pause_after)


# ---- A scope of the breaker ----


LONGEST_WAIT = 7200.0
SHORTEST_LIFE = 60.0
"""Whatever crashed sooner: a job that has run so long is not about to crash like it."""


class ScopeState(StrEnum):
    CLOSED = "closed"
    """Jobs start."""
    OPEN = "open"
    """None starts, until one is tried."""
    HALF = "half"
    """One is tried alone."""


class Probe(Struct, frozen=True):
    """The attempt that is tried."""

    job: JobId
    attempt: int


class Scope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    group: str | None = None
    """None: all jobs."""
    state: ScopeState = ScopeState.CLOSED
    cause: Cause | None = None
    """Why it is not closed."""
    wait: float | None = None
    """Seconds from a crash to the next try; None: nobody tries by itself."""
    probe_at: float | None = None
    """When one is tried; None: when somebody wants it."""
    due: bool = False
    """That moment has come; one is tried as soon as it fits."""
    probe: Probe | None = None
    first: JobId | None = None
    """The user wants this one to be tried."""
    common: dict[str, str] = {}
    """The parameters that all crashed jobs share, and no job of their group has succeeded with."""
    life: float = SHORTEST_LIFE
    """Seconds after which a job that is tried has outlived the crashes."""
    stopped: bool = False
    """The user paused or left meanwhile: nothing goes on by itself."""

    def covers(self, group: str) -> bool:
        return self.group is None or self.group == group

    def opened(self, now: float, wait: float | None) -> Scope:
        """Nothing starts; one is tried after the wait."""
        probe_at = now + wait if wait is not None and not self.stopped else None
        return replace(
            self, state=ScopeState.OPEN, probe=None, wait=wait, probe_at=probe_at, due=wait == 0 and not self.stopped
        )

    def due_now(self, now: float) -> Scope:
        return replace(self, state=ScopeState.OPEN, probe=None, probe_at=now, due=True)

    def halted(self, *, left: bool) -> Scope:
        """The user paused or left: only the user goes on."""
        assert self.cause is not None
        cause = replace(self.cause, left=True) if left else self.cause
        return replace(
            self, state=ScopeState.OPEN, cause=cause, probe=None, probe_at=None, due=False, first=None, stopped=True
        )

    def trying(self, probe: Probe) -> Scope:
        return replace(self, state=ScopeState.HALF, probe=probe, probe_at=None, due=False, first=None)

    def moved(self, by: float) -> Scope:
        """The clock was set."""
        cause = replace(self.cause, since=self.cause.since + by) if self.cause is not None else None
        return replace(self, cause=cause, probe_at=self.probe_at + by if self.probe_at is not None else None)


def doubled(wait: float | None) -> float | None:
    return min(LONGEST_WAIT, 2 * wait) if wait is not None else None


class Breaker(Struct, frozen=True, omit_defaults=True):
    """What the store keeps of it. Either all jobs are one scope, or groups are scopes of their own."""

    streak: Streak = Streak()
    scopes: tuple[Scope, ...] = ()

    def at(self, group: str | None) -> Scope | None:
        """What is known of exactly this scope."""
        return next((scope for scope in self.scopes if scope.group == group), None)

    def over(self, group: str) -> Scope | None:
        """The scope that keeps jobs of the group from starting; None: none does."""
        for scope in self.scopes:
            if scope.state is not ScopeState.CLOSED and scope.covers(group):
                return scope
        return None

    def trying(self, job: JobId) -> Scope | None:
        """The scope in which this job is tried."""
        return next((scope for scope in self.scopes if scope.probe is not None and scope.probe.job == job), None)

    @property
    def cautious(self) -> tuple[Scope, ...]:
        """The scopes in which jobs do not just start."""
        return tuple(scope for scope in self.scopes if scope.state is not ScopeState.CLOSED)

    @property
    def pause(self) -> Scope | None:
        """The scope of all jobs, while it is not closed."""
        return next((scope for scope in self.cautious if scope.group is None), None)

    def put(self, scope: Scope) -> Breaker:
        """All jobs in one scope take the place of every group that was one."""
        takes_all = scope.group is None and scope.state is not ScopeState.CLOSED
        others = (each for each in self.scopes if each.group != scope.group)
        return replace(self, scopes=(*(() if takes_all else others), scope))

    def without(self, *groups: str | None) -> Breaker:
        """Nothing is known any more of these scopes."""
        if not any(scope.group in groups for scope in self.scopes):
            return self
        return replace(self, scopes=tuple(scope for scope in self.scopes if scope.group not in groups))

    def moved(self, by: float) -> Breaker:
        return Breaker(self.streak.moved(by), tuple(scope.moved(by) for scope in self.scopes))


# ---- Why jobs are paused because of crashes, in words ----


MOST_NAMED = 500
"""So many jobs are named by a cause; of more, the newest."""


def crash_cause(failures: Sequence[Failure], since: float, more: int = 0) -> Cause:
    """`more`: so many others crashed that are named no longer."""
    newest, count = failures[-1], len(failures) + more
    signatures = {failure.signature for failure in failures}
    jobs = tuple(failure.job for failure in failures)
    if count == 1:
        message = f"job #{newest.job} crashed: {newest.said}"
    elif len(signatures) == 1:
        message = f"{count:,} jobs: {newest.said}{_variants(failures)}"
    else:
        message = f"{count:,} jobs crashed in a row, in {len(signatures)} ways; the last: {newest.said}"
    signature = newest.signature if len(signatures) == 1 else None
    return Cause(PauseKind.CRASHES, message, since, jobs, signature, more=more)


def _variants(failures: Sequence[Failure]) -> str:
    others = len({failure.said for failure in failures}) - 1
    return f" · +{counted(others, 'variant', 'variants')}" if others else ""


def joined(cause: Cause, failures: Sequence[Failure]) -> Cause:
    """With a crash that came later: it belongs to the same story."""
    dropped = max(0, len(failures) - MOST_NAMED)
    newest, more = failures[dropped:], cause.more + dropped
    if cause.signature is None:
        return replace(crash_cause(newest, cause.since, more), left=cause.left)
    same = [failure for failure in newest if failure.signature == cause.signature]
    others = [failure for failure in newest if failure.signature != cause.signature]
    message = (crash_cause(same, cause.since, more).message if same else cause.message) + _since_then(others)
    return replace(cause, message=message, jobs=tuple(failure.job for failure in newest), more=more)


def _since_then(others: Sequence[Failure]) -> str:
    if not others:
        return ""
    newest = f"#{others[-1].job}: {others[-1].said}"
    return f"; since then {newest}" if len(others) == 1 else f"; since then {len(others)} others, the last {newest}"
