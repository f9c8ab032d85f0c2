"""Handlers for users' commands on jobs and on the scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict, replace

from . import breaker, events
from . import job as states
from .amounts import counted
from .events import Cause, Instruction, Mode, PauseKind, Refusal
from .job import HIGHEST_PRIORITY, LOWEST_PRIORITY, URGENT_PRIORITY, End, Job, JobId, JobSpec, Purpose, predicate
from .policies import learn
from .queue_order import resolve, satisfied, unblocked_state, waiting_state
from .state import SchedulerState

# Common steps


def settle(scheduler: SchedulerState, job: Job, now: float, text: str, *, keep: bool = True, **changes: object) -> None:
    """Put a job into the waiting state that fits its dependencies and start time, or skip the job."""
    state = waiting_state(scheduler.book, replace(job, **changes), now)
    if isinstance(state, states.Skipped):
        finish(scheduler, job, state, now, f"skipped because #{state.because} did not succeed", **changes)
    else:
        scheduler.change(job, now, text, keep=keep, state=state, **changes)


def finish(scheduler: SchedulerState, job: Job, end: End, now: float, text: str, **changes: Any) -> None:
    """End a job for good, and then queue or skip the jobs that depend on it."""
    _end(scheduler, job, end, now, text, **changes)
    book, ended = scheduler.book, [job.id]
    while ended:
        earlier = ended.pop()
        for dependent_id in book.dependents.get(earlier, ()):
            dependent = book[dependent_id]
            if not isinstance(dependent.state, states.Blocked):
                continue
            if not satisfied(book, dependent, earlier):
                _end(scheduler, dependent, states.Skipped(earlier), now, f"skipped because #{earlier} did not succeed")
                ended.append(dependent_id)
                continue
            unmet = book.unmet[dependent_id]
            unmet.discard(earlier)
            if not unmet:
                state = waiting_state(book, dependent, now)
                scheduler.change(dependent, now, state.name, state=state)


def _end(scheduler: SchedulerState, job: Job, end: End, now: float, text: str, **changes: Any) -> None:
    finished = scheduler.change(job, now, text, keep="attempts" not in changes, state=end, **changes)
    scheduler.note_success(finished)
    learn(scheduler, finished, now)
    breaker.ended(scheduler, finished, end, now)


def stop(
    scheduler: SchedulerState, job: Job, now: float, purpose: Purpose, *, at_once: bool = False, why: str = ""
) -> list[Instruction]:
    """Stop an active attempt, with no grace period if `at_once` is set."""
    state = job.state
    assert isinstance(state, states.Starting | states.Running | states.Suspended)
    pid = None if isinstance(state, states.Starting) else state.pid
    grace = 0.0 if at_once else scheduler.settings.grace
    stopping = states.Stopping(state.placed, pid, purpose, now + grace, hard=at_once)
    reasons = {
        Purpose.KILL: "killed by the user",
        Purpose.REQUEUE: "requeued by the user",
        Purpose.PREEMPT: "preempted by an urgent job",
        Purpose.HANG: f"hung, stopped: no activity for {job.spec.hang_after:g} s",
        Purpose.TIMEOUT: f"timed out after {job.spec.timeout or 0:g} s",
    }
    scheduler.change(job, now, why or reasons[purpose], keep=True, state=stopping)
    order = events.KillTree if at_once else events.Terminate
    return [order(job.id, state.placed.attempt)]


def withdrawals(scheduler: SchedulerState, jobs: Iterable[Job] | None = None) -> list[Instruction]:
    """Return instructions to withdraw jobs that may not start from a cluster's queue.

    Users can then edit these jobs.
    """
    if jobs is None:
        jobs = [scheduler.book[job_id] for job_id in sorted(scheduler.book.active)]
    return [events.Withdraw(job.id, job.issued) for job in jobs if job.submitted and not _may_start(scheduler, job)]


def _may_start(scheduler: SchedulerState, job: Job) -> bool:
    """Return whether no hold or pause keeps a submitted job from starting. Pauses after errors do not affect probes."""
    if isinstance(job.state, states.Starting) and job.state.hold:
        return False
    is_paused = scheduler.breaker.scope_pausing(job.spec.group) is not None
    is_probe = scheduler.breaker.scope_probing(job.id) is not None
    return scheduler.wanted_mode is Mode.RUNNING and (is_probe or not is_paused)


# Adding and editing jobs


def add_jobs(scheduler: SchedulerState, event: events.AddJobs, now: float) -> None:
    """Add all jobs, or refuse and add none if any spec is invalid."""
    keys: set[str] = set()
    for spec in event.specs:
        _check(scheduler, spec)
        if spec.key is not None:
            _check_new_key(scheduler, spec.key, keys)
    first = scheduler.book.next_id
    waits = resolve(scheduler.book, event.specs, first)
    held, queued = states.Held(), states.Queued(now)
    jobs = [
        Job(first + offset, spec, now, spec.priority, scheduler.next_position + offset, state, after)
        for offset, (spec, after) in enumerate(zip(event.specs, waits, strict=True))
        for state in [held if spec.hold or after else unblocked_state(spec, queued)]
    ]
    scheduler.next_position += len(jobs)
    scheduler.book.extend(jobs)
    for job in jobs:
        if job.after and not job.spec.hold:
            settle(scheduler, job, now, "added", keep=False)


def _check_new_key(scheduler: SchedulerState, key: str, others: set[str]) -> None:
    """Raise Refusal if no job may be added with this key. `others` are the keys of the same batch."""
    if key in scheduler.book.revoked:
        raise Refusal(revoked_sentence(key))
    if key in scheduler.book.keys:
        raise Refusal(f"key {key!r} is already used by #{scheduler.book.keys[key]}; use another key")
    if key in others:
        raise Refusal(f"key {key!r} is used for two jobs; use another key for one of them")
    others.add(key)


def revoked_sentence(key: str) -> str:
    return f"key {key!r} was revoked, so no job is added with it; use another key"


def revoke_key(scheduler: SchedulerState, key: str, now: float) -> None:
    """Refuse the key from now on, and remove its job if that has not run. Revoking a key twice is not an error."""
    book = scheduler.book
    if key in book.revoked:
        return
    job = book[book.keys[key]] if key in book.keys else None
    if job is not None:
        if job.archived:
            raise Refusal(f"key {key!r} cannot be revoked: #{job.id} was removed by the user")
        if not isinstance(job.state, states.Waiting):
            raise Refusal(f"key {key!r} cannot be revoked: #{job.id} {predicate(job.state.name)}")
        if job.attempts:
            raise Refusal(f"key {key!r} cannot be revoked: #{job.id} has already run")
        finish(scheduler, job, states.Killed(), now, "key revoked by the user before it started")
        scheduler.change(book[job.id], now, "removed", archived=True)
    book.revoke(key)


def edit(scheduler: SchedulerState, job: Job, event: events.Edit, now: float) -> None:
    """Replace the job's spec, and update whatever depends on the settings that changed.

    If the user has set a priority separately, it is kept unless the edit changes the priority. A job keeps its key.
    """
    spec = event.spec
    _check(scheduler, spec)
    if spec.key not in (None, job.spec.key):
        raise Refusal(f"#{job.id}: a key cannot be changed once the job has been added")
    spec = replace(spec, key=job.spec.key)
    changes: dict[str, Any] = {"spec": spec}
    if spec.key is not None and job.added_as is None:
        changes["added_as"] = job.spec
    if spec.priority != job.spec.priority:
        changes["priority"] = spec.priority
    if spec.after != job.spec.after:
        (changes["after"],) = resolve(scheduler.book, [spec], job.id)
    if (spec.request, spec.on_oom) != (job.spec.request, job.spec.on_oom):
        changes["after_oom"] = None
    if spec.command != job.spec.command and job.attempts:
        changes["attempts"] = tuple(
            replace(attempt, command=job.spec.command) if attempt.command is None else attempt
            for attempt in job.attempts
        )
    if isinstance(job.state, states.Held):
        scheduler.change(job, now, "edited by the user", keep=True, **changes)
    else:
        settle(scheduler, job, now, "edited by the user", **changes)


def _check(scheduler: SchedulerState, spec: JobSpec) -> None:
    _check_priority(spec.priority)
    texts = (
        spec.command, spec.cwd, spec.shell, spec.outfile or "", spec.name or "", spec.group, spec.wrap, spec.task,
        spec.key or "",
    )  # fmt: skip
    if "\0" in "".join((*texts, *spec.variables, *spec.variables.values(), *spec.request.devices)):
        raise Refusal("commands, paths and names cannot contain NUL")
    if spec.retries < 0:
        raise Refusal(f"invalid retries {spec.retries}: use 0 or more")
    if spec.timeout is not None and not spec.timeout > 0:
        raise Refusal(f"invalid timeout {spec.timeout:g}: use more than 0 seconds")
    if not 0 <= spec.hang_after < float("inf"):
        raise Refusal(f"invalid hang_after {spec.hang_after:g}: use seconds, or 0 for never")
    if spec.preempt and spec.priority < URGENT_PRIORITY:
        raise Refusal(f"preempt needs priority {URGENT_PRIORITY} or higher, not {spec.priority}")
    if spec.request.gpus is not None and spec.request.gpus < 0:
        raise Refusal(f"invalid number of GPUs {spec.request.gpus}: use 0 or more")
    if why := scheduler.board.not_on_cluster(spec.request):
        devices, gpus = spec.request.devices, spec.request.gpus or 0
        what = f"GPU {', '.join(devices)}" if devices else counted(gpus, "GPU", "GPUs")
        raise Refusal(f"job requests {what}: {why}")


def _check_priority(priority: int) -> None:
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise Refusal(f"invalid priority {priority}: use {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}")


# Commands on one job


def hold(scheduler: SchedulerState, job: Job, event: events.Hold, now: float) -> None:
    scheduler.change(job, now, "held by the user", keep=True, state=states.Held())


def hold_submitted(scheduler: SchedulerState, job: Job, event: events.Hold, now: float) -> list[Instruction]:
    """Withdraw the job from the cluster's queue before holding it. If it starts in the meantime, it keeps running."""
    assert isinstance(job.state, states.Starting)
    if not job.submitted:
        raise Refusal(f"#{job.id} is starting: only a waiting job can be held; suspend or requeue it when it runs")
    text = "held by the user: withdrawing it from Slurm's queue"
    held = scheduler.change(job, now, text, keep=True, state=replace(job.state, hold=True))
    return withdrawals(scheduler, (held,))


