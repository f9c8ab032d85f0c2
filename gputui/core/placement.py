"""Which waiting job goes on which lanes, and which job an urgent one replaces."""

from __future__ import annotations

import heapq
from heapq import merge
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from . import breaker_rules, commands
from .book import Place, place_of
from .breaker import Scope
from .breaker_rules import next_probe
from .events import Instruction, Mode, Start
from .job import (
    URGENT_PRIORITY,
    Active,
    Job,
    JobId,
    LaneId,
    Placed,
    Purpose,
    Queued,
    Request,
    Running,
    Starting,
    Stopping,
)
from .lanes import Board, Lane

if TYPE_CHECKING:
    from .scheduler import Scheduler


# ---- Which waiting job goes on which lanes ----


def place(scheduler: Scheduler, now: float) -> list[Start]:
    """Fills the free lanes in order; a job that does not fit lets smaller ones pass, until its patience ends."""
    if not _something_may_start(scheduler, now):
        return []
    starts: list[Start] = []
    reserved: frozenset[LaneId] | None = None
    heap = _heads(scheduler)
    while heap:
        head, number, kind = heapq.heappop(heap)
        job = scheduler.book[head.job]
        lanes = _lanes_for(scheduler, scheduler.asked(job), reserved or frozenset())
        if lanes is not None:
            starts.append(_start(scheduler, job, lanes, now))
            if isinstance(kind, Scope):
                breaker_rules.started(scheduler, kind, starts[-1].job, now)
            elif (following := _following(scheduler, kind)) is not None:
                heapq.heappush(heap, (following, number, kind))
        elif reserved is None and scheduler.board.takes_lane(job.request):
            reserved = _lanes_kept_for(scheduler, job, now)
    return starts


Kind = tuple[Request, str]
Head = tuple[Place, int, Kind | Scope]
"""A job, and of which line it is the first, or in which scope it is the one that is tried."""


def _following(scheduler: Scheduler, kind: Kind) -> Place | None:
    line = scheduler.book.ready.get(kind)
    return line.first() if line is not None else None


def _something_may_start(scheduler: Scheduler, now: float) -> bool:
    if scheduler.wanted_mode is not Mode.RUNNING or scheduler.cannot_start or now < scheduler.starts_again_at:
        return False
    return scheduler.board.any_free() or _cpu_job_may_start(scheduler)


def _heads(scheduler: Scheduler) -> list[Head]:
    """A line whose group is paused has none; the one job that is tried there stands for it."""
    cautious = scheduler.breaker.cautious
    heap: list[Head] = []
    for kind, line in scheduler.book.ready.items():
        head = line.first()
        if head is not None and not any(scope.covers(kind[1]) for scope in cautious):
            heap.append((head, len(heap), kind))
    for scope in cautious:
        job = next_probe(scheduler, scope) if scope.due else None
        if job is not None:
            heap.append((place_of(job), len(heap), scope))
    heapq.heapify(heap)
    return heap


def _lanes_for(scheduler: Scheduler, request: Request, reserved: frozenset[LaneId]) -> tuple[Lane, ...] | None:
    if not scheduler.board.takes_lane(request):
        return () if _cpu_job_may_start(scheduler) else None
    return scheduler.fit(request, reserved)


def _cpu_job_may_start(scheduler: Scheduler) -> bool:
    return scheduler.cpu_jobs_running < scheduler.settings.cpu_jobs


def _lanes_kept_for(scheduler: Scheduler, job: Job, now: float) -> frozenset[LaneId] | None:
    """The first job that must wait gets the lanes that can serve it, once it has waited long; None: none can."""
    request, most = scheduler.asked(job), scheduler.most_devices()
    serving = scheduler.board.serving(request, unblocked=True)
    if not serving or (most is not None and (request.gpus or 1) > most):
        return None
    waited = now - job.state.since if isinstance(job.state, Queued) else 0.0
    if request.alone and (request.gpus or 1) == 1:
        serving = scheduler.board.on_quietest_device(serving)
    patient = waited < scheduler.settings.patience
    return frozenset() if patient else frozenset(lane.id for lane in serving)


def _start(scheduler: Scheduler, job: Job, lanes: tuple[Lane, ...], now: float) -> Start:
    neighbours = scheduler.board.neighbours(lanes)
    placed = Placed(
        attempt=job.issued + 1,
        lanes=tuple(lane.id for lane in lanes),
        gpus=tuple(device for lane in lanes for device in lane.devices),
        since=now,
        environment=job.spec.environment,
        shared=bool(neighbours),
        engine=scheduler.board.engine,
    )
    for neighbour in neighbours:
        _note_company(scheduler, scheduler.book[neighbour], job, now)
    scheduler.board.take(job.id, lanes, scheduler.asked(job))
    if not lanes:
        scheduler.cpu_jobs_running += 1
    return Start(scheduler.change(job, now, "starting", state=Starting(placed), issued=placed.attempt))


