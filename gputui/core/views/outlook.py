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
    if snapshot.mode is not Mode.RUNNING or not snapshot.waiting:
        return False
    return any_can_start(snapshot, (job.id for job in snapshot))


def next_in_line(snapshot: Snapshot, job: Job) -> bool:
    """Put back now, it would be the first to get the lanes it leaves: nothing that waits stands before it."""
    if snapshot.mode is not Mode.RUNNING:
        return False
    own = (-job.priority, job.position)
    queued = (other for other in snapshot if isinstance(other.state, Queued)) if snapshot.waiting else ()
    return not any((-other.priority, other.position) < own for other in queued)


def any_can_start(snapshot: Snapshot, jobs: Iterable[JobId]) -> bool:
    """One of these will start by itself, as far as the lanes and the jobs it waits for allow."""
    board = Board(snapshot.lanes)
    fits: dict[Request, bool] = {}
    seen: set[JobId] = set()
    to_see = list(jobs)
    while to_see:
        job = snapshot[to_see.pop()]
        if job.id in seen:
            continue
        seen.add(job.id)
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