def release(scheduler: SchedulerState, job: Job, event: events.Release, now: float) -> None:
    settle(scheduler, job, now, "released by the user")


def kill_waiting(scheduler: SchedulerState, job: Job, event: events.Kill, now: float) -> None:
    finish(scheduler, job, states.Killed(), now, "killed by the user before it started")


def kill_active(scheduler: SchedulerState, job: Job, event: events.Kill, now: float) -> list[Instruction]:
    return stop(scheduler, job, now, Purpose.KILL, at_once=event.now)


def kill_stopping(scheduler: SchedulerState, job: Job, event: events.Kill, now: float) -> list[Instruction]:
    """Kill a job that is already being stopped, even if it was to be requeued. With `now`, end its grace period."""
    state = job.state
    assert isinstance(state, states.Stopping)
    hard = state.hard or event.now
    text = "killed by the user" + (" (SIGKILL)" if event.now else "")
    scheduler.change(job, now, text, keep=True, state=replace(state, purpose=Purpose.KILL, hard=hard))
    return [events.KillTree(job.id, state.placed.attempt)] if hard and not state.hard else []


def requeue(scheduler: SchedulerState, job: Job, event: events.Requeue, now: float) -> list[Instruction]:
    return stop(scheduler, job, now, Purpose.REQUEUE)


