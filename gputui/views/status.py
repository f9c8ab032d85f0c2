"""How a session is doing: its status in one word, and whether anything can still happen."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from gputui.core.events import Mode
from gputui.core.job import Blocked, Delayed, Job, JobId, Queued, Request, StateName
from gputui.core.lanes import Board
from gputui.core.snapshot import Caution, Snapshot

from .waiting import why

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler


# ---- How a session stands, in one word ----


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


# ---- Whether anything can still happen without somebody's help ----


def goes_on(snapshot: Snapshot) -> bool:
    """Something runs, or will start by itself."""
    if snapshot.active:
        return True
    if not starts_jobs(snapshot) or not snapshot.waiting:
        return False
    return any_can_start(snapshot, (job.id for job in snapshot))


def starts_jobs(snapshot: Snapshot) -> bool:
    """Nobody paused it; crashes may have, for one is tried after a while."""
    crashed = any(caution.group is None for caution in snapshot.cautions)
    return snapshot.mode is Mode.RUNNING or (crashed and snapshot.mode is Mode.PAUSED)


def starts_after(snapshot: Snapshot, job: Job, now: float) -> float | None:
    """The earliest moment at which a pause lets it start; None: when somebody wants it."""
    if not starts_jobs(snapshot):
        return None
    earliest = now
    for caution in snapshot.cautions:
        if not caution.covers(job):
            continue
        if not caution.goes_on or caution.at is None:
            return None
        outlived = 0.0 if caution.tries or caution.job == job.id else caution.life
        earliest = max(earliest, max(now, caution.at) + outlived)
    return earliest


def pauses(snapshot: Snapshot) -> bool:
    """Whether the one key for both would pause: nothing is paused yet, by whatever."""
    return snapshot.mode is Mode.RUNNING and not snapshot.cautions


def next_in_line(snapshot: Snapshot, job: Job) -> bool:
    """Put back now, it would be the first to get the lanes it leaves: nothing that waits stands before it."""
    if snapshot.mode is not Mode.RUNNING:
        return False
    own = (-job.priority, job.position)
    queued = (other for other in snapshot if isinstance(other.state, Queued)) if snapshot.waiting else ()
    return not any((-other.priority, other.position) < own for other in queued)


def any_can_start(snapshot: Snapshot, jobs: Iterable[JobId]) -> bool:
    """One of these will start by itself, as far as crashes, the lanes and the jobs it waits for allow."""
    board, stands_still = Board(snapshot.lanes), _standing_still(snapshot)
    fits: dict[Request, bool] = {}
    visited: set[JobId] = set()
    to_see = list(jobs)
    while to_see:
        job = snapshot[to_see.pop()]
        if job.id in visited:
            continue
        visited.add(job.id)
        if None in stands_still or job.spec.group in stands_still:
            continue
        request = job.request
        match job.state:
            case Delayed():
                return True
            case Queued():
                if request not in fits:
                    fits[request] = not board.takes_lane(request) or board.could_ever_fit(request)
                if fits[request]:
                    return True
            case Blocked():
                to_see += job.after
    return False


def _standing_still(snapshot: Snapshot) -> set[str | None]:
    """The groups of which nothing starts until somebody wants it; None: all."""
    return {caution.group for caution in snapshot.cautions if not caution.tries and caution.at is None}
