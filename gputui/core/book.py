"""All jobs with their indexes: the sorted queue, the timers, and the dependencies that are not yet satisfied."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from . import job as states
from .job import HIGHEST_PRIORITY, Job, JobId, Request, StateName

# The sorted queue


BLOCK = 256
SORT_AGAIN_RATIO = 16
"""If the queue is at most this many times as long as the list of new places, sorting the whole queue is cheaper."""


class Place(NamedTuple):
    """The sort key of a job in the queue: higher priority first, then the position, which the user can change."""

    urgency: int
    """The distance from the highest priority. It is small and not negative, so that Python shares the integers."""
    position: float
    job: JobId


def place_of(job: Job) -> Place:
    return Place(HIGHEST_PRIORITY - job.priority, job.position, job.id)


def kind_of(job: Job) -> tuple[Request, str]:
    """Return the job's request and group. Ready jobs that share both are in one sorted queue."""
    return job.request, job.spec.group


class Order:
    """A sorted list of places. It consists of short blocks, so that a change is cheap even if there are many places."""

    __slots__ = ("_blocks", "_ends", "_length")

    def __init__(self) -> None:
        self._blocks: list[list[Place]] = []
        self._ends: list[Place] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Place]:
        for block in self._blocks:
            yield from block

    def first(self) -> Place | None:
        return self._blocks[0][0] if self._blocks else None

    def add(self, place: Place) -> None:
        self._length += 1
        if not self._blocks:
            self._blocks.append([place])
            self._ends.append(place)
            return
        number = min(bisect_left(self._ends, place), len(self._blocks) - 1)
        block = self._blocks[number]
        insort(block, place)
        if len(block) > 2 * BLOCK:
            self._blocks[number : number + 1] = [block[:BLOCK], block[BLOCK:]]
            self._ends[number : number + 1] = [block[BLOCK - 1], block[-1]]
        else:
            self._ends[number] = block[-1]

    def extend(self, places: Sequence[Place]) -> None:
        """Add places one by one if they are few. Otherwise sort everything again, which is cheaper."""
        if len(places) * SORT_AGAIN_RATIO < self._length:
            for place in places:
                self.add(place)
            return
        ordered = sorted([*self, *places])
        self._blocks = [ordered[start : start + BLOCK] for start in range(0, len(ordered), BLOCK)]
        self._ends = [block[-1] for block in self._blocks]
        self._length = len(ordered)

    def remove(self, place: Place) -> None:
        number = bisect_left(self._ends, place)
        block = self._blocks[number]
        at = bisect_left(block, place)
        if block[at] != place:
            raise KeyError(place)
        del block[at]
        self._length -= 1
        if block:
            self._ends[number] = block[-1]
        else:
            del self._blocks[number], self._ends[number]

    def before(self, place: Place) -> Place | None:
        """Return the last place before the given one, or None if there is none."""
        number = bisect_left(self._ends, place)
        if number < len(self._blocks):
            block = self._blocks[number]
            at = bisect_left(block, place)
            if at:
                return block[at - 1]
        return self._ends[number - 1] if number else None

    def after(self, place: Place) -> Place | None:
        """Return the first place after the given one, or None if there is none."""
        number = bisect_right(self._ends, place)
        if number == len(self._blocks):
            return None
        block = self._blocks[number]
        return block[bisect_right(block, place)]

    def rank(self, place: Place) -> int:
        """Return the number of places before the given one."""
        number = bisect_left(self._ends, place)
        below = sum(map(len, self._blocks[:number]))
        return below + (bisect_left(self._blocks[number], place) if number < len(self._blocks) else 0)


# Timers


def due(job: Job) -> float | None:
    """Return when the job's delay, time limit or grace period ends, or None if none of them is running."""
    match job.state:
        case states.Delayed(until=until):
            return until
        case states.Stopping(deadline=deadline, hard=False):
            return deadline
        case states.Running(placed=placed, suspended_for=suspended_for) if job.spec.timeout is not None:
            return placed.since + job.spec.timeout + suspended_for
    return None


