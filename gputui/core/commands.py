"""Pausing, draining, rolling back what could not be stored, and steps of the wall clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from . import breaker_rules
from .cluster import check_request, withdrawals
from .events import (
    LEFT_ON_PURPOSE,
    AddJobs,
    Cause,
    Continue,
    ContinueTree,
    Edit,
    Hold,
    Instruction,
    Kill,
    KillTree,
    Mode,
    Notify,
    PauseKind,
    Refusal,
    Release,
    Remove,
    Requeue,
    Rerun,
    SetPriority,
    Settings,
    Suspend,
    SuspendTree,
    Terminate,
    cause_of,
)
from .job import (
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    URGENT_PRIORITY,
    Attempt,
    Blocked,
    Delayed,
    Ended,
    Held,
    Job,
    JobId,
    JobSpec,
    Killed,
    Purpose,
    Queued,
    Running,
    Skipped,
    Starting,
    Stopping,
    Suspended,
)
from .queue_order import resolve, satisfied, unblocked_state, waiting_state

if TYPE_CHECKING:
    from .scheduler import Scheduler


# ---- What users ask for ----


def add_jobs(scheduler: Scheduler, event: AddJobs, now: float) -> None:
    """All or none: a spec that cannot be taken refuses the whole batch."""
    for spec in event.specs:
        _check(spec)
        check_request(scheduler.board, spec.request)
    first = scheduler.book.next_id
    waits = resolve(scheduler.book, event.specs, first)
    jobs = [
        Job(first + offset, spec, now, spec.priority, scheduler.next_position + offset, state, after)
        for offset, (spec, after) in enumerate(zip(event.specs, waits, strict=True))
        for state in [Held() if spec.hold or after else unblocked_state(spec, now)]
    ]
    scheduler.next_position += len(jobs)
    scheduler.book.extend(jobs)
    for job in jobs:
        if job.after and not job.spec.hold:
            settle(scheduler, job, now, "added", keep=False)


def settle(scheduler: Scheduler, job: Job, now: float, text: str, *, keep: bool = True, **changes: object) -> None:
    """Lets a job want to run: eligible, blocked, delayed, or skipped at once."""
    state = waiting_state(scheduler.book, replace(job, **changes), now)
    if isinstance(state, Skipped):
        scheduler.finish(job, state, now, f"skipped because #{state.because} did not succeed", **changes)
    else:
        scheduler.change(job, now, text, keep=keep, state=state, **changes)


def _check(spec: JobSpec) -> None:
    _check_priority(spec.priority)
    texts = (
        spec.command, spec.cwd, spec.shell, spec.outfile or "", spec.name or "", spec.group, spec.wrap, spec.task,
    )  # fmt: skip
    if "\0" in "".join((*texts, *spec.variables, *spec.variables.values(), *spec.request.devices)):
        raise Refusal("a NUL byte can be in no command, path or name")
    if spec.retries < 0:
        raise Refusal(f"a job cannot be retried {spec.retries} times")
    if spec.timeout is not None and not spec.timeout > 0:
        raise Refusal(f"a time limit of {spec.timeout:g} s leaves no time to run")
    if not 0 <= spec.hang_after < float("inf"):
        raise Refusal(f"hang_after cannot be {spec.hang_after:g} s")
    if spec.preempt and spec.priority < URGENT_PRIORITY:
        raise Refusal(f"preempt needs a priority of at least {URGENT_PRIORITY}, not {spec.priority}")
    if spec.request.gpus is not None and spec.request.gpus < 0:
        raise Refusal(f"a job cannot run on {spec.request.gpus} GPUs")


def check_settings(settings: Settings) -> None:
    for name in ("pause_after", "grace", "cpu_jobs", "patience", "at_most", "keep_free", "probe"):
        if (getattr(settings, name) or 0) < 0:
            raise Refusal(f"{name} cannot be {getattr(settings, name):g}")


def _check_priority(priority: int) -> None:
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise Refusal(f"priority {priority} is not between {LOWEST_PRIORITY} and {HIGHEST_PRIORITY}")


def hold(scheduler: Scheduler, job: Job, event: Hold, now: float) -> list[Instruction]:
    scheduler.change(job, now, "held by the user", keep=True, state=Held())
    return []


def hold_submitted(scheduler: Scheduler, job: Job, event: Hold, now: float) -> list[Instruction]:
    """It is taken back from the cluster's queue first; one that begins meanwhile runs on."""
    assert isinstance(job.state, Starting)
    if not job.submitted:
        raise Refusal(f"#{job.id} is starting: only a waiting job can be held; suspend or requeue it when it runs")
    text = "to be held by the user: taken back from Slurm's queue"
    held = scheduler.change(job, now, text, keep=True, state=replace(job.state, hold=True))
    return withdrawals(scheduler, (held,))


