"""Urgent jobs, by their own wish and by that of those that give way: who goes back to the queue for whom.

Only jobs that declared `checkpoint` and have a lower priority ever give way, the youngest first, and only if the urgent
one then fits. Urgent jobs do not give way to each other, so nobody who gave way takes anything back.
"""

from __future__ import annotations

from heapq import merge
from itertools import takewhile
from typing import TYPE_CHECKING

from . import commands
from .instructions import Instruction
from .job import URGENT_PRIORITY, Job, JobId, Purpose, Request, Running, Stopping
from .lanes import Board, Lane
from .mode import Mode

if TYPE_CHECKING:
    from .scheduler import Scheduler


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
