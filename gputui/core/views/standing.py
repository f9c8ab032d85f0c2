"""How a session stands, in one word: whether anything runs, and if not, what it waits for. The same for every view."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from gputui.core.job import Delayed, StateName
from gputui.core.mode import Mode
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot

from .why import why

NOBODY = "nobody schedules it; gputui resume starts a keeper"


class Word(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    """Jobs or sources are left, and something must happen first."""
    IDLE = "idle"
    """There is nothing to do yet, or nobody who does it."""
    DONE = "done"
    PAUSED = "paused"
    DRAINING = "draining"


class Standing(Struct, frozen=True):
    word: Word
    awaits: str = ""
    """What must happen before anything runs."""


def standing(snapshot: Snapshot, *, owned: bool = True) -> Standing:
    """`owned`: somebody is there to start jobs."""
    if snapshot.mode is not Mode.RUNNING:
        return Standing(Word(snapshot.mode))
    suspended = snapshot.count(StateName.SUSPENDED)
    if snapshot.running > suspended:
        return Standing(Word.RUNNING)
    if suspended:
        return Standing(Word.WAITING, _told(suspended, "suspended job; continue lets it go on"))
    if snapshot.waiting and not owned:
        return Standing(Word.IDLE, NOBODY)
    if snapshot.waiting or snapshot.awaits:
        return Standing(Word.WAITING, snapshot.awaits)
    return Standing(Word.DONE if snapshot.counts else Word.IDLE)


def awaited(scheduler: Scheduler, now: float) -> str:
    """What the waiting jobs wait for, told by the first of them; asked when nothing runs."""
    book = scheduler.book
    heads = [first for line in book.ready.values() if (first := line.first()) is not None]
    if heads:
        return why(scheduler, book[min(heads).job], now) or ""
    soonest = book.timers.first()
    if soonest is not None and isinstance(state := book[soonest].state, Delayed):
        return f"#{soonest} waits: {state.why}"
    held = book.counts[StateName.HELD]
    return _told(held, "held job; release lets it start") if held else ""


def _told(number: int, one: str) -> str:
    """`one` for a single job, in the plural for more."""
    many = one.replace("job;", "jobs;").replace("lets it", "lets them")
    return f"{number} {one if number == 1 else many}"
