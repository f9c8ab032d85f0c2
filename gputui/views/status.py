"""The state of a session: its status in one word, the estimated end of its jobs, and notifications for the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gputui.core import job as states
from gputui.core.amounts import counted, duration_words, moment
from gputui.core.book import kind_of
from gputui.core.events import Mode, PauseKind
from gputui.core.job import FAILURES, WORDS, Job, JobId, Request, StateName
from gputui.core.slots import Board
from gputui.core.snapshot import Snapshot

from .format import silence
from .waiting import needs, why

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler

# Status in one word


class StatusWord(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    """There are still jobs or sources, but something must happen before a job runs."""
    SUSPENDED = "suspended"
    """All started jobs are suspended."""
    IDLE = "idle"
    """There are no jobs yet, or no scheduler is running."""
    DONE = "done"
    PAUSED = "paused"
    DRAINING = "draining"
    PROBING = "probing"
    """One job is running alone as a probe after other jobs failed."""


class QueueStatus(Struct, frozen=True):
    word: StatusWord
    awaits: str = ""
    """What must happen before a job runs, which job is the probe, or which groups are paused."""
    probes: tuple[JobId, ...] = ()
    """The jobs that run alone as probes if `word` is PROBING."""


def queue_status(snapshot: Snapshot, *, owned: bool = True) -> QueueStatus:
    """Return the status of a session. `owned` says whether a scheduler is running."""
    paused_scopes = snapshot.paused_scopes
    probes = tuple(paused.job for paused in paused_scopes if paused.probing and paused.job is not None)
    probing = QueueStatus(StatusWord.PROBING, f"{', '.join(f'#{job}' for job in probes)} alone", probes)
    if snapshot.mode is not Mode.RUNNING:
        return probing if probes else QueueStatus(StatusWord(snapshot.mode))
    # The unnamed group contains the jobs without a group name.
    groups = [paused.group or "the unnamed group" for paused in paused_scopes if paused.group is not None]
    paused_groups = f"{', '.join(groups)} {'is' if len(groups) == 1 else 'are'} paused" if groups else ""
    suspended = snapshot.count(StateName.SUSPENDED)
    active = snapshot.running + snapshot.submitted_count - suspended
    if active > 0:
        if probes and active <= len(probes):
            return probing
        if snapshot.running == suspended:
            first = next(iter(snapshot.submitted.values()), None)
            return QueueStatus(StatusWord.WAITING, first.why if first is not None else "Slurm")
        return QueueStatus(StatusWord.RUNNING, paused_groups)
    if suspended:
        jobs = counted(suspended, "suspended job", "suspended jobs")
        return QueueStatus(StatusWord.SUSPENDED, f"{jobs}; to continue: gputui continue")
    if snapshot.waiting and not owned and can_ever_start(snapshot, (job.id for job in snapshot)):
        return QueueStatus(StatusWord.IDLE, "no scheduler is running")
    if snapshot.waiting and paused_scopes:
        return QueueStatus(StatusWord.PAUSED, paused_groups)
    if snapshot.waiting or snapshot.awaits:
        return QueueStatus(StatusWord.WAITING, snapshot.awaits)
    return QueueStatus(StatusWord.DONE if snapshot.counts else StatusWord.IDLE)


def format_counts(snapshot: Snapshot) -> str:
    """Return the numbers of unfinished jobs as text: `2 running, 1 suspended, 5 waiting`."""
    suspended = snapshot.count(StateName.SUSPENDED)
    counts = {"running": snapshot.running - suspended, "suspended": suspended, "waiting": snapshot.not_begun}
    return ", ".join(f"{number:,} {word}" for word, number in counts.items() if number) or "nothing running"


def first_waiting_reason(scheduler: Scheduler, now: float) -> str:
    """Return why the first waiting job does not start. This is for sessions in which nothing is running."""
    book = scheduler.book
    heads = [first for line in book.ready.values() if (first := line.first()) is not None]
    if heads:
        return why(scheduler, book[min(heads).job], now) or ""
    soonest = book.timers.first(book)
    if soonest is not None and isinstance(state := book[soonest].state, states.Delayed):
        return f"#{soonest} is waiting: {state.why}"
    held = book.counts[StateName.HELD]
    if not held:
        return ""
    return f"{counted(held, 'held job', 'held jobs')}; to start: gputui release"


# Estimated end


NAMED_JOBS = 3


def describe_outlook(snapshot: Snapshot, now: float) -> list[str]:
    """Return the parts of the outlook as text. Return an empty list if nothing is known.

    Examples are `done ≈ 13:50`, `7 jobs ≈ 13:50`, `#11 unknown` and `never: #24 needs 99 GPUs`.
    """
    outlook = snapshot.outlook
    never = [(entry.job, needs(entry.request)) for entry in outlook.never]
    return format_outlook(outlook.at, outlook.jobs, snapshot.not_begun + snapshot.running, outlook.unknown, never, now)


def format_outlook(
    at: float | None,
    jobs: int,
    remaining: int,
    unknown: Sequence[JobId],
    never: Sequence[tuple[JobId, str]],
    now: float,
) -> list[str]:
    """Format an outlook. `jobs` of the `remaining` jobs will have ended at the time `at`.

    `never` contains the jobs that can never start, each with a text that says what it needs.
    """
    parts = []
    if at is not None and at > now and jobs:
        what = "done" if jobs >= remaining else counted(jobs, "job", "jobs")
        parts.append(f"{what} ≈ {moment(at, now)}")
    if unknown:
        named = " ".join(f"#{job}" for job in unknown[:NAMED_JOBS])
        parts.append(f"{named}{f' and {len(unknown) - NAMED_JOBS} more' * (len(unknown) > NAMED_JOBS)} unknown")
    if never:
        job, need = never[0]
        parts.append(f"never: #{job} {need}{f', {len(never) - 1} more' * (len(never) > 1)}")
    return parts


# What happens without the user's help


def has_pending_work(snapshot: Snapshot) -> bool:
    """Return whether a job is running or will start without the user's help."""
    if snapshot.active:
        return True
    if not starts_jobs(snapshot) or not snapshot.waiting:
        return False
    return any_can_start(snapshot, (job.id for job in snapshot))


