"""Failures in a row: which ones count, and when they are enough to be cautious."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.job import Job, JobId

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
