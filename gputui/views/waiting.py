"""Why a job waits, in one sentence with names; computed when asked."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import TYPE_CHECKING

from gputui.core.amounts import memory_words
from gputui.core.book import place_of
from gputui.core.cluster import not_on_cluster
from gputui.core.events import Mode
from gputui.core.job import (
    WORDS,
    Blocked,
    Delayed,
    Held,
    Job,
    JobId,
    Purpose,
    Queued,
    Request,
    Starting,
    Stopping,
    Waiting,
)
from gputui.core.snapshot import goes_on_by

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler


SHOWN = 3
FOR_A_GPU = "waiting for a GPU: "
"""Begins the reason of most waiting jobs; a row without room for all of it leaves this out."""
LONGEST_SLOT = 8
"""Characters of a device's name in a list: a MIG instance is called by its UUID."""


def why(scheduler: Scheduler, job: Job, now: float) -> str | None:
    """None for a job that does not wait, neither here nor in a cluster's queue."""
    match job.state:
        case Held(why=reason):
            return reason or "held by you; release it to let it run"
        case Blocked():
            return f"waits for {_names(scheduler, scheduler.book.unmet[job.id])}"
        case Delayed(until=until, why=reason):
            return f"{reason}; goes on in {max(0.0, until - now):.0f} s"
        case Queued():
            return _why_queued(scheduler, job, now)
        case Stopping(purpose=Purpose.PREEMPT):
            return "gives way to an urgent job, then waits again; goes on from its checkpoint"
        case Starting() if (submitted := scheduler.submitted.get(job.id)) is not None:
            return submitted.why
    return None


def _names(scheduler: Scheduler, jobs: set[JobId]) -> str:
    shown = [f"#{id} ({WORDS[scheduler.book[id].state.name]})" for id in nsmallest(SHOWN, jobs)]
    more = len(jobs) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _why_queued(scheduler: Scheduler, job: Job, now: float) -> str:
    if scheduler.mode is Mode.DRAINING:
        return "the scheduler is draining: nothing new is started"
    if scheduler.wanted_cause is not None and scheduler.breaker.pause is None:
        return f"the scheduler is paused: {scheduler.wanted_cause.message}"
    scope = scheduler.breaker.over(job.spec.group)
    if scope is not None and scope.cause is not None:
        who = "the scheduler" if scope.group is None else "its group"
        return f"{who} is paused: {scope.cause.message}; {goes_on_by(scheduler, scope, now)}"
    if scheduler.cannot_start:
        return scheduler.cannot_start
    if now < scheduler.starts_again_at:
        seconds = scheduler.starts_again_at - now
        return f"the machine had no room for the last job; tried again in {seconds:.0f} s"
    request = scheduler.asked(job)
    takes_lane = scheduler.board.takes_lane(request)
    if takes_lane and not scheduler.board.could_ever_fit(request):
        return f"{needs(request)}; {not_on_cluster(scheduler.board, request) or f'this session has {_has(scheduler)}'}"
    ahead = _jobs_ahead(scheduler, job)
    if ahead:
        return f"{_count(ahead, 'job is', 'jobs are')} ahead of it"
    return _why_first(scheduler, request)


def _jobs_ahead(scheduler: Scheduler, job: Job) -> int:
    """Jobs that want a lane do not wait for those that want none, nor the other way round."""
    takes_lane = scheduler.board.takes_lane
    alike = takes_lane(job.request)
    lines = (
        line
        for (request, group), line in scheduler.book.ready.items()
        if takes_lane(request) == alike and scheduler.breaker.over(group) is None
    )
    return sum(line.rank(place_of(job)) for line in lines)


def _why_first(scheduler: Scheduler, request: Request) -> str:
    if not scheduler.board.takes_lane(request):
        running = _count(scheduler.cpu_jobs_running, "CPU job runs", "CPU jobs run")
        return f"{running}, of {scheduler.settings.cpu_jobs} at once"
    board = scheduler.board
    if scheduler.fit(request) is not None:
        return "a lane is free: it starts next"
    if board.fit(request) is not None:
        return f"waiting for {_wanted(scheduler, request)}: {_limit(scheduler)}"
    slots = {slot for lane in board.serving(request) for slot in lane.slots}
    lanes = [lane for lane in (*board.lanes, *board.leaving()) if not slots.isdisjoint(lane.slots)]
    holders = {board.holders[lane.id] for lane in lanes if lane.id in board.holders}
    free = {slot for lane in board.lanes if board.is_free(lane) for slot in lane.slots}
    busy = {slot for lane in lanes if lane.id in board.holders for slot in lane.slots} - free
    reasons = _occupied(scheduler, request, slots, busy)
    leaving = [f"#{job}" for job in sorted(holders) if _gives_way(scheduler.book[job])]
    reasons += [f"{', '.join(leaving)} {'gives' if len(leaving) == 1 else 'give'} way to it"] if leaving else []
    return f"waiting for {_wanted(scheduler, request)}: {', '.join(reasons)}".removesuffix(": ")


