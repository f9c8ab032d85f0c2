"""Placement: which waiting jobs start on which slots, and which running jobs are replaced by urgent ones."""

from __future__ import annotations

import heapq
from itertools import takewhile

from msgspec.structs import replace

from . import breaker
from . import job as states
from .book import Place, place_of
from .breaker import Scope
from .commands import stop
from .events import Instruction, Start
from .job import HIGHEST_PRIORITY, URGENT_PRIORITY, Job, JobId, Placed, Purpose, Request, SlotId
from .slots import Board, Slot
from .state import SchedulerState

Kind = tuple[Request, str]
Head = tuple[Place, int, Kind | Scope]
"""An entry of a heap: the first job of one kind, or the due probe of a scope.

The number is different in each entry, so that kinds and scopes are never compared.
"""


def place(scheduler: SchedulerState, now: float) -> list[Start]:
    """Start the jobs that fit, in queue order.

    A job that fits may start before an earlier job that does not. Once the earlier job has waited long enough, slots
    are reserved for it.
    """
    board = scheduler.board
    if not scheduler.may_start(now) or not (board.any_free() or scheduler.cpu_job_may_start):
        return []
    starts: list[Start] = []
    reserved: frozenset[SlotId] | None = None
    heap = _heads(scheduler, now)
    while heap:
        head, number, kind = heapq.heappop(heap)
        job = scheduler.book[head.job]
        request = scheduler.effective_request(job)
        if board.takes_slot(request):
            slots = scheduler.fit(request, reserved or frozenset())
        else:
            slots = () if scheduler.cpu_job_may_start else None
        if slots is not None:
            starts.append(_start(scheduler, job, slots, now))
            if isinstance(kind, Scope):
                breaker.started(scheduler, kind, starts[-1].job, now)
            elif (line := scheduler.book.ready.get(kind)) is not None and (following := line.first()) is not None:
                heapq.heappush(heap, (following, number, kind))
        elif reserved is None and board.takes_slot(job.request):
            reserved = _reserve(scheduler, job, now)
    return starts


def _heads(scheduler: SchedulerState, now: float) -> list[Head]:
    """Return a heap of the first job of each kind. Of a paused scope, it contains only the probe, if that is due."""
    paused, over_budget = scheduler.breaker.paused_scopes, scheduler.over_budget(now)
    heap: list[Head] = []
    for kind, line in scheduler.book.ready.items():
        head = line.first()
        if head is not None and kind not in over_budget and not any(scope.covers(kind[1]) for scope in paused):
            heap.append((head, len(heap), kind))
    for scope in paused:
        job = breaker.next_probe(scheduler, scope) if scope.due else None
        if job is not None:
            heap.append((place_of(job), len(heap), scope))
    heapq.heapify(heap)
    return heap


def _reserve(scheduler: SchedulerState, job: Job, now: float) -> frozenset[SlotId] | None:
    """Return the slots to reserve for the first job that does not fit, or no slots if it has not waited long enough.

    Return None if no slot can serve the job. Slots can then be reserved for the next job that does not fit.
    """
    request, most = scheduler.effective_request(job), scheduler.most_devices()
    serving = scheduler.board.serving(request, unblocked=True)
    if not serving or (most is not None and (request.gpus or 1) > most):
        return None
    waited = now - job.state.since if isinstance(job.state, states.Queued) else 0.0
    if waited < scheduler.settings.patience:
        return frozenset()
    if request.alone and (request.gpus or 1) == 1:
        serving = scheduler.board.on_quietest_device(serving)
    return frozenset(slot.id for slot in serving)


def _start(scheduler: SchedulerState, job: Job, slots: tuple[Slot, ...], now: float) -> Start:
    neighbours = scheduler.board.neighbours(slots)
    placed = Placed(
        attempt=job.issued + 1,
        slots=tuple(slot.id for slot in slots),
        gpus=tuple(device for slot in slots for device in slot.devices),
        since=now,
        environment=job.spec.environment,
        shared=bool(neighbours),
        engine=scheduler.board.engine,
    )
    for neighbour_id in neighbours:
        # This is stored because one of the jobs may later run out of GPU memory, after the other one has ended.
        neighbour = scheduler.book[neighbour_id]
        state = neighbour.state
        assert isinstance(state, states.Active)
        if not state.placed.shared:
            shared = replace(state, placed=replace(state.placed, shared=True))
            scheduler.change(neighbour, now, f"#{job.id} now shares its GPU", state=shared)
    scheduler.board.take(job.id, slots, scheduler.effective_request(job))
    if not slots:
        scheduler.cpu_jobs_running += 1
    return Start(scheduler.change(job, now, "starting", state=states.Starting(placed), issued=placed.attempt))


