"""Why jobs wait, and what a pause after failures means for the jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from gputui.core import job as states
from gputui.core.amounts import counted, duration_exact, memory_words
from gputui.core.book import kind_of, place_of
from gputui.core.breaker import Scope
from gputui.core.events import Mode
from gputui.core.job import FAILURES, WORDS, Job, JobId, Purpose, Request
from gputui.core.parameters import params_missing
from gputui.core.snapshot import PausedScope, Snapshot

from .format import natural_order

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler


SHOWN = 3
LONGEST_KEY = 8
"""Maximum length of a device name in a list, in characters. The name of a MIG instance is its long UUID."""

# Why a job waits


class Reason(Struct, frozen=True):
    """Why a job waits, or what is unusual about a running job."""

    text: str
    brief: str = ""
    """A shorter text for narrow rows, or empty if there is none."""
    routine: bool = False
    """Whether rows may omit the reason, because the job only waits for its turn or its state says the same."""


def why(scheduler: Scheduler, job: Job, now: float) -> str | None:
    """Return why a job is waiting here or in a cluster's queue, or None if it is not waiting."""
    reason = waiting_reason(scheduler, job, now)
    return reason.text if reason is not None else None


def waiting_reason(scheduler: Scheduler, job: Job, now: float) -> Reason | None:
    match job.state:
        case states.Held(why=reason):
            return Reason(reason or "held by you; release it to run", routine=not reason)
        case states.Blocked():
            unmet = scheduler.book.unmet[job.id]
            shown = [f"#{id} ({WORDS[scheduler.book[id].state.name]})" for id in nsmallest(SHOWN, unmet)]
            more = f" and {len(unmet) - SHOWN} more" if len(unmet) > SHOWN else ""
            return Reason(f"waiting for {', '.join(shown)}{more}")
        case states.Delayed(until=until, why=reason):
            return Reason(f"{reason}; starts in {max(0.0, until - now):.0f} s")
        case states.Queued():
            pause = _pause_reason(scheduler, job, now)
            return Reason(pause) if pause is not None else _queue_reason(scheduler, job, now)
        case states.Stopping(purpose=Purpose.PREEMPT):
            return Reason("preempted by an urgent job; will continue from its checkpoint")
        case states.Starting() if (submitted := scheduler.submitted.get(job.id)) is not None:
            return Reason(submitted.why)
    return None


def _pause_reason(scheduler: Scheduler, job: Job, now: float) -> str | None:
    """Return the pause or problem that keeps a queued job from starting, or None if it only waits for other jobs."""
    if scheduler.mode is Mode.DRAINING:
        return "scheduler draining: no new jobs start"
    if scheduler.wanted_cause is not None and scheduler.breaker.pause is None:
        return f"scheduler {scheduler.wanted_cause.message}"
    scope = scheduler.breaker.scope_pausing(job.spec.group)
    if scope is not None and scope.cause is not None:
        who = "scheduler" if scope.group is None else "group"
        return f"{who} paused: {scope.cause.message}; {_resume_condition(scheduler, scope, now)}"
    if scheduler.cannot_start:
        return scheduler.cannot_start
    if now < scheduler.starts_again_at:
        seconds = scheduler.starts_again_at - now
        return f"cannot start jobs now (out of resources); retrying in {seconds:.0f} s"
    return None


def _resume_condition(scheduler: Scheduler, scope: Scope, now: float) -> str:
    """Return what will end a pause after failures: `probe #41 in 8:12`, `probe #41 is running`."""
    paused = scheduler.paused_scope(scope)
    if paused.probing:
        return f"probe #{paused.job} is running"
    if paused.job is None or paused.at is None:
        return "resume or rerun to continue"
    if paused.due or paused.at <= now:
        return f"probe #{paused.job} starts when it fits"
    sooner = _started_before(paused, (scheduler.book[job] for job in scheduler.book.active))
    return f"probe #{paused.job} in {duration_exact(paused.at - now)}{AT_A_SUCCESS if sooner else ''}"


