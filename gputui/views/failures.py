"""Failed jobs by how they failed, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.events import words
from gputui.core.job import FAILURES, CrashKind, Ended, Job, JobId
from gputui.core.lanes import NO_GPU
from gputui.core.parameter_columns import Parameters, parameters_of
from gputui.core.parameters import FLAG
from gputui.core.snapshot import Snapshot

# ---- What jobs that failed alike have in common and others of their session do not ----


class InCommon(Struct, frozen=True):
    """Of one job nothing is said to be shared but where it ran."""

    parameters: tuple[tuple[str, str, str], ...] = ()
    """Name as the commands have it, title, value; only those in which jobs of the session differ."""
    gpus: tuple[str, ...] = ()
    """Where their last attempts ran."""
    only_there: bool = False
    """All on one GPU, though the session has others."""
    group: str = ""
    """The one group that all are of, where the session has several."""

    @property
    def told(self) -> str:
        """`model=vit-b bs=256`; empty: no parameter is the same in all."""
        return " ".join(title if value == FLAG else f"{title}={value}" for _, title, value in self.parameters)

    @property
    def where(self) -> str:
        """`only on GPU 3`, `GPU 3`, `GPUs 0 1 2`; empty: they ran on none."""
        places = places_told(self.gpus)
        return f"only on {places}" if self.only_there else places


class Sharing:
    """Learns the jobs of one kind of crash."""

    __slots__ = ("_gpus", "_group", "_named", "count")

    def __init__(self) -> None:
        self.count = 0
        self._named: dict[str, str] = {}
        self._gpus: dict[tuple[str, ...], None] = {}
        self._group: str | None = None

    def learn(self, job: Job) -> None:
        self.count += 1
        named = parameters_of(job.spec)
        if self.count == 1:
            self._named, self._group = dict(named), job.spec.group
        elif self._named:
            self._named = {name: value for name, value in self._named.items() if named.get(name) == value}
        if job.spec.group != self._group:
            self._group = None
        self._gpus[place_of(job)] = None

    def common(self, parameters: Parameters, devices: int) -> InCommon:
        """`parameters` has learnt the session, `devices` is how many of them it uses."""
        gpus = tuple(sorted({gpu for place in self._gpus for gpu in place}, key=_in_order))
        several = self.count > 1
        shared = self._named if several else {}
        return InCommon(
            parameters=tuple(
                (column.name, column.title, shared[column.name])
                for column in parameters.columns()
                if column.name in shared
            ),
            gpus=gpus,
            only_there=several and len(gpus) == 1 < devices,
            group=self._group if several and self._group and parameters.groups > 1 else "",
        )


def in_common(jobs: Iterable[Job], parameters: Parameters, devices: int) -> InCommon:
    """Of just these jobs, at once."""
    sharing = Sharing()
    for job in jobs:
        sharing.learn(job)
    return sharing.common(parameters, devices)


def learnt_parameters(jobs: Iterable[Job]) -> Parameters:
    """For whoever looks once and keeps nothing."""
    parameters = Parameters()
    for job in jobs:
        parameters.learn(job)
    return parameters


def devices_of(snapshot: Snapshot) -> int:
    """How many devices the session's lanes have."""
    return len({device for lane in snapshot.lanes for device in lane.devices})


def place_of(job: Job) -> tuple[str, ...]:
    """The GPUs of its last attempt."""
    return job.attempts[-1].gpus if job.attempts else ()


def places_told(gpus: tuple[str, ...]) -> str:
    gpus = tuple(gpu for gpu in gpus if gpu != NO_GPU)
    return f"GPU{'s' if len(gpus) > 1 else ''} {' '.join(gpus)}" if gpus else ""


def shares(job: Job, common: InCommon) -> bool:
    """Whether a job has all the parameters that the crashed ones share; where they share none, none does."""
    spec = job.spec
    if not common.parameters:
        return False
    if not spec.params and not spec.variables and not _mentions(spec.command, common):
        return False
    named = parameters_of(job.spec)
    return all(named.get(name) == value for name, _, value in common.parameters)


def _mentions(command: str, common: InCommon) -> bool:
    """Cheap: most jobs are told apart without reading their commands."""
    return all(value == FLAG or value in command for _, _, value in common.parameters)


def alike_waiting(jobs: Iterable[Job], common: InCommon) -> list[JobId]:
    """Those of the given jobs that would run into the same, as far as parameters tell."""
    return [job.id for job in jobs if shares(job, common)] if common.parameters else []


def _in_order(gpu: str) -> tuple[int, int, str]:
    return (0, int(gpu), "") if gpu.isdecimal() else (1, 0, gpu)


# ---- The failed jobs of a session by how they failed ----


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
