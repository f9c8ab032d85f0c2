"""Which waiting job is tried when jobs have crashed: one as unlike the crashed ones as there is. Changes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from gputui.core.job import Job, JobId, Queued, Request
from gputui.core.structures.order import Place

from .scope import Scope

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler

LOOKED_AT = 200
REMEMBERED = 100

FITS, WILL_FIT, NEVER = range(3)


class Successes:
    """The last jobs of each group that succeeded: what they were told is not what makes others crash."""

    def __init__(self) -> None:
        self._of_group: dict[str, deque[JobId]] = {}

    def note(self, job: Job) -> None:
        self._of_group.setdefault(job.spec.group, deque(maxlen=REMEMBERED)).append(job.id)

    def of(self, group: str) -> tuple[JobId, ...]:
        return tuple(self._of_group.get(group, ()))


def parameters_of(job: Job) -> dict[str, str]:
    # An owner whose jobs do not crash need not load all that reads commands.
    from gputui.core.views.parameter_columns import parameters_of

    return parameters_of(job.spec)


def shared(common: dict[str, str], job: Job) -> dict[str, str]:
    """Those of the parameters that this job has as well."""
    if not common:
        return common
    named = parameters_of(job)
    return {name: value for name, value in common.items() if named.get(name) == value}


def acquitted(common: dict[str, str], job: Job) -> dict[str, str]:
    """Those of the parameters that this job, which succeeded, does not have."""
    if not common:
        return common
    named = parameters_of(job)
    return {name: value for name, value in common.items() if named.get(name) != value}


def suspected(scheduler: Scheduler, crashed: Sequence[Job]) -> dict[str, str]:
    """What all crashed jobs share, and none of their group has succeeded with."""
    common = parameters_of(crashed[0])
    for job in crashed[1:]:
        common = shared(common, job)
    for group in sorted({job.spec.group for job in crashed}):
        for succeeded in scheduler.successes.of(group):
            common = acquitted(common, scheduler.book[succeeded])
    return common


def crashed_groups(scheduler: Scheduler, scope: Scope) -> set[str]:
    if scope.group is not None:
        return {scope.group}
    assert scope.cause is not None
    return {scheduler.book[job].spec.group for job in scope.cause.jobs}


def next_probe(scheduler: Scheduler, scope: Scope) -> Job | None:
    """The job that is tried as soon as it is due and fits; None: none in the scope is eligible."""
    fits = _Fitting(scheduler)
    wanted = _wanted(scheduler, scope)
    if wanted is not None and fits(wanted) != NEVER:
        return wanted
    crashed = crashed_groups(scheduler, scope)
    best: tuple[int, int] | None = None
    chosen: Job | None = None
    for place in islice(eligible(scheduler, scope), LOOKED_AT):
        job = scheduler.book[place.job]
        likeness = len(shared(scope.common, job)) if job.spec.group in crashed else -1
        rank = (fits(job), likeness)
        if rank[0] != NEVER and (best is None or rank < best):
            best, chosen = rank, job
    return chosen


def eligible(scheduler: Scheduler, scope: Scope) -> Iterator[Place]:
    """The places of jobs that could start, were they not paused; in the order of the queue."""
    lines = (line for (_, group), line in scheduler.book.ready.items() if scope.covers(group))
    return merge(*lines)


def _wanted(scheduler: Scheduler, scope: Scope) -> Job | None:
    if scope.first is None:
        return None
    job = scheduler.book[scope.first]
    return job if isinstance(job.state, Queued) and scope.covers(job.spec.group) and not job.archived else None


class _Fitting:
    """Whether jobs fit now; asked once for each request."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._known: dict[Request, int] = {}

    def __call__(self, job: Job) -> int:
        request = self._scheduler.asked(job)
        if request not in self._known:
            self._known[request] = self._answer(request)
        return self._known[request]

    def _answer(self, request: Request) -> int:
        scheduler = self._scheduler
        if not scheduler.board.takes_lane(request):
            return FITS if scheduler.cpu_jobs_running < scheduler.settings.cpu_jobs else WILL_FIT
        if scheduler.fit(request) is not None:
            return FITS
        return WILL_FIT if scheduler.board.could_ever_fit(request) else NEVER