def release(scheduler: Scheduler, job: Job, event: Release, now: float) -> list[Instruction]:
    settle(scheduler, job, now, "released by the user")
    return []


def kill_waiting(scheduler: Scheduler, job: Job, event: Kill, now: float) -> list[Instruction]:
    scheduler.finish(job, Killed(), now, "killed by the user before it started")
    return []


def kill_active(scheduler: Scheduler, job: Job, event: Kill, now: float) -> list[Instruction]:
    return stop(scheduler, job, now, Purpose.KILL, at_once=event.now)


def kill_stopping(scheduler: Scheduler, job: Job, event: Kill, now: float) -> list[Instruction]:
    """With `now` it cuts the grace short; killing what was to be requeued means it stays down."""
    state = job.state
    assert isinstance(state, Stopping)
    hard = state.hard or event.now
    text = "killed by the user" + (" without further grace" if event.now else "")
    new_state = replace(state, purpose=Purpose.KILL, hard=hard)
    scheduler.change(job, now, text, keep=True, state=new_state)
    return [KillTree(job.id, state.placed.attempt)] if hard and not state.hard else []


def requeue(scheduler: Scheduler, job: Job, event: Requeue, now: float) -> list[Instruction]:
    return stop(scheduler, job, now, Purpose.REQUEUE)


def stop(
    scheduler: Scheduler, job: Job, now: float, purpose: Purpose, *, at_once: bool = False, why: str = ""
) -> list[Instruction]:
    state = job.state
    assert isinstance(state, Starting | Running | Suspended)
    pid = None if isinstance(state, Starting) else state.pid
    grace = 0.0 if at_once else scheduler.settings.grace
    stopping = Stopping(state.placed, pid, purpose, now + grace, hard=at_once)
    scheduler.change(job, now, why or _why_stopped(job, purpose), keep=True, state=stopping)
    order = KillTree if at_once else Terminate
    return [order(job.id, state.placed.attempt)]


def _why_stopped(job: Job, purpose: Purpose) -> str:
    match purpose:
        case Purpose.KILL:
            return "killed by the user"
        case Purpose.REQUEUE:
            return "requeued by the user"
        case Purpose.PREEMPT:
            return "gives way to an urgent job"
        case Purpose.HANG:
            return f"ended: it hangs (nothing for {job.spec.hang_after:g} s)"
    return f"out of time ({job.spec.timeout or 0:g} s)"


def suspend(scheduler: Scheduler, job: Job, event: Suspend, now: float) -> list[Instruction]:
    state = job.state
    assert isinstance(state, Running)
    suspended = Suspended(state.placed, state.pid, now, state.suspended_for)
    scheduler.change(job, now, "suspended by the user", keep=True, state=suspended)
    return [SuspendTree(job.id, state.placed.attempt)]


def go_on(scheduler: Scheduler, job: Job, event: Continue, now: float) -> list[Instruction]:
    state = job.state
    assert isinstance(state, Suspended)
    running = Running(state.placed, state.pid, state.suspended_for + max(0.0, now - state.since))
    scheduler.change(job, now, "continued by the user", keep=True, state=running)
    return [ContinueTree(job.id, state.placed.attempt)]


def rerun(scheduler: Scheduler, job: Job, event: Rerun, now: float) -> list[Instruction]:
    """A new attempt; who was skipped because of it, or is still to start, waits for it again."""
    in_the_way = waiting_state(scheduler.book, job, now)
    if isinstance(in_the_way, Skipped):
        raise Refusal(f"#{job.id} would be skipped again: #{in_the_way.because} did not succeed; rerun that one")
    spec = job.spec if event.environment is None else replace(job.spec, environment=event.environment)
    settle(scheduler, job, now, "rerun by the user", spec=spec, failures=0, after_oom=None)
    breaker_rules.rerun(scheduler, job, now)
    to_revive = [job.id]
    while to_revive:
        earlier = to_revive.pop()
        for dependent_id in scheduler.book.dependents.get(earlier, ()):
            if _revive(scheduler, scheduler.book[dependent_id], earlier, now):
                to_revive.append(dependent_id)
    return []


def _revive(scheduler: Scheduler, dependent: Job, earlier: JobId, now: float) -> bool:
    match dependent.state:
        case Blocked():
            scheduler.book.unmet[dependent.id].add(earlier)
        case Queued() | Delayed():
            settle(scheduler, dependent, now, f"waits for #{earlier}, which is rerun")
        case Skipped(because=because) if not dependent.archived and not _in_the_way(scheduler, dependent, because):
            settle(scheduler, dependent, now, f"waits again: #{earlier} is rerun", failures=0)
            return isinstance(scheduler.book[dependent.id].state, Blocked)
    return False


