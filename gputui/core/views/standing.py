"""How a session stands, in one word: whether anything runs, and if not, what it waits for. The same for every view."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from gputui.core.job import Delayed, StateName
from gputui.core.mode import Mode
from gputui.core.snapshot import Snapshot

from .caution import Caution
from .why import why

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler

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
    TRYING = "trying"
    """Jobs crashed, and one is tried alone."""


class Standing(Struct, frozen=True):
    word: Word
    awaits: str = ""
    """What must happen before anything runs; which job is tried; which groups are paused meanwhile."""


def standing(snapshot: Snapshot, *, owned: bool = True) -> Standing:
    """`owned`: somebody is there to start jobs."""
    if snapshot.mode is not Mode.RUNNING:
        return _tried(snapshot.cautions) or Standing(Word(snapshot.mode))
    suspended = snapshot.count(StateName.SUSPENDED)
    if snapshot.running > suspended:
        others_run = snapshot.running > suspended + sum(caution.tries for caution in snapshot.cautions)
        tried = None if others_run else _tried(snapshot.cautions)
        return tried or Standing(Word.RUNNING, _paused_groups(snapshot.cautions))
    if suspended:
        return Standing(Word.WAITING, _told(suspended, "suspended job; continue lets it go on"))
    if snapshot.waiting and not owned:
        return Standing(Word.IDLE, NOBODY)
    if snapshot.waiting and snapshot.cautions:
        return Standing(Word.PAUSED, _paused_groups(snapshot.cautions))
    if snapshot.waiting or snapshot.awaits:
        return Standing(Word.WAITING, snapshot.awaits)
    return Standing(Word.DONE if snapshot.counts else Word.IDLE)


def _tried(cautions: tuple[Caution, ...]) -> Standing | None:
    tried = [f"#{caution.job}" for caution in cautions if caution.tries]
    return Standing(Word.TRYING, f"{', '.join(tried)} alone") if tried else None


def _paused_groups(cautions: tuple[Caution, ...]) -> str:
    """`sweep is paused`, `a, b are paused`; a group that has no name is that of jobs without one."""
    names = [caution.group or "the group without a name" for caution in cautions if caution.group is not None]
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} paused" if names else ""


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


def _told(number: int, sentence: str) -> str:
    """`sentence` for a single job, in the plural for more."""
    many = sentence.replace("job;", "jobs;").replace("lets it", "lets them")
    return f"{number} {sentence if number == 1 else many}"
