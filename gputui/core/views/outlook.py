"""Whether anything can still happen without somebody's help."""

from __future__ import annotations

from collections.abc import Iterable

from gputui.core.job import Blocked, Delayed, Job, JobId, Queued, Request
from gputui.core.lanes import Board
from gputui.core.mode import Mode
from gputui.core.snapshot import Snapshot


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
