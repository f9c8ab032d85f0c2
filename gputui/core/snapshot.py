"""The immutable snapshot of a session, with the scopes that are paused after crashes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from . import breaker_rules
from .amounts import duration_exact
from .breaker import Scope, ScopeState
from .breaker_rules import LOOKED_AT, acquitted, next_probe
from .eta import NO_OUTLOOK, NO_PACES, Outlook, job_eta, silent_since
from .events import Cause, Mode, Settings, Submitted
from .job import FAILURES, Active, Job, JobId, LaneId, Running, Starting, StateName, Waiting
from .lanes import DeviceKind, Lane
from .results import Direction, JobResults, MainMetric, direction_of
from .structures import PackedMap, Vector

if TYPE_CHECKING:
    from .scheduler import Scheduler


# ---- What is done about crashes, for whoever looks ----


AT_A_SUCCESS = " or at a success"
"""What brings the next try forward, behind its time."""


class Caution(Struct, frozen=True, kw_only=True):
    """A scope in which jobs do not just start, as a snapshot has it."""

    group: str | None
    """None: all jobs."""
    cause: Cause
    job: JobId | None
    """The one that is tried, or will be; None: none is eligible."""
    tries: bool
    """It is being tried now."""
    at: float | None
    """When it is tried, or will have outlived the crashes; None: when somebody wants it, or while it stands still."""
    due: bool
    """It is tried as soon as it fits."""
    life: float
    """Seconds after which it will have outlived the crashes."""
    wait: float | None
    """The seconds from the last crash to the next try."""
    common: dict[str, str]
    """The parameters that all crashed jobs share, and no job of their group has succeeded with."""

    def covers(self, job: Job) -> bool:
        return self.group is None or self.group == job.spec.group

    @property
    def goes_on(self) -> bool:
        """Without anybody's help: one is tried, or will be."""
        return self.tries or (self.at is not None and self.job is not None)


def caution(scheduler: Scheduler, scope: Scope) -> Caution:
    tries = scope.state is ScopeState.HALF
    job = scope.probe.job if scope.probe is not None else _next(scheduler, scope)
    assert scope.cause is not None
    return Caution(
        group=scope.group,
        cause=scope.cause,
        job=job,
        tries=tries,
        at=breaker_rules.outlives_at(scheduler, scope) if tries else scope.probe_at,
        due=scope.due,
        life=scope.life,
        wait=scope.wait,
        common=scope.common,
    )


def rule(life: float) -> str:
    """When all go on after one: `#41 succeeds or lives 1:00`. The same words everywhere."""
    return f"succeeds or lives {duration_exact(life)}"


def over(snapshot: Snapshot, jobs: Collection[Job]) -> Caution | None:
    """What keeps all of these from starting."""
    return next((caution for caution in snapshot.cautions if all(map(caution.covers, jobs))), None)


def rerun_manner(snapshot: Snapshot, jobs: Collection[Job]) -> str:
    """How failed jobs start again, to be appended: `, one first`, or `, after #41` while that one is tried."""
    caution = over(snapshot, jobs)
    if caution is not None and caution.tries:
        return f", after #{caution.job}"
    return ", one first" if len(jobs) > 1 and snapshot.settings.pause_after else ""


def still_running(snapshot: Snapshot, caution: Caution) -> list[JobId]:
    """Jobs that were started before the crashes; the success of one of them makes the next try due."""
    jobs = (snapshot[job] for job in snapshot.active)
    return sorted(job.id for job in jobs if isinstance(job.state, Running | Starting) and caution.covers(job))


def crashed_jobs(snapshot: Snapshot) -> tuple[JobId, ...]:
    """All jobs that crashed since jobs are paused, in every scope; of very many a cause names only the newest."""
    jobs: set[JobId] = set()
    for caution in snapshot.cautions:
        jobs.update(caution.cause.jobs)
        if caution.cause.more:
            oldest = min(snapshot[job].attempts[-1].started for job in caution.cause.jobs if snapshot[job].attempts)
            since = min(oldest, caution.cause.since)
            jobs.update(job.id for job in snapshot if caution.covers(job) and _crashed_since(job, since))
    return tuple(sorted(jobs))


def crashed_alike(snapshot: Snapshot, caution: Caution) -> list[Job]:
    """Those of the named jobs that crashed as the first ones did, in the order in which they crashed."""
    jobs = (snapshot[job] for job in caution.cause.jobs if job in snapshot)
    alike = caution.cause.signature
    return [job for job in jobs if job.attempts and alike in (None, job.attempts[-1].signature)]


def telling(snapshot: Snapshot, caution: Caution) -> dict[str, str]:
    """What the crashed jobs share and others of their groups do not, as far as a look at some of them tells."""
    suspects, groups = dict(caution.common), {snapshot[job].spec.group for job in caution.cause.jobs if job in snapshot}
    telling: dict[str, str] = {}
    others = (job for job in snapshot if job.spec.group in groups and job.id not in caution.cause.jobs)
    for job in islice(others, LOOKED_AT) if suspects else ():
        lacks = acquitted(suspects, job)
        telling |= lacks
        suspects = {name: value for name, value in suspects.items() if name not in lacks}
        if not suspects:
            break
    return {name: value for name, value in caution.common.items() if name in telling}


