"""Failed jobs grouped by error, and what the jobs of a group have in common."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.job import FAILURES, CrashKind, Ended, Job, JobId, JobSpec, describe_end
from gputui.core.parameters import FLAG, parameters_of, params_in_common
from gputui.core.slots import NO_GPU
from gputui.core.snapshot import Snapshot

from .format import natural_order
from .parameters import Parameters

# What failed jobs have in common


class CommonFacts(Struct, frozen=True):
    """What the failed jobs with one error have in common. For a single job, only the GPUs it ran on."""

    parameters: tuple[tuple[str, str, str], ...] = ()
    """Common parameters that not all jobs of the session share, each as (name in the commands, title, value)."""
    gpus: tuple[str, ...] = ()
    """The GPUs on which the last attempts of the jobs ran."""
    only_there: bool = False
    """Whether all jobs ran on the same GPU, although the session has others."""
    group: str = ""
    """The group of the jobs if all are in the same one and the session has several groups, else empty."""

    @property
    def parameters_text(self) -> str:
        """The common parameters, such as `model=vit-b bs=256`, or empty if there are none."""
        return " ".join(title if value == FLAG else f"{title}={value}" for _, title, value in self.parameters)

    @property
    def where(self) -> str:
        """The GPUs as text: `only on GPU 3`, `GPU 3`, `GPUs 0 1 2`, or empty if the jobs ran on no GPU."""
        return f"only on {format_gpus(self.gpus)}" if self.only_there else format_gpus(self.gpus)


class CommonCollector:
    """A collector of what the failed jobs with one error have in common. Jobs are added one by one."""

    __slots__ = ("_gpus", "_group", "_named", "count")

    def __init__(self) -> None:
        self.count = 0
        self._named: dict[str, str] = {}
        self._gpus: dict[tuple[str, ...], None] = {}
        self._group: str | None = None

    def learn(self, job: Job) -> None:
        self.count += 1
        if self.count == 1:
            self._named, self._group = parameters_of(job.spec), job.spec.group
        else:
            self._named = params_in_common(self._named, job.spec)
        if job.spec.group != self._group:
            self._group = None
        self._gpus[last_gpus(job)] = None

    def common(self, parameters: Parameters, devices: int) -> CommonFacts:
        """Return the common facts.

        `parameters` covers the whole session and `devices` is the session's number of devices.
        """
        gpus = tuple(sorted({gpu for gpus in self._gpus for gpu in gpus}, key=natural_order))
        several = self.count > 1
        shared = self._named if several else {}
        return CommonFacts(
            parameters=tuple(
                (column.name, column.title, shared[column.name])
                for column in parameters.columns()
                if column.name in shared
            ),
            gpus=gpus,
            only_there=several and len(gpus) == 1 < devices,
            group=self._group if several and self._group and parameters.groups > 1 else "",
        )


def learn_parameters(jobs: Iterable[Job]) -> Parameters:
    parameters = Parameters()
    for job in jobs:
        parameters.learn(job)
    return parameters


def device_count(snapshot: Snapshot) -> int:
    """Return the number of devices that the session uses."""
    return len({device for slot in snapshot.slots for device in slot.devices})


def last_gpus(job: Job) -> tuple[str, ...]:
    """Return the GPUs of the last attempt of a job."""
    return job.attempts[-1].gpus if job.attempts else ()


def format_gpus(gpus: tuple[str, ...]) -> str:
    """Format GPUs as `GPU 3` or `GPUs 0 1 2`. The result is empty if there are none."""
    gpus = tuple(gpu for gpu in gpus if gpu != NO_GPU)
    return f"GPU{'s' if len(gpus) > 1 else ''} {' '.join(gpus)}" if gpus else ""


def jobs_with_common_parameters(jobs: Iterable[Job], common: CommonFacts) -> list[JobId]:
    """Return the jobs that have all of the parameters shared by the failed jobs, or no jobs if nothing is shared."""
    if not common.parameters:
        return []
    return [job.id for job in jobs if _has_all(job.spec, common)]


def _has_all(spec: JobSpec, common: CommonFacts) -> bool:
    # Searching the command for the values is cheap and enough for most jobs.
    in_command = all(value == FLAG or value in spec.command for _, _, value in common.parameters)
    if not in_command and not spec.params and not spec.variables:
        return False
    named = parameters_of(spec)
    return all(named.get(name) == value for name, _, value in common.parameters)


# Failed jobs by error


LARGE_GROUP = 2000


class FailureGroup(Struct, frozen=True):
    """Jobs whose last attempts failed with the same error."""

    signature: str
    """The text by which errors are compared. It is not for display."""
    message: str
    """The error message of the job that ended last."""
    kind: CrashKind | None
    jobs: tuple[JobId, ...]
    """Ids of the jobs. The job that ended last comes first."""
    first: float
    last: float
    """`first` and `last` are the times when the first and the last of the jobs ended."""
    shortest: float
    longest: float
    """`shortest` and `longest` are the durations of the jobs' last attempts, in seconds."""
    variants: int
    """Number of other messages in the group."""
    common: CommonFacts

    @property
    def count(self) -> int:
        return len(self.jobs)


