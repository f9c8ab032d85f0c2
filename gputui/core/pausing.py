"""What people ask of the scheduler as a whole: that it pauses, drains or goes on. Crashes are the breaker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .breaker import table
from .events import PauseKind, Refusal
from .mode import LEFT_ON_PURPOSE, Cause, Mode, cause_of

if TYPE_CHECKING:
    from .scheduler import Scheduler


def pause_as_asked(scheduler: Scheduler, kind: PauseKind, now: float) -> None:
    if kind is PauseKind.CRASHES:
        raise Refusal("only the scheduler itself pauses because of crashes")
    crashes = scheduler.breaker.pause
    tries = crashes is not None and not crashes.stopped
    if scheduler.mode is Mode.PAUSED and kind is PauseKind.USER and not tries:
        raise Refusal("the scheduler is paused already")
    _pause(scheduler, cause_of(kind, now))


def _pause(scheduler: Scheduler, cause: Cause) -> None:
    """Crashes stay the cause, and nothing is tried any more."""
    table.halt(scheduler, left=cause.kind in LEFT_ON_PURPOSE)
    if scheduler.breaker.pause is None:
        scheduler.wanted_mode, scheduler.wanted_cause = Mode.PAUSED, cause


def drain(scheduler: Scheduler, now: float) -> None:
    cause = scheduler.cause
    if scheduler.mode is Mode.RUNNING or (cause is not None and cause.kind is PauseKind.USER):
        table.halt(scheduler, left=True)
        scheduler.wanted_mode, scheduler.wanted_cause = Mode.DRAINING, None
    elif scheduler.mode is Mode.PAUSED:
        _pause(scheduler, cause_of(PauseKind.DRAINED, now))
    check_drained(scheduler, now)


def check_drained(scheduler: Scheduler, now: float) -> None:
    if scheduler.mode is Mode.DRAINING and not scheduler.book.active:
        _pause(scheduler, cause_of(PauseKind.DRAINED, now))
