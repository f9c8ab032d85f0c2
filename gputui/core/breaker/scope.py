"""A scope of the breaker: the jobs of a group, or all; whether they may start, and which of them is tried alone."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.job import JobId
from gputui.core.mode import Cause

from .streak import Streak

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