def has_failed(job: Job) -> bool:
    """Return whether a job failed and is not going to be run again."""
    return job.state.name in FAILURES and not job.archived


def error_signature(job: Job) -> str:
    signature = job.attempts[-1].signature if job.attempts else None
    assert isinstance(job.state, Ended)
    return signature or describe_end(job.state)


def error_message(job: Job) -> str:
    """Return the error message of a failed job, or a description of its end if there is no message."""
    assert isinstance(job.state, Ended)
    return (job.attempts[-1].reason if job.attempts else None) or describe_end(job.state)


def last_duration(job: Job) -> float:
    """Return the duration of the last attempt, in seconds."""
    return job.attempts[-1].seconds if job.attempts else 0.0


def _ended(job: Job) -> float:
    return job.attempts[-1].ended if job.attempts else job.added


class _Group:
    """The jobs with one signature, and a cached FailureGroup of them."""

    __slots__ = ("_collector", "_group", "_group_key", "jobs")

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self._collector: CommonCollector | None = CommonCollector()
        """None after a job was removed, because the remaining jobs may have more in common."""
        self._group_key: object = None
        self._group: FailureGroup | None = None

    def add(self, job: Job) -> None:
        self.jobs[job.id] = job
        if self._collector is not None:
            self._collector.learn(job)
        self._group = None

    def remove(self, job: JobId) -> None:
        del self.jobs[job]
        self._group = None
        # What a large group has in common is still true without one job, so it is not recomputed for each removal.
        if len(self.jobs) < LARGE_GROUP:
            self._collector = None

    def group(self, signature: str, parameters: Parameters, devices: int) -> FailureGroup:
        key = (parameters.columns(), devices)
        if self._group is None or self._group_key != key:
            if self._collector is None:
                self._collector = CommonCollector()
                for job in self.jobs.values():
                    self._collector.learn(job)
            self._group = self._make_group(signature, self._collector.common(parameters, devices))
            self._group_key = key
        return self._group

    def _make_group(self, signature: str, common: CommonFacts) -> FailureGroup:
        jobs = sorted(self.jobs.values(), key=lambda job: (_ended(job), job.id), reverse=True)
        durations = [last_duration(job) for job in jobs]
        newest = jobs[0]
        return FailureGroup(
            signature=signature,
            message=error_message(newest),
            kind=newest.attempts[-1].kind if newest.attempts else None,
            jobs=tuple(job.id for job in jobs),
            first=_ended(jobs[-1]),
            last=_ended(newest),
            shortest=min(durations),
            longest=max(durations),
            variants=len({error_message(job) for job in jobs}) - 1,
            common=common,
        )


class Failures:
    """The failed jobs of a session, grouped by error."""

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        self._groups: dict[str, _Group] = {}
        self._failed: dict[JobId, tuple[str, Job]] = {}
        for job in jobs:
            self.learn(job)

    def learn(self, job: Job) -> bool:
        """Update a job. Return whether the groups have changed."""
        signature = error_signature(job) if has_failed(job) else None
        before = self._failed.get(job.id)
        if before is None and signature is None:
            return False
        if before is not None and signature == before[0] and job.attempts == before[1].attempts:
            return False
        if before is not None:
            group = self._groups[before[0]]
            group.remove(job.id)
            if not group.jobs:
                del self._groups[before[0]]
            del self._failed[job.id]
        if signature is not None:
            self._failed[job.id] = (signature, job)
            self._groups.setdefault(signature, _Group()).add(job)
        return True

    def groups(self, parameters: Parameters, devices: int) -> list[FailureGroup]:
        """Return the groups, newest first.

        `parameters` covers the whole session and `devices` is its number of devices.
        """
        groups = (group.group(signature, parameters, devices) for signature, group in self._groups.items())
        return sorted(groups, key=lambda group: (-group.last, -group.count))


def failure_groups(snapshot: Snapshot, parameters: Parameters) -> list[FailureGroup]:
    return Failures(snapshot).groups(parameters, device_count(snapshot))
