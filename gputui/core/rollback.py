"""Taking back what was asked but could not be made durable: pure, and itself a change like any other.

Nothing is rolled back: ids and attempt numbers that were given out stay used, and attempts that are being ended go on
to their end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from .breaker import Breaker
from .commands import check_drained
from .events import Cause, Mode, Settings
from .job import Blocked, Job, JobId, Killed, Stopping
from .lanes import Lane
from .structures import Vector

if TYPE_CHECKING:
    from .scheduler import Scheduler


_STARTS_LESS = (Mode.RUNNING, Mode.DRAINING, Mode.PAUSED)


class TakenBack(Struct, frozen=True):
    """All that users asked since a moment; holds what was then."""

    jobs: Vector[Job]
    mode: Mode
    cause: Cause | None
    settings: Settings
    breaker: Breaker
    lanes: tuple[Lane, ...]
    told: int
    """How many lines of stories were to be stored."""


def to_now(scheduler: Scheduler) -> TakenBack:
    """The event that takes back what is asked from now on, before it is made durable; costs nothing to make."""
    return TakenBack(
        scheduler.book.jobs, scheduler.wanted_mode, scheduler.wanted_cause, scheduler.settings, scheduler.breaker,
        scheduler.board.lanes, len(scheduler.unsaved_moments),
    )  # fmt: skip


def take_back(scheduler: Scheduler, event: TakenBack, now: float) -> None:
    """No attempt that has not begun may be under way: that it never ran is reported first."""
    book = scheduler.book
    restored = [job for id in sorted(book.unsaved) if (job := _restored(event, book[id], id - book.first_id))]
    # What a blocked job waits for is counted when it is entered, so the others come first.
    for job in sorted(restored, key=lambda job: isinstance(job.state, Blocked)):
        book.put(job)
    _count_anew(scheduler, [job.id for job in restored])
    _restore_scheduler(scheduler, event)
    restored_ids = {job.id for job in restored}
    moments = scheduler.unsaved_moments
    moments[event.told :] = [moment for moment in moments[event.told :] if moment.job not in restored_ids]
    check_drained(scheduler, now)


def _restored(event: TakenBack, job: Job, index: int) -> Job | None:
    """The job as it was; None: it stays as it is."""
    if index >= len(event.jobs):
        # Nothing that is loaded again may take it for a job that the user removed.
        spec = replace(job.spec, occurrence=None, outfile=None)
        return replace(job, spec=spec, state=Killed(), archived=True)
    before = event.jobs[index]
    is_being_ended = isinstance(job.state, Stopping) and before.active is not None
    if job is before or is_being_ended:
        return None
    return replace(before, issued=job.issued)


def _count_anew(scheduler: Scheduler, restored: list[JobId]) -> None:
    book = scheduler.book
    for dependent in {id for job in restored for id in book.dependents.get(job, ())}:
        if isinstance(book[dependent].state, Blocked):
            book.put(book[dependent])


def _restore_scheduler(scheduler: Scheduler, event: TakenBack) -> None:
    """A pause stands: that nothing starts needs nobody's memory while nothing can."""
    scheduler.settings = event.settings
    _restore_breaker(scheduler, event.breaker)
    if scheduler.board.lanes != event.lanes:
        scheduler.board.replace(event.lanes, these=True)
    if _STARTS_LESS.index(scheduler.wanted_mode) < _STARTS_LESS.index(event.mode):
        scheduler.wanted_mode, scheduler.wanted_cause = event.mode, event.cause


def _restore_breaker(scheduler: Scheduler, before: Breaker) -> None:
    """That nothing is tried any more stands too."""
    halted = [scope for scope in scheduler.breaker.cautious if scope.stopped]
    scheduler.breaker = before
    for scope in before.cautious:
        if any(stopped.group == scope.group for stopped in halted) and not scope.stopped:
            left = any(stopped.cause is not None and stopped.cause.left for stopped in halted)
            scheduler.breaker = scheduler.breaker.put(scope.halted(left=left))
