"""The book of all jobs with every index over it: the sorted queue and the timers."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .job import Blocked, Delayed, Ended, Held, Job, JobId, Queued, Request, Running, StateName, Stopping, Waiting
from .structures import Vector

# ---- A sorted line of jobs whose changes stay cheap when it is long ----


BLOCK = 256
FEW = 16
"""Adding one place costs as much as sorting so many anew."""


class Place(NamedTuple):
    """Where a job stands: higher priority first, then the user's position."""

    urgency: int
    position: float
    job: JobId


def place_of(job: Job) -> Place:
    return Place(-job.priority, job.position, job.id)


def kind_of(job: Job) -> tuple[Request, str]:
    """Jobs of one kind wait in one line."""
    return job.request, job.spec.group


class Order:
    """Places in ascending order, kept in short blocks so that no operation moves the whole line."""

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

    def __contains__(self, place: Place) -> bool:
        number = bisect_left(self._ends, place)
        if number == len(self._blocks):
            return False
        block = self._blocks[number]
        return block[bisect_left(block, place)] == place

    def first(self) -> Place | None:
        return self._blocks[0][0] if self._blocks else None

    def last(self) -> Place | None:
        return self._ends[-1] if self._ends else None

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
            self._split(number)
        else:
            self._ends[number] = block[-1]

    def extend(self, places: Sequence[Place]) -> None:
        """Many at once: where they are not few beside those in line, sorting all anew is cheaper than adding each."""
        if len(places) * FEW < self._length:
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
        """The greatest place below this one."""
        number = bisect_left(self._ends, place)
        if number < len(self._blocks):
            block = self._blocks[number]
            at = bisect_left(block, place)
            if at:
                return block[at - 1]
        return self._ends[number - 1] if number else None

    def after(self, place: Place) -> Place | None:
        """The smallest place above this one."""
        number = bisect_right(self._ends, place)
        if number == len(self._blocks):
            return None
        block = self._blocks[number]
        return block[bisect_right(block, place)]

    def rank(self, place: Place) -> int:
        """How many places are below this one."""
        number = bisect_left(self._ends, place)
        below = sum(map(len, self._blocks[:number]))
        return below + (bisect_left(self._blocks[number], place) if number < len(self._blocks) else 0)

    def _split(self, number: int) -> None:
        block = self._blocks[number]
        self._blocks[number : number + 1] = [block[:BLOCK], block[BLOCK:]]
        self._ends[number : number + 1] = [block[BLOCK - 1], block[-1]]


# ---- Moments at which a job must be looked at again ----


def due(job: Job) -> float | None:
    """When this job changes by itself: the end of a delay, of its time limit, or of its grace."""
    match job.state:
        case Delayed(until=until):
            return until
        case Stopping(deadline=deadline, hard=False):
            return deadline
        case Running(placed=placed, suspended_for=suspended_for) if job.spec.timeout is not None:
            return placed.since + job.spec.timeout + suspended_for
    return None


