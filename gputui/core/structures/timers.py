"""Moments at which a job must be looked at again."""

from __future__ import annotations

import heapq

from gputui.core.job import Delayed, Job, JobId, Running, Stopping


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

    def first(self) -> JobId | None:
        """The job that comes up next, if its moment still holds."""
        return self._heap[0][1] if self._heap else None

    def pop(self, now: float) -> JobId | None:
        """A job whose moment may have come; the caller checks `due`."""
        if self._heap and self._heap[0][0] <= now:
            return heapq.heappop(self._heap)[1]
        return None

    def __contains__(self, job: Job) -> bool:
        return (due(job), job.id) in self._heap
