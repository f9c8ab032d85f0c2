"""What a step of the wall clock moves: all that is measured from now on. What is over, or the user wrote, stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from .job import Active, Delayed, Job, Queued, Running, State, Stopping, Suspended

if TYPE_CHECKING:
    from .scheduler import Scheduler


def step(scheduler: Scheduler, by: float) -> None:
    """Every duration goes on as if the clock had not been touched."""
    book = scheduler.book
    living = (book[job_id] for job_id in (*book.active, *(place.job for place in book.line)))
    book.put_all([replace(job, state=state) for job in living if (state := _moved(job, by)) is not job.state])
    scheduler.breaker = scheduler.breaker.moved(by)
    if scheduler.wanted_cause is not None:
        scheduler.wanted_cause = replace(scheduler.wanted_cause, since=scheduler.wanted_cause.since + by)
    scheduler.starts_again_at += by
    if scheduler.clock is not None:
        scheduler.clock += by


def _moved(job: Job, by: float) -> State:
    state = job.state
    match state:
        case Queued(since=since):
            return Queued(since + by)
        case Delayed(until=until) if until != job.spec.not_before:
            return replace(state, until=until + by)
    if not isinstance(state, Active):
        return state
    placed = replace(state.placed, since=state.placed.since + by)
    match state:
        case Stopping():
            return replace(state, placed=placed, deadline=state.deadline + by)
        case Suspended():
            return replace(state, placed=placed, since=state.since + by)
        case Running(silent_since=float(since)):
            return replace(state, placed=placed, silent_since=since + by)
    return replace(state, placed=placed)