def starts_jobs(snapshot: Snapshot) -> bool:
    """Return whether the scheduler is running, or is paused only because of errors."""
    after_errors = any(paused.group is None for paused in snapshot.paused_scopes)
    return snapshot.mode is Mode.RUNNING or (after_errors and snapshot.mode is Mode.PAUSED)


def starts_after(snapshot: Snapshot, job: Job, now: float) -> float | None:
    """Return when the current pauses allow a job to start at the earliest, or None if only the user can end them."""
    if not starts_jobs(snapshot):
        return None
    earliest = now
    for paused in snapshot.paused_scopes:
        if not paused.covers(job.spec.group):
            continue
        if not paused.resumes_itself or paused.at is None:
            return None
        outlived = 0.0 if paused.probing or paused.job == job.id else paused.life
        earliest = max(earliest, max(now, paused.at) + outlived)
    return earliest


def pauses(snapshot: Snapshot) -> bool:
    """Return whether the key that toggles pausing would pause now."""
    return snapshot.mode is Mode.RUNNING and not snapshot.paused_scopes


def next_in_line(snapshot: Snapshot, job: Job) -> bool:
    """Return whether a running job would be the first in the queue if it were requeued now."""
    if snapshot.mode is not Mode.RUNNING:
        return False
    own = (-job.priority, job.position)
    queued = (other for other in snapshot if isinstance(other.state, states.Queued)) if snapshot.waiting else ()
    return not any((-other.priority, other.position) < own for other in queued)


def any_can_start(snapshot: Snapshot, jobs: Iterable[JobId]) -> bool:
    """Return whether any of these jobs, or a job on which it depends, is running or can start by itself, considering
    pauses, slots and budgets.
    """
    board = Board(snapshot.slots)
    # The groups that only the user can resume. None stands for all groups.
    stopped = {paused.group for paused in snapshot.paused_scopes if not paused.probing and paused.at is None}
    fits: dict[Request, bool] = {}
    visited: set[JobId] = set()
    remaining = list(jobs)
    while remaining:
        job = snapshot[remaining.pop()]
        if job.id in visited:
            continue
        visited.add(job.id)
        if isinstance(job.state, states.Active):
            return True
        if None in stopped or job.spec.group in stopped:
            continue
        request = job.request
        match job.state:
            case states.Delayed():
                return True
            case states.Queued() if kind_of(job) in snapshot.over_budget:
                continue
            case states.Queued():
                if request not in fits:
                    fits[request] = not board.takes_slot(request) or board.could_ever_fit(request)
                if fits[request]:
                    return True
            case states.Blocked():
                remaining += job.after
    return False