# Preemption


def preempt(scheduler: SchedulerState, now: float) -> list[Instruction]:
    """Stop running jobs in favor of urgent ones. Called after every job that fits has been placed."""
    waiting = _urgent_line(scheduler, now)
    if not waiting:
        return []
    instructions: list[Instruction] = []
    # The slots of jobs that are being stopped count as free, so that no more jobs are stopped than needed.
    active = (scheduler.book[job] for job in scheduler.book.active)
    room = _Room(scheduler, {job.id for job in active if isinstance(job.state, states.Stopping)})
    for job in waiting:
        request = scheduler.effective_request(job)
        if not room.take(job, request) and is_urgent(job):
            for victim in room.make(job, request):
                scheduler.record_history(job.id, now, f"preempting #{victim}", keep=True)
                why = f"preempted by urgent #{job.id}"
                instructions += stop(scheduler, scheduler.book[victim], now, Purpose.PREEMPT, why=why)
    return instructions


def is_urgent(job: Job) -> bool:
    return job.spec.preempt and job.priority >= URGENT_PRIORITY


def _urgent_line(scheduler: SchedulerState, now: float) -> list[Job]:
    """Return the waiting jobs of urgent priority in queue order, or an empty list if none of them may preempt."""
    if not scheduler.may_start(now):
        return []
    paused, over_budget = scheduler.breaker.paused_scopes, scheduler.over_budget(now)
    lines = (
        takewhile(lambda place: HIGHEST_PRIORITY - place.urgency >= URGENT_PRIORITY, line)
        for kind, line in scheduler.book.ready.items()
        if kind not in over_budget and not any(scope.covers(kind[1]) for scope in paused)
    )
    jobs = [scheduler.book[place.job] for place in heapq.merge(*lines)]
    return jobs if any(map(is_urgent, jobs)) else []


class _Room:
    """The slots that will be free once all jobs that are being stopped have ended."""

    def __init__(self, scheduler: SchedulerState, going: set[JobId]) -> None:
        self._scheduler = scheduler
        self._board = scheduler.board.without(going)
        cpu_jobs = {job for job in scheduler.book.active if not _slots(scheduler.book[job])}
        self._cpu_places = scheduler.settings.cpu_jobs - len(cpu_jobs - going)
        self._going = going

    def take(self, job: Job, request: Request) -> bool:
        """Give the job free slots. Return False if it does not fit."""
        if not self._board.takes_slot(request):
            is_free = self._cpu_places > 0
            self._cpu_places -= is_free
            return is_free
        slots = self._fit(self._board, request)
        if slots is not None:
            self._board.take(job.id, slots, request)
        return slots is not None

    def _fit(self, board: Board, request: Request) -> tuple[Slot, ...] | None:
        return board.fit(request, (), self._scheduler.most_devices())

    def make(self, urgent: Job, request: Request) -> list[JobId]:
        """Give an urgent job the slots of other jobs and return these jobs. Return no jobs if that is impossible."""
        takes_slot = self._board.takes_slot(request)
        active = (self._scheduler.book[job] for job in self._scheduler.book.active - self._going)
        jobs = [job for job in active if _may_preempt(job, urgent) and bool(_slots(job)) == takes_slot]
        jobs.sort(key=lambda job: (job.active.since if job.active is not None else 0.0, job.id), reverse=True)
        going = [job.id for job in jobs[:1]] if not takes_slot else self._fewest([job.id for job in jobs], request)
        self._going = self._going | set(going)
        if going and takes_slot:
            self._board = self._board.without(set(going))
            self.take(urgent, request)
        return going

    def _fewest(self, jobs: list[JobId], request: Request) -> list[JobId]:
        """Return as few jobs as possible that free enough slots, preferably those that started last."""
        enough = next((n for n in range(1, len(jobs) + 1) if self._is_enough(jobs[:n], request)), 0)
        going = jobs[:enough]
        for job in reversed(jobs[:enough]):
            others = [other for other in going if other != job]
            going = others if others and self._is_enough(others, request) else going
        return going

    def _is_enough(self, going: list[JobId], request: Request) -> bool:
        return self._fit(self._board.without(set(going)), request) is not None


def _may_preempt(job: Job, urgent: Job) -> bool:
    is_running = isinstance(job.state, states.Running)
    return is_running and job.spec.checkpoint and job.priority < urgent.priority and not is_urgent(job)


def _slots(job: Job) -> tuple[SlotId, ...]:
    return job.active.slots if job.active is not None else ()