def _gives_way(job: Job) -> bool:
    return isinstance(job.state, Stopping) and job.state.purpose is Purpose.PREEMPT


def never_starts(scheduler: Scheduler, jobs: Iterable[JobId]) -> str:
    """A warning if some of these jobs can never run on the session's lanes; empty: all can, or there are no lanes."""
    board = scheduler.board
    if not board.lanes:
        return ""
    never: list[tuple[JobId, Request]] = []
    could: dict[Request, bool] = {}
    for job_id in jobs:
        request = scheduler.asked(scheduler.book[job_id])
        if request not in could:
            could[request] = not board.takes_lane(request) or board.could_ever_fit(request)
        if not could[request] and isinstance(scheduler.book[job_id].state, Waiting):
            never.append((job_id, request))
    if not never:
        return ""
    job, request = never[0]
    who = f"#{job}" if len(never) == 1 else f"#{job} and {_count(len(never) - 1, 'other', 'others')}"
    return f"{who} can never start: {needs(request)}; this session has {_has(scheduler)}"


def _occupied(scheduler: Scheduler, request: Request, slots: set[str], busy: set[str]) -> list[str]:
    """`0 1 3 busy`, `2 used by alice (pid 4121, 38.0G, 5 h)`, `4 has 3.0 GB left`."""
    cards, why_not = scheduler.board.cards, dict[str, list[str]]()
    for slot in sorted(slots, key=lambda slot: (not slot.isdecimal(), len(slot), slot)):
        free = cards.left(slot)
        if (blocked := cards.blocked(slot)) is not None:
            why_not.setdefault(blocked, []).append(slot)
        elif slot in busy:
            why_not.setdefault("busy", []).append(slot)
        elif free is not None and cards.lacks(slot, request):
            why_not.setdefault(f"has {memory_words(max(0, free))} left", []).append(slot)
    in_order = sorted(why_not, key=lambda reason: reason != "busy")
    return [f"{_listed(why_not[reason], slots, request)}{reason}" for reason in in_order[: SHOWN + 1]]


def _listed(some: list[str], slots: set[str], request: Request) -> str:
    """In front of what they have in common; nothing where it is the one that was asked for."""
    if request.devices == (some[0],):
        return ""
    if len(some) == len(slots) > 1:
        return f"all {len(some)} "
    short = [slot if len(slot) <= LONGEST_SLOT else f"{slot[:LONGEST_SLOT]}…" for slot in some]
    return f"{' '.join(short)} "


def _wanted(scheduler: Scheduler, request: Request) -> str:
    has_devices = any(lane.devices for lane in scheduler.board.lanes)
    single = "a GPU" if has_devices else "a lane"
    what = single if request.gpus in (None, 1) else _count(request.gpus or 0, "GPU", "GPUs")
    if len(request.devices) == 1 and request.gpus in (None, 1):
        what = f"GPU {request.devices[0]}"
    elif request.devices:
        what = f"{what} among {', '.join(request.devices)}"
    return f"{what}{_memory(request)}{_after_oom(request)}"


def _limit(scheduler: Scheduler) -> str:
    settings = scheduler.settings
    if settings.keep_free:
        return f"{_count(settings.keep_free, 'GPU is', 'GPUs are')} kept free for others"
    return f"at most {_count(settings.at_most or 0, 'GPU is', 'GPUs are')} used at once"


def needs(request: Request) -> str:
    """`needs 2 GPUs with 38.0 GB`."""
    which = f" among {', '.join(request.devices)}" if request.devices else ""
    what = "a lane" if request.gpus is None else _count(request.gpus, "GPU", "GPUs")
    return f"needs {what}{_memory(request)}{which}{_after_oom(request)}"


def _after_oom(request: Request) -> str:
    """What it asks for besides, since its card was full."""
    if request.larger_than is not None:
        return f" with more than {memory_words(request.larger_than)} to itself, after running out of memory"
    return " to itself, after running out of memory" if request.alone else ""


def _memory(request: Request) -> str:
    if request.memory is not None:
        reason = ", as its group was seen to use," if request.learns else ""
        return f" with {memory_words(request.memory)}{reason}"
    return f" with {request.memory_share:.0%} of its memory" if request.memory_share is not None else ""


def _has(scheduler: Scheduler) -> str:
    lanes = scheduler.board.lanes
    devices = sorted({device for lane in lanes for device in lane.devices})
    if devices:
        return f"GPU {', '.join(devices)}"
    return f"{_count(len(lanes), 'lane', 'lanes')} without a GPU" if lanes else "no lane"


def _count(number: int, single: str, many: str) -> str:
    return f"{number} {single if number == 1 else many}"
