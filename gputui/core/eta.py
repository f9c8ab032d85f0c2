"""When a job will have ended, by its progress, and when the queue will be empty.

That takes medians of jobs of the same group, of ended ones if there are any, and plays them out over the lanes.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping
from math import exp, inf
from typing import TYPE_CHECKING

from .job import Job, JobId, Running, Succeeded
from .results import JobResults

if TYPE_CHECKING:
    from .scheduler import Scheduler


REMEMBERED = 101
PLAYED_OUT = 500
FIRST = 0.005
"""Progress from which on it tells anything of the end."""
PATIENCE = 20.0
"""Seconds in which a told end goes most of the way to what is estimated now."""
NO_RESULTS: Mapping[JobId, JobResults] = {}


class Durations:
    """How long the last succeeded attempts of each group took."""

    def __init__(self) -> None:
        self._of_group: dict[str, deque[float]] = {}

    def note(self, job: Job) -> None:
        if isinstance(job.state, Succeeded):
            attempt = job.attempts[-1]
            durations = self._of_group.setdefault(job.spec.group, deque(maxlen=REMEMBERED))
            durations.append(attempt.ended - attempt.started)

    def of_groups(self) -> dict[str, list[float]]:
        return {group: list(durations) for group, durations in self._of_group.items()}


def median(values: Iterable[float]) -> float:
    """Importing `statistics` costs every owner and every waiting keeper more than all of this module."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def job_eta(job: Job, results: JobResults | None) -> float | None:
    """When a running job will have ended, by its own progress; None where it does not tell, or stands still."""
    state = job.state
    if not isinstance(state, Running) or state.silent_since is not None or results is None:
        return None
    progress, at = results.progress, results.progress_at
    if results.attempt != state.placed.attempt or progress is None or at is None or not FIRST <= progress < 1:
        return None
    worked = at - state.placed.since - state.suspended_for
    return at + worked * (1 - progress) / progress if worked > 0 else None


def estimate(scheduler: Scheduler, now: float, results: Mapping[JobId, JobResults] = NO_RESULTS) -> float | None:
    """The moment at which the last waiting job would end; None when nothing is known or nothing is left.

    Those that run tell how long one takes as well as those that have ended: the first to end are the short ones.
    """
    ends_by_job = _ends_by_progress(scheduler, results)
    typical = _typical(scheduler, ends_by_job, now)
    if not typical or scheduler.cannot_start:
        return None
    usual = median(typical.values())
    lanes = _lanes_free_at(scheduler, now, typical, usual, ends_by_job)
    if not lanes:
        return None
    for group, waiting in sorted(scheduler.book.waiting_in_group.items()):
        _play_out(lanes, waiting, typical.get(group, usual))
    end = max(lanes)
    return end if end > now else None


def _ends_by_progress(scheduler: Scheduler, results: Mapping[JobId, JobResults]) -> dict[JobId, float]:
    ends = ((job_id, job_eta(scheduler.book[job_id], results.get(job_id))) for job_id in scheduler.book.active)
    return {job_id: end for job_id, end in ends if end is not None}


def _typical(scheduler: Scheduler, ends: dict[JobId, float], now: float) -> dict[str, float]:
    """Of each group, the median of how long its jobs take in all; one that runs longer than any says so much."""
    lengths = scheduler.durations.of_groups()
    longest = {group: max(group_lengths) for group, group_lengths in lengths.items()}
    for job_id in scheduler.book.active:
        job = scheduler.book[job_id]
        assert job.active is not None
        end, group = ends.get(job_id, now), job.spec.group
        if job_id in ends or now - job.active.since > longest.get(group, inf):
            lengths.setdefault(group, []).append(end - job.active.since)
    return {group: median(each) for group, each in lengths.items()}


def _lanes_free_at(
    scheduler: Scheduler, now: float, typical: dict[str, float], usual: float, told_ends: dict[JobId, float]
) -> list[float]:
    ends: dict[JobId, float] = {}
    for job_id in scheduler.book.active:
        job = scheduler.book[job_id]
        assert job.active is not None
        ends[job_id] = max(now, told_ends.get(job_id, job.active.since + typical.get(job.spec.group, usual)))
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


class SteadyEnd:
    """The end as it is told: it goes slowly where estimates go to and fro, and at once when there is other work."""

    def __init__(self) -> None:
        self._told: float | None = None
        self._at = 0.0
        self._waiting = 0
        self._lanes = 0

    def take(self, end: float | None, now: float, waiting: int, lanes: int) -> float | None:
        """`waiting` jobs on so many lanes: more of them than before, or far fewer, is other work."""
        same = lanes == self._lanes and self._waiting - lanes <= waiting <= self._waiting
        if end is None or self._told is None or not same or self._told <= now:
            self._told = end
        else:
            self._told += (end - self._told) * (1 - exp(-max(0.0, now - self._at) / PATIENCE))
        self._at, self._waiting, self._lanes = now, waiting, lanes
        return self._told