def _queue_reason(scheduler: Scheduler, job: Job, now: float) -> Reason:
    """Return what a queued job is waiting for. Pauses are not considered."""
    request, board = scheduler.effective_request(job), scheduler.board
    over_budget = scheduler.over_budget(now)
    if kind_of(job) in over_budget:
        return Reason(_budget_reason(scheduler, job, now))
    takes_slot = board.takes_slot(request)
    if takes_slot and not board.could_ever_fit(request):
        return Reason(f"{needs(request)}; {board.not_on_cluster(request) or f'this session has {_has(scheduler)}'}")
    # CPU jobs and GPU jobs do not wait for each other.
    is_gpu_job = board.takes_slot(job.request)
    lines = (
        line
        for (shape, group), line in scheduler.book.ready.items()
        if board.takes_slot(shape) == is_gpu_job
        and scheduler.breaker.scope_pausing(group) is None
        and (shape, group) not in over_budget
    )
    if ahead := sum(line.rank(place_of(job)) for line in lines):
        return Reason(f"{counted(ahead, 'job', 'jobs')} ahead of it", routine=True)
    if not takes_slot:
        running = counted(scheduler.cpu_jobs_running, "CPU job running", "CPU jobs running")
        return Reason(f"{running}, limit {scheduler.settings.cpu_jobs}")
    if scheduler.fit(request) is not None:
        return Reason("a slot is free: starts next", routine=True)
    wanted = _wanted(scheduler, request)
    obstacles, is_routine = [_limit(scheduler)], False
    if board.fit(request) is None:
        obstacles, is_routine = _obstacles(scheduler, request)
    text = ", ".join(obstacles)
    return Reason(
        f"waiting for {wanted}: {text}" if text else f"waiting for {wanted}",
        brief=text if wanted == "a GPU" else "",
        routine=is_routine and request == Request(request.gpus),  # the request has no conditions
    )


def _budget_reason(scheduler: Scheduler, job: Job, now: float) -> str:
    used, total = scheduler.used_gpu_seconds(now), scheduler.settings.budget
    if total is not None and sum(used.values()) >= total:
        return f"the session has used its budget: {_gpu_hours(sum(used.values()))} of {_gpu_hours(total)} GPU-hours"
    group = f"group {job.spec.group}" if job.spec.group else "the unnamed group"
    spent = _gpu_hours(used.get(job.spec.group, 0.0))
    return f"{group} has used its budget: {spent} of {_gpu_hours(job.request.budget or 0.0)} GPU-hours"


def _gpu_hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g}"


BUSY = "busy"


def _obstacles(scheduler: Scheduler, request: Request) -> tuple[list[str], bool]:
    """Return what prevents the start, and whether only other jobs of this session prevent it.

    Examples are `0 1 3 busy`, `2 used by alice (pid 4121, 38.0G, 5 h)` and `4 has 3.0 GiB left`.
    """
    board = scheduler.board
    wanted = {name for slot in board.serving(request) for name in slot.device_keys}
    slots = [slot for slot in (*board.slots, *board.leaving()) if not wanted.isdisjoint(slot.device_keys)]
    holders = {board.holders[slot.id] for slot in slots if slot.id in board.holders}
    free = {name for slot in board.slots if board.is_free(slot) for name in slot.device_keys}
    busy = {name for slot in slots if slot.id in board.holders for name in slot.device_keys} - free
    devices: dict[str, list[str]] = {}
    for name in sorted(wanted, key=natural_order):
        left = board.devices.free_memory(name)
        if (blocked := board.devices.blocked(name)) is not None:
            devices.setdefault(blocked, []).append(name)
        elif name in busy:
            devices.setdefault(BUSY, []).append(name)
        elif left is not None and board.devices.lacks(name, request):
            devices.setdefault(f"has {memory_words(max(0, left))} left", []).append(name)
    in_order = sorted(devices, key=lambda obstacle: obstacle != BUSY)[: SHOWN + 1]
    texts = [f"{_slot_list(devices[obstacle], wanted, request)}{obstacle}" for obstacle in in_order]
    running = [(job, scheduler.book[job].state) for job in sorted(holders)]
    preempted = [
        f"#{job}" for job, state in running if isinstance(state, states.Stopping) and state.purpose is Purpose.PREEMPT
    ]
    texts += [f"preempting {', '.join(preempted)}"] if preempted else []
    return texts, in_order == [BUSY] and not preempted


