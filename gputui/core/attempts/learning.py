"""How much memory jobs of a group use, learned from those of them that have succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputui.core.job import Job, Request, Succeeded
from gputui.core.views.amounts import memory_words

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler

MARGIN = 1.1
"""Samples are a second apart: a peak between them is not seen."""


def with_learned(request: Request, size: int | None) -> Request:
    return replace(request, memory=size) if request.learns and size is not None else request


def learn(scheduler: Scheduler, job: Job, now: float) -> None:
    """From a job that has ended; a later one that used more corrects what was learned."""
    if not job.spec.request.learns or not isinstance(job.state, Succeeded):
        return
    usage = job.attempts[-1].usage
    peak = usage.gpu_peak_memory_each if usage is not None else None
    size = int(peak * MARGIN) if peak else 0
    if size > scheduler.learned.get(job.spec.group, 0):
        scheduler.learned[job.spec.group] = size
        scheduler.tell(job.id, now, f"learned: jobs of its group are given {memory_words(size)} of a GPU", keep=True)
