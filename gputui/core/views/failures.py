"""The failed jobs of a session by how they failed: a true message, when, where, and what each kind has in common. Pure.

Learns one job after the other, so that a long queue is looked through once. What a traceback says is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.attempts.end_words import words
from gputui.core.crash_kind import CrashKind
from gputui.core.job import Ended, Job, JobId
from gputui.core.snapshot import Snapshot
from gputui.core.states import FAILURES

from .in_common import InCommon, Sharing, devices_of, learnt_parameters
from .parameter_columns import Parameters

__all__ = ["FailureGroup", "Failures", "failure_groups", "has_failed", "said_of", "seconds_of_last", "signature_of"]

_FAILED = frozenset(FAILURES)
VERY_MANY = 2000


class FailureGroup(Struct, frozen=True):
    """Jobs whose last attempts failed the same way."""

    signature: str
    """What they are compared by; for nobody's eyes."""
    message: str
    """What the newest of them said."""
    kind: CrashKind | None
    jobs: tuple[JobId, ...]
    """Newest end first."""
    first: float
    last: float
    """When the first and the last of them ended."""
    shortest: float
    longest: float
    """Seconds that their last attempts ran."""
    variants: int
    """How many other messages there are in it."""
    common: InCommon

    @property
    def count(self) -> int:
        return len(self.jobs)


def has_failed(job: Job) -> bool:
    """It came to no good by itself, and is not run again."""
    return job.state.name in _FAILED and not job.archived


def signature_of(job: Job) -> str:
    """Of a job that has failed."""
    signature = job.attempts[-1].signature if job.attempts else None
    assert isinstance(job.state, Ended)
    return signature or words(job.state)


def said_of(job: Job) -> str:
    """A true message of it; of a job that has failed."""
    assert isinstance(job.state, Ended)
    return (job.attempts[-1].said if job.attempts else None) or words(job.state)


def seconds_of_last(job: Job) -> float:
    """How long its last attempt ran."""
    return job.attempts[-1].ended - job.attempts[-1].started if job.attempts else 0.0


def _ended(job: Job) -> float:
    return job.attempts[-1].ended if job.attempts else job.added


class _Kind:
    """The jobs of one signature."""

    __slots__ = ("_made", "_sharing", "jobs")

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self._sharing: Sharing | None = Sharing()
        """None: somebody left, so what the others share may be more than was known."""
        self._made: tuple[object, FailureGroup] | None = None

    def add(self, job: Job) -> None:
        self.jobs[job.id] = job
        if self._sharing is not None:
            self._sharing.learn(job)
        self._made = None

    def drop(self, job: JobId) -> None:
        """What all of very many share, those that stay share as well: it is not learnt anew for each that leaves."""
        del self.jobs[job]
        self._made = None
        if len(self.jobs) < VERY_MANY:
            self._sharing = None

    def group(self, signature: str, parameters: Parameters, devices: int) -> FailureGroup:
        key = (parameters.columns(), devices)
        if self._made is None or self._made[0] != key:
            self._made = (key, self._group(signature, self._shared().common(parameters, devices)))
        return self._made[1]

    def _shared(self) -> Sharing:
        if self._sharing is None:
            self._sharing = Sharing()
            for job in self.jobs.values():
                self._sharing.learn(job)
        return self._sharing

    def _group(self, signature: str, common: InCommon) -> FailureGroup:
        jobs = sorted(self.jobs.values(), key=lambda job: (_ended(job), job.id), reverse=True)
        ran = [seconds_of_last(job) for job in jobs]
        newest = jobs[0]
        return FailureGroup(
            signature=signature,
            message=said_of(newest),
            kind=newest.attempts[-1].kind if newest.attempts else None,
            jobs=tuple(job.id for job in jobs),
            first=_ended(jobs[-1]),
            last=_ended(newest),
            shortest=min(ran),
            longest=max(ran),
            variants=len({said_of(job) for job in jobs}) - 1,
            common=common,
        )


class Failures:
    """All kinds of a session."""

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._of: dict[JobId, tuple[str, Job]] = {}
        for job in jobs:
            self.learn(job)

    def learn(self, job: Job) -> bool:
        """The job as it is now; True if what was told of failures has changed."""
        signature = signature_of(job) if has_failed(job) else None
        before = self._of.get(job.id)
        if before is None and signature is None:
            return False
        if before is not None and signature == before[0] and job.attempts == before[1].attempts:
            return False
        if before is not None:
            self._drop(job.id, before[0])
        if signature is not None:
            self._of[job.id] = (signature, job)
            self._kinds.setdefault(signature, _Kind()).add(job)
        return True

    def _drop(self, job: JobId, signature: str) -> None:
        del self._of[job]
        kind = self._kinds[signature]
        kind.drop(job)
        if not kind.jobs:
            del self._kinds[signature]

    def __len__(self) -> int:
        """How many jobs have failed."""
        return len(self._of)

    def groups(self, parameters: Parameters, devices: int) -> list[FailureGroup]:
        """Newest first. `parameters` has learnt the session, `devices` is how many of them it uses."""
        groups = (kind.group(signature, parameters, devices) for signature, kind in self._kinds.items())
        return sorted(groups, key=lambda group: (-group.last, -group.count))


def failure_groups(snapshot: Snapshot, parameters: Parameters | None = None) -> list[FailureGroup]:
    """For whoever looks once: summaries, reports, verbs."""
    failures = Failures(snapshot)
    if not len(failures):
        return []
    return failures.groups(parameters or learnt_parameters(snapshot), devices_of(snapshot))