def _in_the_way(scheduler: Scheduler, job: Job, earlier: JobId) -> bool:
    return isinstance(scheduler.book[earlier].state, Ended) and not satisfied(scheduler.book, job, earlier)


def set_priority(scheduler: Scheduler, job: Job, event: SetPriority, now: float) -> list[Instruction]:
    _check_priority(event.priority)
    text = f"priority {job.priority} → {event.priority}, by the user"
    scheduler.change(job, now, text, keep=True, priority=event.priority)
    return []


def notify(scheduler: Scheduler, job: Job, event: Notify, now: float) -> list[Instruction]:
    text = "the user wants to be told of its end" if event.wanted else "the user no longer wants to be told of its end"
    scheduler.change(job, now, text, keep=True, notify=event.wanted)
    return []


def edit(scheduler: Scheduler, job: Job, event: Edit, now: float) -> list[Instruction]:
    """Only what differs from the old spec changes: a priority the user gave meanwhile stays."""
    spec = event.spec
    _check(spec)
    check_request(scheduler.board, spec.request)
    changes: dict[str, Any] = {"spec": spec}
    if spec.priority != job.spec.priority:
        changes["priority"] = spec.priority
    if spec.after != job.spec.after:
        changes["after"] = _new_after(scheduler, job, spec)
    if (spec.request, spec.on_oom) != (job.spec.request, job.spec.on_oom):
        changes["after_oom"] = None
    if spec.command != job.spec.command and job.attempts:
        changes["attempts"] = _remembering(job)
    if isinstance(job.state, Held):
        scheduler.change(job, now, "edited by the user", keep=True, **changes)
    else:
        settle(scheduler, job, now, "edited by the user", **changes)
    return []


def _remembering(job: Job) -> tuple[Attempt, ...]:
    """Its attempts with the command that they ran."""
    return tuple(
        replace(attempt, command=job.spec.command) if attempt.command is None else attempt for attempt in job.attempts
    )


def _new_after(scheduler: Scheduler, job: Job, spec: JobSpec) -> tuple[JobId, ...]:
    (after,) = resolve(scheduler.book, [spec], job.id)
    if _waits_for(scheduler, after, job.id):
        raise Refusal(f"#{job.id} cannot wait for a job that waits for it")
    return after


def _waits_for(scheduler: Scheduler, jobs: tuple[JobId, ...], wanted: JobId) -> bool:
    visited: set[JobId] = set()
    to_see = list(jobs)
    while to_see:
        job = to_see.pop()
        if job == wanted:
            return True
        if job not in visited:
            visited.add(job)
            to_see += scheduler.book[job].after
    return False


def remove_waiting(scheduler: Scheduler, job: Job, event: Remove, now: float) -> list[Instruction]:
    scheduler.finish(job, Killed(), now, "removed by the user before it started")
    return remove_ended(scheduler, scheduler.book[job.id], event, now)


def remove_ended(scheduler: Scheduler, job: Job, event: Remove, now: float) -> list[Instruction]:
    scheduler.change(job, now, "removed from the list by the user", keep=True, archived=True)
    return []


# ---- What people ask of the scheduler as a whole ----


def pause_as_asked(scheduler: Scheduler, kind: PauseKind, now: float) -> None:
    if kind is PauseKind.CRASHES:
        raise Refusal("only the scheduler itself pauses because of crashes")
    crashes = scheduler.breaker.pause
    tries = crashes is not None and not crashes.stopped
    if scheduler.mode is Mode.PAUSED and kind is PauseKind.USER and not tries:
        raise Refusal("the scheduler is paused already")
    _pause(scheduler, cause_of(kind, now))


def _pause(scheduler: Scheduler, cause: Cause) -> None:
    """Crashes stay the cause, and nothing is tried any more."""
    breaker_rules.halt(scheduler, left=cause.kind in LEFT_ON_PURPOSE)
    if scheduler.breaker.pause is None:
        scheduler.wanted_mode, scheduler.wanted_cause = Mode.PAUSED, cause


def drain(scheduler: Scheduler, now: float) -> None:
    cause = scheduler.cause
    if scheduler.mode is Mode.RUNNING or (cause is not None and cause.kind is PauseKind.USER):
        breaker_rules.halt(scheduler, left=True)
        scheduler.wanted_mode, scheduler.wanted_cause = Mode.DRAINING, None
    elif scheduler.mode is Mode.PAUSED:
        _pause(scheduler, cause_of(PauseKind.DRAINED, now))
    check_drained(scheduler, now)


def check_drained(scheduler: Scheduler, now: float) -> None:
    if scheduler.mode is Mode.DRAINING and not scheduler.book.active:
        _pause(scheduler, cause_of(PauseKind.DRAINED, now))