class Timers:
    """A heap of due times. Outdated entries stay in the heap until they reach the top."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, JobId]] = []

    def set(self, job: Job) -> None:
        when = due(job)
        if when is not None:
            heapq.heappush(self._heap, (when, job.id))

    def next(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def first(self, book: Book) -> JobId | None:
        """Return the job that is due next, or None if there is none. Drop outdated entries."""
        while self._heap:
            when, job_id = self._heap[0]
            if due(book[job_id]) == when and not book[job_id].archived:
                return job_id
            heapq.heappop(self._heap)
        return None

    def pop(self, now: float) -> JobId | None:
        """Remove and return a job that may be due, or return None. The caller must check with `due`."""
        if self._heap and self._heap[0][0] <= now:
            return heapq.heappop(self._heap)[1]
        return None


# The book


class Book:
    """All jobs by id, with indexes. Ids start at `first_id`, have no gaps and are never reused."""

    def __init__(self, jobs: Iterable[Job] = (), first_id: JobId = 0, revoked: Iterable[str] = ()) -> None:
        self.first_id = first_id
        self._jobs: list[Job] = []
        self.version = 0
        """Counter that is incremented by every change."""
        self._picture: tuple[int, tuple[Job, ...]] = (0, ())
        self.earlier: dict[JobId, Job] = {}
        """Earlier versions of the jobs that changed since the last call of `mark`."""
        self.line = Order()
        """All waiting jobs, in the order shown to the user."""
        self.ready: dict[tuple[Request, str], Order] = {}
        """Queued jobs by request and group. Placement only looks at the first job of each queue."""
        self.timers = Timers()
        self.counts: Counter[StateName] = Counter()
        self.active: set[JobId] = set()
        self.waiting_of: Counter[tuple[Request, str]] = Counter()
        """Number of waiting jobs by request and group, without held jobs."""
        self.gpu_seconds: defaultdict[str, float] = defaultdict(float)
        """GPU-seconds used by the ended attempts of each group."""
        self.dependents: dict[JobId, list[JobId]] = {}
        self.unmet: dict[JobId, set[JobId]] = {}
        """For each blocked job, the jobs that it still waits for."""
        self.named: dict[str, list[JobId]] = {}
        self.keys: dict[str, JobId] = {}
        """The id of the job with each key, even if that job was removed."""
        self.revoked = set(revoked)
        """Keys that were revoked. No job may be added with one of them."""
        self.unsaved_revoked: list[str] = []
        """Keys that were revoked since the last commit to the store, in the order in which they were revoked."""
        self.changed: set[JobId] = set()
        """Jobs that changed since the last snapshot."""
        self.unsaved: dict[JobId, Job | None] = {}
        """The jobs that changed since the last commit to the store, as they were at that commit. None for new jobs."""
        self.extend(jobs)
        self.unsaved.clear()

    def __len__(self) -> int:
        return len(self._jobs)

    def __getitem__(self, job_id: JobId) -> Job:
        return self._jobs[job_id - self.first_id]

    def __contains__(self, job_id: JobId) -> bool:
        return 0 <= job_id - self.first_id < len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    @property
    def next_id(self) -> JobId:
        return self.first_id + len(self._jobs)

    def picture(self) -> tuple[Job, ...]:
        """Return all jobs. The same tuple is returned until something changes."""
        if self._picture[0] != self.version:
            self._picture = (self.version, tuple(self._jobs))
        return self._picture[1]

    def mark(self) -> dict[JobId, Job]:
        """Start and return a new `earlier` dict, which collects the earlier versions of jobs that change later."""
        self.earlier = {}
        return self.earlier

    def extend(self, jobs: Iterable[Job]) -> None:
        """Add new jobs. Their ids must continue the existing ids without a gap."""
        entered = list(jobs)
        self._jobs += entered
        self.unsaved |= dict.fromkeys((job.id for job in entered), None)
        self.version += 1
        self._line_up(entered)
        for job in entered:
            self._enter(job, is_queued=True)
            self._count_use(job, 1)
            for earlier in job.after:
                self.dependents.setdefault(earlier, []).append(job.id)
            if job.spec.name is not None:
                self.named.setdefault(job.spec.name, []).append(job.id)
            if job.spec.key is not None:
                self.keys[job.spec.key] = job.id

    def revoke(self, key: str) -> None:
        self.revoked.add(key)
        self.unsaved_revoked.append(key)

    def put(self, job: Job) -> None:
        """Replace a job and update the indexes."""
        before = self._replace(job)
        self._leave(before)
        self._enter(job, is_timed=job.state is before.state)
        if job.attempts is not before.attempts or job.spec.group != before.spec.group:
            self._count_use(before, -1)
            self._count_use(job, 1)
        if job.spec is before.spec:
            return
        if before.spec.key is not None and job.spec.key is None:
            del self.keys[before.spec.key]
        if before.after != job.after:
            for earlier in before.after:
                self.dependents[earlier].remove(job.id)
            for earlier in job.after:
                self.dependents.setdefault(earlier, []).append(job.id)
        if before.spec.name != job.spec.name:
            if before.spec.name is not None:
                self.named[before.spec.name].remove(job.id)
            if job.spec.name is not None:
                self.named.setdefault(job.spec.name, []).append(job.id)

    def put_all(self, jobs: Iterable[Job]) -> None:
        """Replace jobs in which only times have changed, so that only the timers must be updated."""
        for job in jobs:
            self._replace(job)
            self.changed.add(job.id)
            self.timers.set(job)

    def _replace(self, job: Job) -> Job:
        before = self[job.id]
        self.earlier.setdefault(job.id, before)
        self.unsaved.setdefault(job.id, before)
        self._jobs[job.id - self.first_id] = job
        self.version += 1
        return before

    def _enter(self, job: Job, *, is_timed: bool = False, is_queued: bool = False) -> None:
        self.changed.add(job.id)
        if job.archived:
            return
        state = job.state
        self.counts[state.name] += 1
        if isinstance(state, states.Waiting):
            if not isinstance(state, states.Queued):
                self._count_waiting(job, 1)
            if isinstance(state, states.Blocked):
                self.unmet[job.id] = {id for id in job.after if not isinstance(self[id].state, states.Ended)}
            if not is_queued:
                self._line_up([job])
        elif job.active is not None:
            self.active.add(job.id)
        if not is_timed and not isinstance(state, states.Queued):
            self.timers.set(job)

    def _line_up(self, jobs: list[Job]) -> None:
        """Add waiting jobs to the sorted queues."""
        waiting: list[Place] = []
        ready: dict[tuple[Request, str], list[Place]] = {}
        for job in jobs:
            if isinstance(job.state, states.Waiting) and not job.archived:
                place = place_of(job)
                waiting.append(place)
                if isinstance(job.state, states.Queued):
                    ready.setdefault(kind_of(job), []).append(place)
        self.line.extend(waiting)
        for kind, places in ready.items():
            self.ready.setdefault(kind, Order()).extend(places)
            self.waiting_of[kind] += len(places)

    def _leave(self, job: Job) -> None:
        if job.archived:
            return
        self.counts[job.state.name] -= 1
        self.unmet.pop(job.id, None)
        if isinstance(job.state, states.Waiting):
            place = place_of(job)
            self.line.remove(place)
            self._count_waiting(job, -1)
            if isinstance(job.state, states.Queued):
                kind = kind_of(job)
                self.ready[kind].remove(place)
                if not self.ready[kind]:
                    del self.ready[kind]
        else:
            self.active.discard(job.id)

    def _count_waiting(self, job: Job, by: int) -> None:
        if isinstance(job.state, states.Held):
            return
        kind = kind_of(job)
        self.waiting_of[kind] += by
        if not self.waiting_of[kind]:
            del self.waiting_of[kind]

    def _count_use(self, job: Job, by: int) -> None:
        for attempt in job.attempts:
            if attempt.gpus:
                self.gpu_seconds[job.spec.group] += by * attempt.seconds * len(attempt.gpus)


def median(values: Iterable[float]) -> float:
    """Return the median. This replaces `statistics.median` because the import of `statistics` is slow."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