def never_starts(scheduler: Scheduler, jobs: Iterable[JobId]) -> str:
    """Return a warning if some of these jobs can never run on the session's slots, else an empty string."""
    board = scheduler.board
    if not board.slots:
        return ""
    never: list[tuple[JobId, Request]] = []
    could: dict[Request, bool] = {}
    for job_id in jobs:
        request = scheduler.effective_request(scheduler.book[job_id])
        if request not in could:
            could[request] = not board.takes_slot(request) or board.could_ever_fit(request)
        if not could[request] and isinstance(scheduler.book[job_id].state, states.Waiting):
            never.append((job_id, request))
    if not never:
        return ""
    job, request = never[0]
    who = f"#{job}" if len(never) == 1 else f"#{job} and {counted(len(never) - 1, 'other', 'others')}"
    return f"{who} can never start: {needs(request)}; this session has {_has(scheduler)}"


def _slot_list(some: list[str], wanted: set[str], request: Request) -> str:
    """Format a list of devices: `0 1 3 `, `all 4 `, or an empty string for the only device that was requested."""
    if request.devices == (some[0],):
        return ""
    if len(some) == len(wanted) > 1:
        return f"all {len(some)} "
    short = [name if len(name) <= LONGEST_KEY else f"{name[:LONGEST_KEY]}…" for name in some]
    return f"{' '.join(short)} "


def _wanted(scheduler: Scheduler, request: Request) -> str:
    has_devices = any(slot.devices for slot in scheduler.board.slots)
    single = "a GPU" if has_devices else "a slot"
    what = single if request.gpus in (None, 1) else counted(request.gpus or 0, "GPU", "GPUs")
    if len(request.devices) == 1 and request.gpus in (None, 1):
        what = f"GPU {request.devices[0]}"
    elif request.devices:
        what = f"{what} among {', '.join(request.devices)}"
    return f"{what}{_memory(request)}{_after_oom(request)}"


def _limit(scheduler: Scheduler) -> str:
    settings = scheduler.settings
    if settings.keep_free:
        return f"{counted(settings.keep_free, 'GPU is', 'GPUs are')} kept free for others"
    return f"at most {counted(settings.max_gpus or 0, 'GPU is', 'GPUs are')} used at once"


def needs(request: Request) -> str:
    """Format what a request needs: `needs 2 GPUs with 38.0 GiB`."""
    which = f" from {', '.join(request.devices)}" if request.devices else ""
    what = "a slot" if request.gpus is None else counted(request.gpus, "GPU", "GPUs")
    return f"needs {what}{_memory(request)}{which}{_after_oom(request)}"


def _after_oom(request: Request) -> str:
    """Format the conditions that were added to a request after its job ran out of GPU memory."""
    if request.larger_than is not None:
        return f" with more than {memory_words(request.larger_than)} to itself, after running out of memory"
    return " to itself, after running out of memory" if request.alone else ""


def _memory(request: Request) -> str:
    if request.memory is not None:
        reason = " (learned from its group)" if request.learns else ""
        return f" with {memory_words(request.memory)}{reason}"
    return f" with {request.memory_share:.0%} of its memory" if request.memory_share is not None else ""


def _has(scheduler: Scheduler) -> str:
    slots = scheduler.board.slots
    devices = sorted({device for slot in slots for device in slot.devices})
    if devices:
        return f"GPU {', '.join(devices)}"
    return f"{counted(len(slots), 'slot', 'slots')} without a GPU" if slots else "no slots"


# Pauses after failures


COMPARED_JOBS = 200
AT_A_SUCCESS = " or on a success"
"""Text that follows the time of the next probe if the success of a running job would start the probe earlier."""


