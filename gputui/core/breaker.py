"""The crash breaker: pauses the scheduler when jobs crash alike, before the whole queue goes the same way."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from .events import PauseKind
from .job import Job, JobId
from .mode import Cause


class Failure(Struct, frozen=True):
    job: JobId
    signature: str
    message: str = ""
    """What the job itself said, where that is more than the signature."""

    @property
    def said(self) -> str:
        return self.message or self.signature


def failure_of(job: Job) -> Failure:
    """Of a job whose last attempt failed."""
    attempt = job.attempts[-1]
    return Failure(job.id, attempt.signature or attempt.end.name, attempt.message or "")


class Streak(Struct, frozen=True):
    """Final failures in a row that started after the last resume; distinct jobs, as a rerun begins a new row."""

    since: float = 0.0
    failures: tuple[Failure, ...] = ()

    def reset(self, now: float) -> Streak:
        """Resume: what began before no longer counts."""
        return Streak(since=now)

    def succeeded(self) -> Streak:
        """A success, or a rerun: the row begins anew."""
        return replace(self, failures=()) if self.failures else self

    def failed(self, failure: Failure, started: float, keep: int) -> Streak:
        if started < self.since:
            return self
        return replace(self, failures=(*self.failures, failure)[-keep:])

    def alike(self) -> tuple[Failure, ...]:
        """The newest failures that share the newest signature."""
        newest = self.failures[-1].signature
        count = 0
        for failure in reversed(self.failures):
            if failure.signature != newest:
                break
            count += 1
        return self.failures[-count:]


def limit_of_any_kind(pause_after: int, lanes: int) -> int:
    return max(6, 2 * lanes, pause_after)


def tripped(streak: Streak, pause_after: int, lanes: int, now: float) -> Cause | None:
    """Why the scheduler must pause now, if it must."""
    if pause_after == 0 or not streak.failures:
        return None
    alike = streak.alike()
    if len(alike) >= pause_after:
        return crash_cause(alike, now)
    if len(streak.failures) >= limit_of_any_kind(pause_after, lanes):
        return crash_cause(streak.failures, now)
    return None


def crash_cause(failures: tuple[Failure, ...], since: float) -> Cause:
    jobs = tuple(failure.job for failure in failures)
    signatures = {failure.signature for failure in failures}
    newest = failures[-1]
    if len(jobs) == 1:
        message = f"job #{jobs[0]} crashed: {newest.said}"
    elif len(signatures) == 1:
        whose = "" if len({failure.said for failure in failures}) == 1 else f"#{newest.job}: "
        message = f"{len(jobs)} jobs crashed the same way: {whose}{newest.said}"
    else:
        message = f"{len(jobs)} jobs crashed in a row, in {len(signatures)} ways; the last: {newest.said}"
    return Cause(PauseKind.CRASHES, message, since, jobs, newest.signature if len(signatures) == 1 else None)


def joined(cause: Cause, failures: tuple[Failure, ...]) -> Cause:
    """A crash that arrives while the breaker has paused the scheduler belongs to the same story."""
    if cause.signature is None:
        return crash_cause(failures, cause.since)
    alike = tuple(failure for failure in failures if failure.signature == cause.signature)
    others = tuple(failure for failure in failures if failure.signature != cause.signature)
    message = crash_cause(alike, cause.since).message + _since_then(others)
    return replace(cause, message=message, jobs=tuple(failure.job for failure in failures))


def _since_then(others: tuple[Failure, ...]) -> str:
    if not others:
        return ""
    newest = f"#{others[-1].job}: {others[-1].said}"
    return f"; since then {newest}" if len(others) == 1 else f"; since then {len(others)} others, the last {newest}"