def can_ever_start(snapshot: Snapshot, jobs: Iterable[JobId]) -> bool:
    """Return whether any of these jobs could start if nothing was paused. Assume so while the slots are unknown."""
    return not snapshot.slots or any_can_start(replace(snapshot, paused_scopes=()), jobs)


def all_paused(snapshot: Snapshot, jobs: Iterable[JobId]) -> bool:
    """Return whether none of these jobs can start now because of pauses. A pause does not count if its probe is running
    or starts as soon as it fits.
    """
    if not starts_jobs(snapshot):
        return True
    scopes = (paused for paused in snapshot.paused_scopes if not paused.probing and not paused.due)
    return not any_can_start(
        replace(snapshot, paused_scopes=tuple(replace(paused, at=None) for paused in scopes)), jobs
    )


# Notifications


def wants_notification(job: Job) -> bool:
    """Return whether the user asked to be notified of the job's end."""
    return job.notify if job.notify is not None else job.spec.notify


class Alerts:
    """Notifications for the user, derived from the changes between snapshots."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        """Start from a snapshot. `name` is the name of the session in messages."""
        self._name = name
        self._cause = snapshot.cause
        self._paused = {paused.group for paused in snapshot.paused_scopes}
        self._worked = False
        self._reported = {
            (job.id, job.issued, True)
            for job in snapshot
            if wants_notification(job) and isinstance(job.state, states.Ended)
        }
        """Notifications that must not be repeated, each as a job, its attempt and whether the attempt had ended."""

    def update(self, snapshot: Snapshot, changed: Iterable[JobId], now: float) -> list[str]:
        """Return the messages to send now. Each message is returned only once."""
        messages = [*self._jobs(snapshot, changed, now), *self._pause(snapshot)]
        works = has_pending_work(snapshot) if self._worked or snapshot.active else False
        if self._worked and not works and snapshot.cause is None:
            failed = snapshot.count(*FAILURES)
            done = f"done: {snapshot.count(StateName.SUCCEEDED):,} ok"
            messages.append(done + (f", {failed:,} failed" if failed else ""))
        self._worked = works
        return [f"gputui {self._name}: {message}" for message in messages]

    def _pause(self, snapshot: Snapshot) -> Iterator[str]:
        """Yield messages about pauses that were not requested by the user."""
        before, self._cause = self._cause, snapshot.cause
        self._paused &= {paused.group for paused in snapshot.paused_scopes}
        for paused in snapshot.paused_scopes:
            # A probe that starts at once was requested by the user, or delays no other job.
            if paused.group not in self._paused and not paused.due and not paused.probing:
                self._paused.add(paused.group)
                which = f" ({paused.group})" if paused.group else ""
                yield f"paused{which}: {paused.cause.message}"
        if snapshot.cause is not None and snapshot.cause.kind is PauseKind.DRAINED and before is None:
            yield snapshot.cause.message

    def _jobs(self, snapshot: Snapshot, changed: Iterable[JobId], now: float) -> Iterator[str]:
        for job_id in sorted(changed):
            if job_id not in snapshot or not wants_notification(job := snapshot[job_id]):
                continue
            has_ended = isinstance(job.state, states.Ended)
            is_hung = isinstance(job.state, states.Running) and job.state.silent_since is not None
            key = (job_id, job.issued, has_ended)
            if (has_ended or is_hung) and key not in self._reported:
                self._reported.add(key)
                yield f"#{job_id} {job.name}: {_describe_end(job) if has_ended else silence(snapshot, job, now)}"


def _describe_end(job: Job) -> str:
    after = f" after {duration_words(job.attempts[-1].seconds)}" if job.attempts else ""
    if isinstance(job.state, states.Succeeded):
        return f"succeeded{after}"
    assert isinstance(job.state, states.Ended)
    from .failures import error_message

    error = f": {error_message(job)}" if job.state.name in FAILURES else ""
    return f"{WORDS[job.state.name]}{after}{error}"