def resume_rule(life: float) -> str:
    """Format the condition on which all jobs start again: `succeeds or runs for 1:00`."""
    return f"succeeds or runs for {duration_exact(life)}"


def pause_covering(snapshot: Snapshot, jobs: Collection[Job]) -> PausedScope | None:
    """Return the pause that keeps all of these jobs from starting, or None if there is none."""
    groups = {job.spec.group for job in jobs}
    return next((paused for paused in snapshot.paused_scopes if all(map(paused.covers, groups))), None)


def rerun_suffix(snapshot: Snapshot, jobs: Collection[Job]) -> str:
    """Return how a rerun of failed jobs starts, as the end of a sentence: `, one first`, `, after #41` or nothing."""
    paused = pause_covering(snapshot, jobs)
    if paused is not None and paused.probing:
        return f", after #{paused.job}"
    return ", one first" if len(jobs) > 1 and snapshot.settings.pause_after else ""


def still_running(snapshot: Snapshot, paused: PausedScope) -> list[JobId]:
    """Return the running jobs that were started before the pause. The next probe is due as soon as one succeeds."""
    return _started_before(paused, (snapshot[job] for job in snapshot.active))


def _started_before(paused: PausedScope, active: Iterable[Job]) -> list[JobId]:
    started = (job for job in active if isinstance(job.state, states.Running | states.Starting))
    return sorted(job.id for job in started if paused.covers(job.spec.group))


def failed_jobs(snapshot: Snapshot) -> tuple[JobId, ...]:
    """Return all jobs that failed since the pauses began. A cause lists only the newest if there are many."""
    jobs: set[JobId] = set()
    for paused in snapshot.paused_scopes:
        jobs.update(paused.cause.jobs)
        if paused.cause.more:
            oldest = min(snapshot[job].attempts[-1].started for job in paused.cause.jobs if snapshot[job].attempts)
            since = min(oldest, paused.cause.since)
            failed = (job for job in snapshot if job.state.name in FAILURES and paused.covers(job.spec.group))
            jobs.update(job.id for job in failed if job.attempts and job.attempts[-1].ended >= since)
    return tuple(sorted(jobs))


def jobs_with_same_error(snapshot: Snapshot, paused: PausedScope) -> list[Job]:
    """Return the jobs that failed with the error that caused the pause, oldest failure first."""
    jobs = (snapshot[job] for job in paused.cause.jobs if job in snapshot)
    alike = paused.cause.signature
    return [job for job in jobs if job.attempts and alike in (None, job.attempts[-1].signature)]


def queued_again(snapshot: Snapshot, paused: PausedScope) -> list[JobId]:
    """Return those of the failed jobs that are waiting again, because the user has rerun them since."""
    jobs = (snapshot[job] for job in paused.cause.jobs if job in snapshot)
    return sorted(job.id for job in jobs if isinstance(job.state, states.Waiting) and not job.archived)


def requeued_words(snapshot: Snapshot, paused: PausedScope) -> str:
    """Say how many of the failed jobs are waiting again: `2 queued again`. Return an empty string if none are."""
    again = len(queued_again(snapshot, paused))
    return "" if not again else "queued again" if paused.cause.count == 1 else f"{again:,} queued again"


def distinguishing_parameters(snapshot: Snapshot, paused: PausedScope) -> dict[str, str]:
    """Return the parameters that the failed jobs share and that some other jobs of their groups do not have."""
    groups = {snapshot[job].spec.group for job in paused.cause.jobs if job in snapshot}
    others = (job for job in snapshot if job.spec.group in groups and job.id not in paused.cause.jobs)
    suspects, differing = dict(paused.common), set[str]()
    for job in islice(others, COMPARED_JOBS) if suspects else ():
        differing |= params_missing(suspects, job.spec).keys()
        suspects = {name: value for name, value in suspects.items() if name not in differing}
        if not suspects:
            break
    return {name: value for name, value in paused.common.items() if name in differing}