def _note_company(scheduler: Scheduler, neighbour: Job, newcomer: Job, now: float) -> None:
    """Kept, for a card that is full may be so because of either, and the other may have ended first."""
    state = neighbour.state
    assert isinstance(state, Active)
    if not state.placed.shared:
        shared = replace(state, placed=replace(state.placed, shared=True))
        scheduler.change(neighbour, now, f"#{newcomer.id} came to its card", state=shared)


# ---- Urgent jobs, by their own wish and by that of those that give way ----


def preempt(scheduler: Scheduler, now: float) -> list[Instruction]:
    """Called when all that fits was placed."""
    waiting = _urgent_line(scheduler, now)
    if not waiting:
        return []
    instructions: list[Instruction] = []
    # What is being ended anyway is as good as gone: nobody else has to go for the same place.
    room = _Room(scheduler, {job for job in scheduler.book.active if isinstance(scheduler.book[job].state, Stopping)})
    for job in waiting:
        request = scheduler.asked(job)
        if not room.take(job, request) and is_urgent(job):
            for way in room.make(job, request):
                instructions += _give_way(scheduler, scheduler.book[way], job, now)
    return instructions


def is_urgent(job: Job) -> bool:
    return job.spec.preempt and job.priority >= URGENT_PRIORITY


def _urgent_line(scheduler: Scheduler, now: float) -> list[Job]:
    """What waits with such a priority, in its order; nothing where nobody who waits is urgent."""
    if scheduler.wanted_mode is not Mode.RUNNING or scheduler.cannot_start or now < scheduler.starts_again_at:
        return []
    cautious = scheduler.breaker.cautious
    lines = (
        takewhile(lambda place: -place.urgency >= URGENT_PRIORITY, line)
        for (_, group), line in scheduler.book.ready.items()
        if not any(scope.covers(group) for scope in cautious)
    )
    jobs = [scheduler.book[place.job] for place in merge(*lines)]
    return jobs if any(map(is_urgent, jobs)) else []


def _give_way(scheduler: Scheduler, job: Job, urgent: Job, now: float) -> list[Instruction]:
    scheduler.tell(urgent.id, now, f"#{job.id} gives way to it", keep=True)
    return commands.stop(scheduler, job, now, Purpose.PREEMPT, why=f"gives way to #{urgent.id}, which is urgent")


class _Room:
    """The lanes as they will be when those that go have gone."""

    def __init__(self, scheduler: Scheduler, going: set[JobId]) -> None:
        self._scheduler = scheduler
        self._board = scheduler.board.without(going)
        cpu_jobs = {job for job in scheduler.book.active if not _lanes(scheduler.book[job])}
        self._cpu_places = scheduler.settings.cpu_jobs - len(cpu_jobs - going)
        self._going = going

    def take(self, job: Job, request: Request) -> bool:
        if not self._board.takes_lane(request):
            there_is_one = self._cpu_places > 0
            self._cpu_places -= there_is_one
            return there_is_one
        lanes = self._fit(self._board, request)
        if lanes is not None:
            self._board.take(job.id, lanes, request)
        return lanes is not None

    def _fit(self, board: Board, request: Request) -> tuple[Lane, ...] | None:
        return board.fit(request, (), self._scheduler.most_devices())

    def make(self, urgent: Job, request: Request) -> list[JobId]:
        """Who goes for it, and its place among those that stay; none if that would not help."""
        takes_lane = self._board.takes_lane(request)
        active = (self._scheduler.book[job] for job in self._scheduler.book.active - self._going)
        jobs = [job for job in active if _gives_way(job, urgent) and bool(_lanes(job)) == takes_lane]
        jobs.sort(key=lambda job: (_since(job), job.id), reverse=True)
        going = [job.id for job in jobs[:1]] if not takes_lane else self._fewest([job.id for job in jobs], request)
        self._going = self._going | set(going)
        if going and takes_lane:
            self._board = self._board.without(set(going))
            self.take(urgent, request)
        return going

    def _fewest(self, jobs: list[JobId], request: Request) -> list[JobId]:
        """The youngest that do, without those that need not go for it."""
        enough = next((n for n in range(1, len(jobs) + 1) if self._helps(jobs[:n], request)), 0)
        going = jobs[:enough]
        for job in reversed(jobs[:enough]):
            others = [each for each in going if each != job]
            going = others if others and self._helps(others, request) else going
        return going

    def _helps(self, going: list[JobId], request: Request) -> bool:
        return self._fit(self._board.without(set(going)), request) is not None


def _gives_way(job: Job, urgent: Job) -> bool:
    runs = isinstance(job.state, Running)
    return runs and job.spec.checkpoint and job.priority < urgent.priority and not is_urgent(job)


def _lanes(job: Job) -> tuple[int, ...]:
    return job.active.lanes if job.active is not None else ()


def _since(job: Job) -> float:
    return job.active.since if job.active is not None else 0.0
