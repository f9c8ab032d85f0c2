"""When the queue will be empty: medians of ended jobs of the same group, played out over the lanes."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gputui.core.job import Job, JobId, Succeeded

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler

REMEMBERED = 101
PLAYED_OUT = 500


class Durations:
    """How long the last succeeded attempts of each group took."""

    def __init__(self) -> None:
        self._of_group: dict[str, deque[float]] = {}

    def note(self, job: Job) -> None:
        if isinstance(job.state, Succeeded):
            attempt = job.attempts[-1]
            known = self._of_group.setdefault(job.spec.group, deque(maxlen=REMEMBERED))
            known.append(attempt.ended - attempt.started)

    def typical(self) -> dict[str, float]:
        return {group: _median(known) for group, known in self._of_group.items()}


def _median(values: Iterable[float]) -> float:
    """Importing `statistics` costs every owner and every waiting keeper more than all of this module."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def estimate(scheduler: Scheduler, now: float) -> float | None:
    """The moment at which the last waiting job would end; None when nothing is known or nothing is left."""
    typical = scheduler.durations.typical()
    if not typical or scheduler.cannot_start:
        return None
    usual = _median(typical.values())
    lanes = _lanes_free_at(scheduler, now, typical, usual)
    if not lanes:
        return None
    for group, waiting in sorted(scheduler.book.waiting_in_group.items()):
        _play_out(lanes, waiting, typical.get(group, usual))
    end = max(lanes)
    return end if end > now else None


def _lanes_free_at(scheduler: Scheduler, now: float, typical: dict[str, float], usual: float) -> list[float]:
    ends: dict[JobId, float] = {}
    for job_id in scheduler.book.active:
        job = scheduler.book[job_id]
        assert job.active is not None
        ends[job_id] = max(now, job.active.since + typical.get(job.spec.group, usual))
    holders = scheduler.board.holders
    lanes = [ends.get(holders.get(lane.id, -1), now) for lane in scheduler.board.lanes]
    lanes += [end for job_id, end in ends.items() if job_id not in holders.values()]
    return lanes


def _play_out(lanes: list[float], waiting: int, duration: float) -> None:
    """Greedy, one job at a time; beyond a bound the rest is spread evenly, which then is exact enough."""
    heapq.heapify(lanes)
    for _ in range(min(waiting, PLAYED_OUT)):
        heapq.heapreplace(lanes, lanes[0] + duration)
    spread = max(0, waiting - PLAYED_OUT) * duration / len(lanes)
    lanes[:] = [free_at + spread for free_at in lanes]
