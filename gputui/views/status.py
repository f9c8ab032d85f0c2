"""How a session is doing: its status in one word, whether anything can still happen, and when to notify the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from gputui.core.amounts import counted, duration_words, moment
from gputui.core.events import Mode, PauseKind
from gputui.core.job import (
    FAILURES,
    WORDS,
    Blocked,
    Delayed,
    Ended,
    Job,
    JobId,
    Queued,
    Request,
    Running,
    StateName,
    Succeeded,
)
from gputui.core.lanes import Board
from gputui.core.snapshot import Caution, Snapshot

from .format import silence
from .waiting import needs, why

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler


# ---- How a session stands, in one word ----


NOBODY = "nobody schedules it"


class Word(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    """Jobs or sources are left, and something must happen first."""
    SUSPENDED = "suspended"
    """All that was started is suspended."""
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
    under_way = snapshot.running + snapshot.submitted_count
    if under_way > suspended:
        others_run = under_way > suspended + sum(caution.tries for caution in snapshot.cautions)
        tried = None if others_run else _tried(snapshot.cautions)
        if tried is None and snapshot.running == suspended:
            first = next(iter(snapshot.submitted.values()), None)
            return Standing(Word.WAITING, first.why if first is not None else "Slurm")
        return tried or Standing(Word.RUNNING, _paused_groups(snapshot.cautions))
    if suspended:
        return Standing(Word.SUSPENDED, _told(suspended, "suspended job; continue lets it go on"))
    if snapshot.waiting and not owned:
        return Standing(Word.IDLE, NOBODY)
    if snapshot.waiting and snapshot.cautions:
        return Standing(Word.PAUSED, _paused_groups(snapshot.cautions))
    if snapshot.waiting or snapshot.awaits:
        return Standing(Word.WAITING, snapshot.awaits)
    return Standing(Word.DONE if snapshot.counts else Word.IDLE)


def counts_told(snapshot: Snapshot) -> str:
    """`2 running, 1 suspended, 5 waiting`."""
    suspended = snapshot.count(StateName.SUSPENDED)
    counts = {"running": snapshot.running - suspended, "suspended": suspended, "waiting": snapshot.not_begun}
    return ", ".join(f"{number:,} {word}" for word, number in counts.items() if number) or "nothing running"


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
    soonest = book.timers.first(book)
    if soonest is not None and isinstance(state := book[soonest].state, Delayed):
        return f"#{soonest} waits: {state.why}"
    held = book.counts[StateName.HELD]
    return _told(held, "held job; release lets it start") if held else ""


def _told(number: int, sentence: str) -> str:
    """`sentence` for a single job, in the plural for more."""
    many = sentence.replace("job;", "jobs;").replace("lets it", "lets them")
    return f"{number} {sentence if number == 1 else many}"


# ---- When jobs will have ended, in words ----


NAMED = 3


def outlook_words(snapshot: Snapshot, now: float) -> list[str]:
    """`done ≈ 13:50`, or `7 jobs ≈ 13:50`, `#11 unknown`, `never: #24 needs 99 GPUs`; empty: nothing is known."""
    outlook = snapshot.outlook
    never = [(each.job, needs(each.request)) for each in outlook.never]
    return told_outlook(outlook.at, outlook.jobs, snapshot.not_begun + snapshot.running, outlook.unknown, never, now)


def told_outlook(
    at: float | None,
    jobs: int,
    remaining: int,
    unknown: Sequence[JobId],
    never: Sequence[tuple[JobId, str]],
    now: float,
) -> list[str]:
    """`jobs` of those that remain will have ended then; of each that never starts, what it needs."""
    parts = []
    if at is not None and at > now and jobs:
        what = "done" if jobs >= remaining else counted(jobs, "job", "jobs")
        parts.append(f"{what} ≈ {moment(at, now)}")
    if unknown:
        named = " ".join(f"#{job}" for job in unknown[:NAMED])
        parts.append(f"{named}{f' and {len(unknown) - NAMED} more' * (len(unknown) > NAMED)} unknown")
    if never:
        job, need = never[0]
        parts.append(f"never: #{job} {need}{f', {len(never) - 1} more' * (len(never) > 1)}")
    return parts


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


# ---- What is worth calling the user for ----


def is_wanted(job: Job) -> bool:
    """Whether the user wants to be told of its end."""
    return job.notify if job.notify is not None else job.spec.notify


class Alerts:
    def __init__(self, snapshot: Snapshot, name: str) -> None:
        """`name`: of the session, as its user knows it."""
        self._name = name
        self._cause = snapshot.cause
        self._paused = {caution.group for caution in snapshot.cautions}
        self._worked = False
        self._told = {job.id: job.issued for job in snapshot if is_wanted(job) and isinstance(job.state, Ended)}
        self._silent: set[tuple[JobId, int]] = set()

    def look(self, snapshot: Snapshot, changed: Iterable[JobId], now: float) -> list[str]:
        """Sentences, each to be told once."""
        sentences = [*self._jobs(snapshot, changed, now), *self._pause(snapshot)]
        works = goes_on(snapshot) if self._worked or snapshot.active else False
        if self._worked and not works and snapshot.cause is None:
            sentences.append(self._done(snapshot))
        self._worked = works
        return [f"gputui {self._name}: {sentence}" for sentence in sentences]

    def _pause(self, snapshot: Snapshot) -> Iterator[str]:
        """What the user did with a key or a verb, nobody needs to tell them."""
        before, self._cause = self._cause, snapshot.cause
        self._paused &= {caution.group for caution in snapshot.cautions}
        for caution in snapshot.cautions:
            # One that is tried at once was asked for, or holds nobody up.
            if caution.group not in self._paused and not caution.due and not caution.tries:
                self._paused.add(caution.group)
                which = f" ({caution.group})" if caution.group else ""
                yield f"paused{which}: {caution.cause.message}"
        if snapshot.cause is not None and snapshot.cause.kind is PauseKind.DRAINED and before is None:
            yield snapshot.cause.message

    def _jobs(self, snapshot: Snapshot, changed: Iterable[JobId], now: float) -> Iterator[str]:
        for job_id in sorted(changed):
            if job_id not in snapshot or not is_wanted(job := snapshot[job_id]):
                continue
            key = (job_id, job.issued)
            if isinstance(job.state, Ended) and self._told.get(job_id) != job.issued:
                self._told[job_id] = job.issued
                yield f"#{job_id} {job.name}: {_end(job)}"
            elif isinstance(job.state, Running) and job.state.silent_since is not None and key not in self._silent:
                self._silent.add(key)
                yield f"#{job_id} {job.name}: {silence(snapshot, job, now)}"

    def _done(self, snapshot: Snapshot) -> str:
        failed = snapshot.count(*FAILURES)
        return f"done: {snapshot.count(StateName.SUCCEEDED):,} ok" + (f", {failed:,} failed" if failed else "")


def _end(job: Job) -> str:
    took = job.attempts[-1].ended - job.attempts[-1].started if job.attempts else 0.0
    after = f" after {duration_words(took)}" if job.attempts else ""
    if isinstance(job.state, Succeeded):
        return f"succeeded{after}"
    assert isinstance(job.state, Ended)
    from .failures import said_of

    why = f": {said_of(job)}" if job.state.name in FAILURES else ""
    return f"{WORDS[job.state.name]}{after}{why}"
