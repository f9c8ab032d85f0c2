"""Which waiting job goes on which lanes. Looks at the head of each line, never through the queue."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputui.core.structures.order import Place, place_of

from .breaker import table
from .breaker.choice import next_probe
from .breaker.scope import Scope
from .instructions import Start
from .job import Active, Job, LaneId, Placed, Queued, Request, Starting
from .lanes import Lane
from .mode import Mode

if TYPE_CHECKING:
    from .scheduler import Scheduler


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
                table.started(scheduler, kind, starts[-1].job, now)
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