class Timers:
    """A heap of moments; one that no longer holds is noticed when it comes up, not when it becomes stale."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, JobId]] = []

    def set(self, job: Job) -> None:
        when = due(job)
        if when is not None:
            heapq.heappush(self._heap, (when, job.id))

    def next(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def first(self, book: Book) -> JobId | None:
        """The job that comes up next; entries that no longer hold are dropped on the way."""
        while self._heap:
            when, job_id = self._heap[0]
            if due(book[job_id]) == when and not book[job_id].archived:
                return job_id
            heapq.heappop(self._heap)
        return None

    def pop(self, now: float) -> JobId | None:
        """A job whose moment may have come; the caller checks `due`."""
        if self._heap and self._heap[0][0] <= now:
            return heapq.heappop(self._heap)[1]
        return None

    def __contains__(self, job: Job) -> bool:
        return (due(job), job.id) in self._heap


# ---- The book of all jobs and every index over it ----


class Book:
    """Jobs by id, and who waits where. Ids run from `first_id` without gaps and are never reused."""

    def __init__(self, jobs: Iterable[Job] = (), first_id: JobId = 0) -> None:
        self.first_id = first_id
        self.jobs: Vector[Job] = Vector()
        self.line = Order()
        """All waiting jobs, in the order the user sees."""
        self.ready: dict[tuple[Request, str], Order] = {}
        """The eligible ones, one line for each request of each group, so that a group can be passed over."""
        self.timers = Timers()
        self.counts: Counter[StateName] = Counter()
        self.active: set[JobId] = set()
        self.waiting_of: Counter[tuple[Request, str]] = Counter()
        """How many wait with each request of each group. Held ones apart: they do not start by themselves."""
        self.dependents: dict[JobId, list[JobId]] = {}
        self.unmet: dict[JobId, set[JobId]] = {}
        """For each blocked job, the jobs it still waits for."""
        self.named: dict[str, list[JobId]] = {}
        self.changed: set[JobId] = set()
        """Since the last snapshot."""
        self.unsaved: set[JobId] = set()
        """Since the last durable commit."""
        self.extend(jobs)
        self.unsaved.clear()

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, job_id: JobId) -> Job:
        return self.jobs[job_id - self.first_id]

    def __contains__(self, job_id: JobId) -> bool:
        return 0 <= job_id - self.first_id < len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    @property
    def next_id(self) -> JobId:
        return self.first_id + len(self.jobs)

    def extend(self, jobs: Iterable[Job]) -> None:
        """Enters new jobs; their ids must follow on."""
        entered = list(jobs)
        self.jobs = self.jobs.extend(entered)
        self._line_up(entered)
        for job in entered:
            self._enter(job, is_in_line=True)
            for earlier in job.after:
                self.dependents.setdefault(earlier, []).append(job.id)
            if job.spec.name is not None:
                self.named.setdefault(job.spec.name, []).append(job.id)

    def put(self, job: Job) -> None:
        """Replaces a job and moves it between the indexes."""
        before = self[job.id]
        self._leave(before)
        self.jobs = self.jobs.set(job.id - self.first_id, job)
        self._enter(job, is_timed=job.state is before.state)
        if job.spec is not before.spec:
            self._reindex_spec(before, job)

    def put_all(self, jobs: Iterable[Job]) -> None:
        """Replaces jobs of which only the times differ: each stays in its place in every line."""
        entered = list(self.jobs)
        for job in jobs:
            entered[job.id - self.first_id] = job
            self.changed.add(job.id)
            self.unsaved.add(job.id)
            self.timers.set(job)
        self.jobs = Vector(entered)

    def _reindex_spec(self, before: Job, job: Job) -> None:
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

    def _enter(self, job: Job, *, is_timed: bool = False, is_in_line: bool = False) -> None:
        self.changed.add(job.id)
        self.unsaved.add(job.id)
        if job.archived:
            return
        state = job.state
        self.counts[state.name] += 1
        if isinstance(state, Waiting):
            self._count_waiting(job, 1)
            if isinstance(state, Blocked):
                self.unmet[job.id] = {id for id in job.after if not isinstance(self[id].state, Ended)}
            if not is_in_line:
                self._line_up([job])
        elif job.active is not None:
            self.active.add(job.id)
        if not is_timed and not isinstance(state, Queued):
            self.timers.set(job)

    def _line_up(self, jobs: list[Job]) -> None:
        """Puts those that wait into their lines."""
        waiting: list[Place] = []
        ready: dict[tuple[Request, str], list[Place]] = {}
        for job in jobs:
            if isinstance(job.state, Waiting) and not job.archived:
                place = place_of(job)
                waiting.append(place)
                if isinstance(job.state, Queued):
                    ready.setdefault(kind_of(job), []).append(place)
        self.line.extend(waiting)
        for kind, places in ready.items():
            self.ready.setdefault(kind, Order()).extend(places)

    def _leave(self, job: Job) -> None:
        if job.archived:
            return
        self.counts[job.state.name] -= 1
        self.unmet.pop(job.id, None)
        if isinstance(job.state, Waiting):
            place = place_of(job)
            self.line.remove(place)
            self._count_waiting(job, -1)
            if isinstance(job.state, Queued):
                self._leave_ready(kind_of(job), place)
        else:
            self.active.discard(job.id)

    def _count_waiting(self, job: Job, by: int) -> None:
        if isinstance(job.state, Held):
            return
        kind = kind_of(job)
        self.waiting_of[kind] += by
        if not self.waiting_of[kind]:
            del self.waiting_of[kind]

    def _leave_ready(self, kind: tuple[Request, str], place: Place) -> None:
        line = self.ready[kind]
        line.remove(place)
        if not line:
            del self.ready[kind]
