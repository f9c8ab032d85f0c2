"""The immutable picture of a session: all that the UI and clients ever see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gputui.core.structures.packed import PackedMap
from gputui.core.structures.vector import Vector

from .events import Settings, Submitted
from .job import Active, Job, JobId, LaneId, StateName, Waiting
from .lanes import Lane
from .mode import Cause, Mode
from .results import JobResults, MainMetric
from .views.caution import Caution, caution

if TYPE_CHECKING:
    from .scheduler import Scheduler

NO_RESULTS: Mapping[JobId, JobResults] = PackedMap(JobResults)


class Snapshot(Struct, frozen=True, kw_only=True):
    """Shares its jobs with the snapshots before and after it."""

    version: int
    changed: frozenset[JobId]
    """The jobs that differ from the snapshot before."""
    first_id: JobId
    jobs: Vector[Job]
    counts: dict[StateName, int]
    """Removed jobs are not counted."""
    active: frozenset[JobId]
    mode: Mode
    cause: Cause | None
    cautions: tuple[Caution, ...] = ()
    """Where jobs do not just start because of crashes: all jobs, or groups."""
    settings: Settings
    lanes: tuple[Lane, ...]
    leaving: tuple[Lane, ...]
    """No longer wanted, but their jobs still run."""
    holders: dict[LaneId, JobId]
    submitted: dict[JobId, Submitted] = {}
    """What waits in a cluster's own queue, and for what."""
    eta: float | None = None
    awaits: str = ""
    """While nothing runs: what must happen first."""
    results: Mapping[JobId, JobResults] = NO_RESULTS
    """What the jobs that printed any have come to; one is unpacked when it is asked for."""
    metric: MainMetric | None = None
    """What jobs are compared by: chosen by the user, or guessed from what most of them print."""
    best: JobId | None = None
    """The job that is best by it."""
    trouble: str | None = None
    """What keeps the owner from working as it should, in one sentence."""
    unavailable: str = ""
    """Why its engine cannot be reached; the same as `trouble` where nothing else is."""

    def __getitem__(self, job_id: JobId) -> Job:
        return self.jobs[job_id - self.first_id]

    def __contains__(self, job_id: JobId) -> bool:
        return 0 <= job_id - self.first_id < len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        """The jobs that were not removed."""
        return (job for job in self.jobs if not job.archived)

    def count(self, *names: StateName) -> int:
        return sum(self.counts.get(name, 0) for name in names)

    @property
    def waiting(self) -> int:
        return self.count(*(state.name for state in Waiting.__subclasses__()))

    @property
    def running(self) -> int:
        return self.count(*(state.name for state in Active.__subclasses__()))


def take_snapshot(scheduler: Scheduler, version: int) -> Snapshot:
    """Costs what changed since the last one, not what there is; what changed counts as told."""
    book, board = scheduler.book, scheduler.board
    changed = frozenset(book.changed)
    book.changed.clear()
    return Snapshot(
        version=version,
        changed=changed,
        first_id=book.first_id,
        jobs=book.jobs,
        counts={name: count for name, count in book.counts.items() if count},
        active=frozenset(book.active),
        mode=scheduler.mode,
        cause=scheduler.cause,
        cautions=tuple(caution(scheduler, scope) for scope in scheduler.breaker.cautious),
        settings=scheduler.settings,
        lanes=board.lanes,
        leaving=tuple(board.leaving()),
        holders=dict(board.holders),
        submitted=dict(scheduler.submitted),
        unavailable=scheduler.unavailable,
    )