def suspend(scheduler: SchedulerState, job: Job, event: events.Suspend, now: float) -> list[Instruction]:
    state = job.state
    assert isinstance(state, states.Running)
    suspended = states.Suspended(state.placed, state.pid, now, state.suspended_for)
    scheduler.change(job, now, "suspended by the user", keep=True, state=suspended)
    return [events.SuspendTree(job.id, state.placed.attempt)]


def continue_(scheduler: SchedulerState, job: Job, event: events.Continue, now: float) -> list[Instruction]:
    state = job.state
    assert isinstance(state, states.Suspended)
    running = states.Running(state.placed, state.pid, state.suspended_for + max(0.0, now - state.since))
    scheduler.change(job, now, "continued by the user", keep=True, state=running)
    return [events.ContinueTree(job.id, state.placed.attempt)]


def rerun(scheduler: SchedulerState, job: Job, event: events.Rerun, now: float) -> None:
    """Queue a new attempt. Dependent jobs that were skipped or have not started wait for the job again."""
    if job.spec.terminal is not None:
        raise Refusal(f"#{job.id} was interactive; start it again with gputui exec")
    in_the_way = waiting_state(scheduler.book, job, now)
    if isinstance(in_the_way, states.Skipped):
        raise Refusal(f"#{job.id} would be skipped again: #{in_the_way.because} did not succeed; rerun that first")
    spec = job.spec if event.environment is None else replace(job.spec, environment=event.environment)
    settle(scheduler, job, now, "rerun by the user", spec=spec, failures=0, after_oom=None)
    breaker.rerun(scheduler, job, now)
    to_revive = [job.id]
    while to_revive:
        earlier = to_revive.pop()
        for dependent_id in scheduler.book.dependents.get(earlier, ()):
            if _revive(scheduler, scheduler.book[dependent_id], earlier, now):
                to_revive.append(dependent_id)


