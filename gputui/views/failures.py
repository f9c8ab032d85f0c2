"""Failed jobs grouped by error, and what the jobs of a group have in common."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.job import FAILURES, CrashKind, Ended, Job, JobId, JobSpec, describe_end
from gputui.core.parameters import FLAG, common_parameters, parameters_of, params_in_common
from gputui.core.slots import NO_GPU
from gputui.core.snapshot import Snapshot

from .format import natural_order
from .parameters import Parameters

# What failed jobs have in common


class CommonFacts(Struct, frozen=True):
    """What the failed jobs with one error have in common. For a single job, this is only its GPUs."""

    parameters: tuple[tuple[str, str, str], ...] = ()
    """Common parameters that not all jobs of the session have, each as (name in the commands, title, value)."""
    gpus: tuple[str, ...] = ()
    """The GPUs on which the last attempts of the jobs ran."""
    only_there: bool = False
    """Whether all jobs ran on the same GPU although the session has other GPUs."""
    group: str = ""
    """The group of the jobs, or empty if they are in different groups or the session has only one group."""

    @property
    def parameters_text(self) -> str:
        """The common parameters, such as `model=vit-b bs=256`, or empty if there are none."""
        return " ".join(title if value == FLAG else f"{title}={value}" for _, title, value in self.parameters)

    @property
    def where(self) -> str:
        """The GPUs as text: `only on GPU 3`, `GPU 3`, `GPUs 0 1 2`, or empty if the jobs ran on no GPU."""
        return f"only on {format_gpus(self.gpus)}" if self.only_there else format_gpus(self.gpus)


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
    """Return the jobs that have all parameters shared by the failed jobs. If none are shared, return no jobs."""
    if not common.parameters:
        return []
    return [job.id for job in jobs if _has_all(job.spec, common)]


def _has_all(spec: JobSpec, common: CommonFacts) -> bool:
    # Searching the command for the values is cheap and rules out most jobs.
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
    """Number of different error messages in the group besides `message`."""
    common: CommonFacts

    @property
    def count(self) -> int:
        return len(self.jobs)


def has_failed(job: Job) -> bool:
    """Return whether a job has failed and will not be run again."""
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

    __slots__ = ("_cached", "_shared", "jobs")

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self._shared: dict[str, str] | None = None
        """The parameters that all jobs have in common, or None if they have not been determined yet."""
        self._cached: tuple[object, FailureGroup] | None = None

    def add(self, job: Job) -> None:
        if self._shared is not None:
            self._shared = params_in_common(self._shared, job.spec)
        self.jobs[job.id] = job
        self._cached = None

    def remove(self, job: JobId) -> None:
        del self.jobs[job]
        self._cached = None
        # What a large group has in common stays true when a job is removed, so it is not determined again each time.
        if len(self.jobs) < LARGE_GROUP:
            self._shared = None

    def group(self, signature: str, parameters: Parameters, devices: int) -> FailureGroup:
        key = (parameters.columns(), devices)
        if self._cached is None or self._cached[0] != key:
            self._cached = key, self._make_group(signature, parameters, devices)
        return self._cached[1]

    def _make_group(self, signature: str, parameters: Parameters, devices: int) -> FailureGroup:
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
            common=self._common(parameters, devices),
        )

    def _common(self, parameters: Parameters, devices: int) -> CommonFacts:
        jobs = self.jobs.values()
        gpus = tuple(sorted({gpu for job in jobs for gpu in last_gpus(job)}, key=natural_order))
        if len(jobs) == 1:
            return CommonFacts(gpus=gpus)
        if self._shared is None:
            self._shared = common_parameters(jobs)
        shared, groups = self._shared, {job.spec.group for job in jobs}
        columns = (column for column in parameters.columns() if column.name in shared)
        return CommonFacts(
            parameters=tuple((column.name, column.title, shared[column.name]) for column in columns),
            gpus=gpus,
            only_there=len(gpus) == 1 < devices,
            group=groups.pop() if len(groups) == 1 and parameters.groups > 1 else "",
        )


class Failures:
    """The failed jobs of a session, grouped by error."""

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        self._groups: dict[str, _Group] = {}
        self._failed: dict[JobId, tuple[str, Job]] = {}
        for job in jobs:
            self.learn(job)

    def learn(self, job: Job) -> bool:
        """Add, update or remove a job. Return whether the groups have changed."""
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
        """Return the groups, newest first. `parameters` and the number of `devices` are those of the whole session."""
        groups = (group.group(signature, parameters, devices) for signature, group in self._groups.items())
        return sorted(groups, key=lambda group: (-group.last, -group.count))


def failure_groups(snapshot: Snapshot, parameters: Parameters) -> list[FailureGroup]:
    return Failures(snapshot).groups(parameters, device_count(snapshot))