def _crashed_since(job: Job, since: float) -> bool:
    return job.state.name in FAILURES and bool(job.attempts) and job.attempts[-1].ended >= since


def _next(scheduler: Scheduler, scope: Scope) -> JobId | None:
    remembered = scheduler.next_probes.get(scope.group)
    if remembered is None or remembered[0] is not scheduler.book.jobs or remembered[1] is not scope:
        job = next_probe(scheduler, scope)
        remembered = (scheduler.book.jobs, scope, job.id if job is not None else None)
        scheduler.next_probes[scope.group] = remembered
    return remembered[2]


def goes_on_by(scheduler: Scheduler, scope: Scope, now: float) -> str:
    """How it goes on, in words: `tries #41 in 8:12`, `#41 is tried alone`."""
    seen_caution = caution(scheduler, scope)
    if seen_caution.tries:
        return f"#{seen_caution.job} is tried alone"
    if seen_caution.job is None or seen_caution.at is None:
        return "resume or rerun goes on"
    if seen_caution.due or seen_caution.at <= now:
        return f"#{seen_caution.job} is tried as soon as it fits"
    sooner = AT_A_SUCCESS if _something_runs(scheduler, seen_caution) else ""
    return f"tries #{seen_caution.job} in {duration_exact(seen_caution.at - now)}{sooner}"


def _something_runs(scheduler: Scheduler, caution: Caution) -> bool:
    """What was started before the crashes, so that its success makes the next try due."""
    jobs = (scheduler.book[job] for job in scheduler.book.active)
    return any(isinstance(job.state, Running | Starting) and caution.covers(job) for job in jobs)


# ---- The immutable picture of a session ----


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
    blocked: frozenset[LaneId] = frozenset()
    """Lanes on which no job can start now, because of somebody else's process or because the card is in trouble."""
    submitted: dict[JobId, Submitted] = {}
    """What waits in a cluster's own queue, and for what."""
    outlook: Outlook = NO_OUTLOOK
    """When jobs will have ended."""
    paces: Mapping[str, float] = NO_PACES
    """The pause between two outputs that is usual in each group: by it a job is silent."""
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

    @property
    def is_saved(self) -> bool:
        """Whether what it shows is durable: an engine that does not answer keeps nothing from being saved."""
        return self.trouble is None or self.trouble == self.unavailable

    def __getitem__(self, job_id: JobId) -> Job:
        return self.jobs[job_id - self.first_id]

    def __contains__(self, job_id: JobId) -> bool:
        return 0 <= job_id - self.first_id < len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        """The jobs that were not removed."""
        return (job for job in self.jobs if not job.archived)

    def count(self, *names: StateName) -> int:
        return sum(self.counts.get(name, 0) for name in names)

    def silent_since(self, job: Job, now: float) -> float | None:
        """Since when a running job has printed nothing, if that is long for it."""
        return silent_since(job, self.results.get(job.id), self.paces.get(job.spec.group), now)

    def job_eta(self, job: Job, now: float) -> float | None:
        """When a running job will have ended, by its progress."""
        return job_eta(job, self.results.get(job.id), now, self.paces.get(job.spec.group))

    def direction(self, metric: str) -> Direction:
        """Which way of a metric is good: as the user said it of the main one, else by its name."""
        main = self.metric
        return main.direction if main is not None and main.name == metric else direction_of(metric)

    @property
    def eta(self) -> float | None:
        """When all jobs will have ended; None: of some it cannot be told."""
        return self.outlook.at if self.outlook.jobs == self.not_begun + self.running else None

    @property
    def waiting(self) -> int:
        return self.count(*(state.name for state in Waiting.__subclasses__()))

    @property
    def on_cluster(self) -> bool:
        """All lanes are jobs in the queue of a cluster, or none is."""
        first = next(iter(self.lanes or self.leaving), None)
        return first is not None and first.kind is DeviceKind.SLURM

    @property
    def submitted_count(self) -> int:
        """How many jobs wait in a cluster's own queue."""
        return self.count(StateName.STARTING) if self.on_cluster else 0

    @property
    def not_begun(self) -> int:
        """How many jobs wait, here or in a cluster's own queue."""
        return self.waiting + self.submitted_count

    @property
    def running(self) -> int:
        """How many jobs are under way; one that waits in a cluster's own queue is not."""
        return self.count(*(state.name for state in Active.__subclasses__())) - self.submitted_count


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
        blocked=frozenset(lane.id for lane in board.lanes if any(map(board.cards.blocked, lane.devices))),
        submitted=dict(scheduler.submitted),
        unavailable=scheduler.unavailable,
    )
