"""What rows of the queue are sorted by: the keys of each order. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputui.core.job import Active, Ended, Job, Waiting

from .words import gpus_of

__all__ = ["METRIC", "NOTHING", "PARAMETER", "QUEUE_ORDER", "SECOND", "SORTS", "TIME", "Key", "comparable", "queue_key"]

Key = tuple[Any, ...]
"""What a row is sorted by; its last element is the job."""
QUEUE_ORDER = "queue"
TIME = "time"
METRIC, SECOND = "metric", "second"
NOTHING = 2
"""Begins the keys of jobs that have nothing to be sorted by: after numbers and texts."""
PARAMETER = "="
"""Before the name of a parameter, where an order is named: a parameter may be called like a column."""


def queue_key(job: Job) -> Key:
    """What runs first, then what waits in its order, then what ended, the newest first."""
    state = job.state
    if isinstance(state, Waiting):
        return (1, -job.priority, job.position, job.id)
    if isinstance(state, Active):
        return (0, state.placed.since, 0.0, job.id)
    ended = job.attempts[-1].ended if job.attempts else job.added
    return (2, -ended, 0.0, job.id)


SORTS: dict[str, Callable[[Job], Any]] = {
    "id": lambda job: job.id,
    "state": lambda job: job.state.name,
    "pri": lambda job: -job.priority,
    "name": lambda job: job.spec.name or job.spec.command,
    "group": lambda job: job.spec.group,
    "gpu": lambda job: gpus_of(job) or None,
    "end": lambda job: -job.attempts[-1].ended if isinstance(job.state, Ended) and job.attempts else None,
    "peak": lambda job: _peak(job),
}


def _peak(job: Job) -> float | None:
    usage = job.attempts[-1].usage if job.attempts else None
    return -usage.gpu_peak_memory if usage is not None and usage.gpu_peak_memory is not None else None


def comparable(value: Any) -> tuple[int, float, str]:
    """Numbers before texts before nothing, each among its own kind."""
    if value is None:
        return (NOTHING, 0.0, "")
    try:
        number = float(value)
    except ValueError:
        return (1, 0.0, str(value))
    return (0, number, "") if number == number else (1, 0.0, str(value))  # NaN has no place among numbers