def _revive(scheduler: SchedulerState, dependent: Job, earlier: JobId, now: float) -> bool:
    """Make a dependent job wait again. Return whether the jobs that depend on it must wait again, too."""
    match dependent.state:
        case states.Blocked():
            scheduler.book.unmet[dependent.id].add(earlier)
        case states.Queued() | states.Delayed():
            settle(scheduler, dependent, now, f"waiting for the rerun of #{earlier}")
        case states.Skipped(because=because) if not dependent.archived:
            in_the_way = scheduler.book[because]
            if isinstance(in_the_way.state, states.Ended) and not satisfied(scheduler.book, dependent, because):
                return False
            settle(scheduler, dependent, now, f"waiting again: #{earlier} was rerun", failures=0)
            return isinstance(scheduler.book[dependent.id].state, states.Blocked)
    return False


def set_priority(scheduler: SchedulerState, job: Job, event: events.SetPriority, now: float) -> None:
    _check_priority(event.priority)
    text = f"priority {job.priority} → {event.priority} by the user"
    scheduler.change(job, now, text, keep=True, priority=event.priority)


def notify(scheduler: SchedulerState, job: Job, event: events.Notify, now: float) -> None:
    text = "notification turned on by the user" if event.wanted else "notification turned off by the user"
    scheduler.change(job, now, text, keep=True, notify=event.wanted)


def remove_waiting(scheduler: SchedulerState, job: Job, event: events.Remove, now: float) -> None:
    finish(scheduler, job, states.Killed(), now, "removed by the user before it started")
    remove_ended(scheduler, scheduler.book[job.id], event, now)


def remove_ended(scheduler: SchedulerState, job: Job, event: events.Remove, now: float) -> None:
    scheduler.change(job, now, "removed by the user", keep=True, archived=True)


# Commands on the scheduler


def pause(scheduler: SchedulerState, kind: PauseKind, now: float) -> list[Instruction]:
    """Pause the scheduler. A stop also requeues all running jobs, and an interrupt kills them.

    All of this is one event, so that no owner ever finds a stopped session with jobs that keep running.
    """
    if kind is PauseKind.CRASHES:
        raise Refusal("only the scheduler itself pauses after errors")
    errors = scheduler.breaker.pause
    probes = errors is not None and not errors.stopped
    if scheduler.mode is Mode.PAUSED and kind is PauseKind.USER and not probes:
        raise Refusal("the scheduler is already paused")
    _pause(scheduler, events.cause_of(kind, now))
    if kind not in (PauseKind.STOPPED, PauseKind.INTERRUPTED):
        return []
    instructions = withdrawals(scheduler)
    for job in [scheduler.book[job_id] for job_id in sorted(scheduler.book.active)]:
        if not isinstance(job.state, states.Stopping):
            requeue_it = kind is PauseKind.STOPPED
            purpose = Purpose.REQUEUE if requeue_it else Purpose.KILL
            why = "session stopped by the user" if requeue_it else "session interrupted by the user"
            instructions += stop(scheduler, job, now, purpose, why=why)
        elif kind is PauseKind.INTERRUPTED:
            instructions += kill_stopping(scheduler, job, events.Kill(job=job.id), now)
    return instructions


def _pause(scheduler: SchedulerState, cause: Cause) -> None:
    """Pause the scheduler, and start no more probes. If errors have already paused all jobs, keep that cause."""
    breaker.halt(scheduler, left=cause.kind in events.LEFT_ON_PURPOSE)
    if scheduler.breaker.pause is None:
        scheduler.wanted_mode, scheduler.wanted_cause = Mode.PAUSED, cause


def drain(scheduler: SchedulerState, now: float) -> None:
    cause = scheduler.cause
    if scheduler.mode is Mode.RUNNING or (cause is not None and cause.kind is PauseKind.USER):
        breaker.halt(scheduler, left=True)
        scheduler.wanted_mode, scheduler.wanted_cause = Mode.DRAINING, None
    elif scheduler.mode is Mode.PAUSED:
        _pause(scheduler, events.cause_of(PauseKind.DRAINED, now))
    check_drained(scheduler, now)


def check_drained(scheduler: SchedulerState, now: float) -> None:
    """Change from draining to paused once the last attempt has ended."""
    if scheduler.mode is Mode.DRAINING and not scheduler.book.active:
        _pause(scheduler, events.cause_of(PauseKind.DRAINED, now))


def set_settings(scheduler: SchedulerState, settings: events.Settings, now: float) -> None:
    for name, value in asdict(settings).items():
        if isinstance(value, int | float) and value < 0:
            raise Refusal(f"invalid {name} {value:g}: use 0 or more")
    before, scheduler.settings = scheduler.settings, settings
    if settings.probe != before.probe:
        breaker.probe_setting_changed(scheduler, now)
