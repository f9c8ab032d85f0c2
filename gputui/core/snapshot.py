"""The immutable snapshot of a session, from which views are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress, count
from operator import is_not

from msgspec import Struct
from msgspec.structs import replace

from .breaker import Scope
from .eta import NO_OUTLOOK, Outlook, job_eta, silent_since
from .events import Cause, Mode, Settings, Submitted
from .job import Active, Job, JobId, Request, SlotId, StateName, Waiting
from .results import NO_PACES, NO_RESULTS, Behind, Direction, JobResults, MainMetric, direction_of
from .slots import DeviceKind, Slot


class PausedScope(Scope, frozen=True, kw_only=True):
    """A scope that is paused after repeated errors, and its current or next probe."""

    cause: Cause
    job: JobId | None
    """The job that is the current or the next probe, or None if no job is eligible."""
    at: float | None
    """When the next probe starts or the running probe counts as working, or None if that depends on the user."""

    @property
    def resumes_itself(self) -> bool:
        """Whether a probe is running or will start by itself."""
        return self.probing or (self.at is not None and self.job is not None)


class Snapshot(Struct, frozen=True, kw_only=True):
    """The state of a session at one moment. Consecutive snapshots share their unchanged jobs."""

    version: int
    changed: frozenset[JobId]
    """Jobs that differ from the previous snapshot."""
    first_id: JobId
    jobs: tuple[Job, ...]
    counts: dict[StateName, int]
    """Number of jobs in each state, without removed jobs."""
    active: frozenset[JobId]
    mode: Mode
    cause: Cause | None
    paused_scopes: tuple[PausedScope, ...] = ()
    """The scopes that are paused after repeated errors: all jobs, or groups."""
    settings: Settings
    slots: tuple[Slot, ...]
    leaving: tuple[Slot, ...]
    """Removed slots with jobs that are still running."""
    holders: dict[SlotId, JobId]
    blocked: frozenset[SlotId] = frozenset()
    """Slots on which no job can start now, because of an external process or a failing device."""
    submitted: dict[JobId, Submitted] = {}
    """Jobs that wait in a cluster's own queue, with the reasons given by the cluster."""
    outlook: Outlook = NO_OUTLOOK
    """The estimate of when the jobs will end."""
    over_budget: frozenset[tuple[Request, str]] = frozenset()
    """The requests and groups of queued jobs that do not start because a budget is used up."""
    paces: Mapping[str, float] = NO_PACES
    """The usual pause, in seconds, between two outputs of a job in each group."""
    awaits: str = ""
    """What the jobs are waiting for. Empty while a job is running."""
    results: Mapping[JobId, JobResults] = NO_RESULTS
    """Results of the jobs that printed any. They are unpacked on access."""
    metric: MainMetric | None = None
    """The metric to compare jobs by, chosen by the user or guessed, or None."""
    best: JobId | None = None
    """The best job by `metric`, or None."""
    behind: Mapping[JobId, Behind] = {}
    """Running jobs that are clearly behind their siblings by `metric`."""
    trouble: str | None = None
    """A problem of the scheduler's process, in one sentence."""
    unavailable: str = ""
    """Why the engine cannot be reached, or empty. If there is no other problem, `trouble` is the same text."""

    @property
    def is_saved(self) -> bool:
        """Whether the snapshot's contents are stored, which is also the case while the engine cannot be reached."""
        return self.trouble is None or self.trouble == self.unavailable

    def __getitem__(self, job_id: JobId) -> Job:
        return self.jobs[job_id - self.first_id]

    def __contains__(self, job_id: JobId) -> bool:
        return 0 <= job_id - self.first_id < len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs that have not been removed."""
        return (job for job in self.jobs if not job.archived)

    def count(self, *names: StateName) -> int:
        return sum(self.counts.get(name, 0) for name in names)

    def silent_since(self, job: Job, now: float) -> float | None:
        """Return when a running job last printed something if that is unusually long ago, else None."""
        return silent_since(job, self.results.get(job.id), self.paces.get(job.spec.group), now)

    def job_eta(self, job: Job, now: float) -> float | None:
        """Estimate a running job's end from its progress, or return None."""
        return job_eta(job, self.results.get(job.id), now, self.paces.get(job.spec.group))

    def direction(self, metric: str) -> Direction:
        """Return the better direction of a metric: the user's choice for the main metric, otherwise a guess."""
        main = self.metric
        return main.direction if main is not None and main.name == metric else direction_of(metric)

    def with_latest_eta(self, now: float) -> Snapshot:
        """Return the snapshot with an outlook that ends no earlier than the running jobs, if it has an end.

        The outlook is estimated less often than jobs print progress.
        """
        if self.outlook.at is None:
            return self
        ends = (self.job_eta(self[job_id], now) for job_id in self.active)
        latest = max((end for end in ends if end is not None), default=self.outlook.at)
        return replace(self, outlook=replace(self.outlook, at=latest)) if latest > self.outlook.at else self

    @property
    def eta(self) -> float | None:
        """When all jobs are expected to have ended, or None if that is unknown for some of them."""
        return self.outlook.at if self.outlook.jobs == self.not_begun + self.running else None

    @property
    def waiting(self) -> int:
        return self.count(*(state.name for state in Waiting.__subclasses__()))

    @property
    def on_cluster(self) -> bool:
        """Whether the slots are places in a cluster's queue."""
        first = next(iter(self.slots or self.leaving), None)
        return first is not None and first.kind is DeviceKind.SLURM

    @property
    def submitted_count(self) -> int:
        """Number of jobs in the cluster's own queue."""
        return self.count(StateName.STARTING) if self.on_cluster else 0

    @property
    def not_begun(self) -> int:
        """Number of jobs that have not started. This includes the jobs in a cluster's own queue."""
        return self.waiting + self.submitted_count

    @property
    def running(self) -> int:
        """Number of active jobs, without those in the cluster's own queue."""
        return self.count(*(state.name for state in Active.__subclasses__())) - self.submitted_count


def changed_places(jobs: tuple[Job, ...], earlier: tuple[Job, ...]) -> Iterator[int]:
    """Yield the indexes of jobs that differ between two snapshots. `earlier` may be shorter."""
    yield from compress(count(), map(is_not, jobs, earlier))
    yield from range(len(earlier), len(jobs))
