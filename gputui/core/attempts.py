"""Handlers for an engine's reports on attempts: submitted, started, still running, silent, ended."""

from __future__ import annotations

import signal
from typing import Any

from msgspec.structs import replace

from . import breaker, events, policies
from . import job as states
from .amounts import duration_words
from .commands import check_drained, finish, settle, stop, withdrawals
from .events import AttemptEnded, Instruction, Outcome, Spawned
from .job import Attempt, End, Job, OnHang, Placed, Purpose, describe_end
from .state import SchedulerState

NO_ROOM_DELAY = 5.0
"""Seconds to wait before another start after the machine had too few resources to start a job."""


HUNG_UP = "hung up: its terminal is gone"


def submitted(scheduler: SchedulerState, job: Job, event: events.Submitted, now: float) -> list[Instruction]:
    """Note why the attempt is waiting in a cluster's queue. Nothing is stored."""
    if scheduler.submitted.get(job.id) != event:
        scheduler.submitted[job.id] = event
        scheduler.book.changed.add(job.id)
    return [] if isinstance(job.state, states.Stopping) else withdrawals(scheduler, (job,))


def remarked(scheduler: SchedulerState, job: Job, event: events.Remark, now: float) -> None:
    """Note something unusual about a running attempt. Nothing is stored."""
    if scheduler.remarks.get(job.id, "") != event.text:
        scheduler.remarks[job.id] = event.text
        scheduler.book.changed.add(job.id)


def spawned(scheduler: SchedulerState, job: Job, event: Spawned, now: float) -> list[Instruction]:
    assert isinstance(job.state, states.Starting)
    scheduler.submitted.pop(job.id, None)
    placed = _with_start(job.state.placed, event, now)
    running = scheduler.change(job, now, "running", state=states.Running(placed, event.pid))
    return stop(scheduler, running, now, event.requested) if event.requested is not None else []


def _with_start(placed: Placed, report: events.StartReport, now: float) -> Placed:
    """Return the attempt with the facts from its start report. Its start time may come from a clock ahead of `now`."""
    since = placed.since if report.started is None else min(report.started, now)
    gpus = placed.gpus if report.gpus is None else report.gpus
    return replace(placed, since=since, gpus=gpus, slurm_job=report.slurm_job or placed.slurm_job)


def seen_alive(scheduler: SchedulerState, job: Job, event: Spawned, now: float) -> list[Instruction]:
    """Handle the report that an attempt still runs after a restart. If it was being stopped, continue to stop it."""
    state = job.state
    assert isinstance(state, states.Running | states.Suspended | states.Stopping)
    scheduler.submitted.pop(job.id, None)
    state = replace(state, placed=_with_start(state.placed, event, now))
    if isinstance(state, states.Stopping):
        state = replace(state, purpose=_final_purpose(state, event.requested))
    if state != job.state or state.pid != event.pid:
        scheduler.change(job, now, "found running", state=replace(state, pid=event.pid))
    if isinstance(state, states.Stopping) and event.adopted:
        return [(events.KillTree if state.hard else events.Terminate)(job.id, state.placed.attempt)]
    if event.requested is not None and not isinstance(state, states.Stopping):
        return stop(scheduler, scheduler.book[job.id], now, event.requested)
    return []


def ignore_outdated(scheduler: SchedulerState, job: Job, event: events.Submitted | events.Silence, now: float) -> None:
    """Ignore a report on an earlier state. Queues, logs and devices are polled, so reports can arrive late."""


def silent(scheduler: SchedulerState, job: Job, event: events.Silence, now: float) -> list[Instruction]:
    """Mark a job as hung or as active again. Stop a hung job if its settings say so."""
    state = job.state
    assert isinstance(state, states.Running)
    if event.since is None or not policies.is_hung(job.spec, now - event.since):
        if state.silent_since is not None and event.since is None:
            text = f"active again after {duration_words(now - state.silent_since)} of silence"
            scheduler.change(job, now, text, keep=True, state=replace(state, silent_since=None))
        return []
    if state.silent_since is None:
        text = f"no output or activity for {duration_words(now - event.since)}"
        job = scheduler.change(job, now, text, keep=True, state=replace(state, silent_since=event.since))
    if job.spec.on_hang is OnHang.NOTIFY or not event.may_end:
        return []
    return stop(scheduler, job, now, Purpose.HANG)


def ended(scheduler: SchedulerState, job: Job, event: AttemptEnded, now: float) -> None:
    state = job.state
    assert isinstance(state, states.Active)
    scheduler.free(job)
    scope = scheduler.breaker.scope_probing(job.id)
    purpose = _final_purpose(state, event.requested)
    if event.by_itself and (purpose is not Purpose.KILL or event.outcome == events.Exited(0)):
        # The attempt ended before it could be stopped. If it failed, it is still not retried after a kill order.
        purpose = None
    if purpose is not None:
        _ended_as_asked(scheduler, job, purpose, event, now)
    elif isinstance(event.outcome, events.NeverRan) and isinstance(state, states.Starting) and state.hold:
        scheduler.change(job, now, "held by the user", keep=True, state=states.Held())
    elif isinstance(event.outcome, events.NeverRan):
        settle(scheduler, job, now, "attempt revoked before it started")
    elif isinstance(event.outcome, events.NoRoom):
        scheduler.starts_again_at = now + NO_ROOM_DELAY
        _delay(scheduler, job, now, NO_ROOM_DELAY, event.outcome.why)
    else:
        _ended_by_itself(scheduler, job, event, _end_of(event.outcome), now)
    if scope is not None:
        breaker.probe_ended(scheduler, scope, event, now)
    for leftover in event.left:
        scheduler.record_history(job.id, now, leftover.words, keep=True)
    check_drained(scheduler, now)


def _final_purpose(state: states.Active, requested: Purpose | None) -> Purpose | None:
    """Return why the attempt was being stopped, or None if it was not. A kill takes precedence."""
    stopping_for = state.purpose if isinstance(state, states.Stopping) else None
    return Purpose.KILL if Purpose.KILL in (stopping_for, requested) else stopping_for or requested


def _end_of(outcome: Outcome) -> End:
    match outcome:
        case events.Exited(code=0):
            return states.Succeeded()
        case events.Exited(code=code):
            return states.Failed(code)
        case events.Vanished(why=why) | events.NodeFailed(why=why):
            return states.Lost(why)
        case events.NotStarted(why=why):
            return states.Refused(why)
    raise AssertionError(outcome)


def _ended_as_asked(scheduler: SchedulerState, job: Job, purpose: Purpose, event: AttemptEnded, now: float) -> None:
    has_run = not isinstance(event.outcome, events.NeverRan | events.NoRoom)
    attempts = _with_attempt(job, event, states.Killed(), now) if has_run else job.attempts
    if purpose is Purpose.KILL:
        finish(scheduler, job, states.Killed(), now, "killed", attempts=attempts)
    elif purpose is Purpose.TIMEOUT and has_run:
        _ended_by_itself(scheduler, job, event, states.TimedOut(job.spec.timeout or 0.0), now)
    elif purpose is Purpose.HANG and has_run:
        _ended_by_itself(scheduler, job, event, states.TimedOut(job.spec.hang_after, silent=True), now)
    elif event.left:
        # If the job were requeued, it would run twice at the same time.
        held = states.Held(f"{event.left[0].words}; kill it, then release the job")
        scheduler.change(job, now, "held: previous attempt still running", keep=True, state=held, attempts=attempts)
    else:
        settle(scheduler, job, now, "requeued", attempts=attempts)


def _ended_by_itself(scheduler: SchedulerState, job: Job, event: AttemptEnded, end: End, now: float) -> None:
    attempts = _with_attempt(job, event, end, now)
    after_oom = policies.after_oom(scheduler, job, end, event)
    retry = policies.retry(job, end, event)
    if after_oom is not None:
        where = "on a larger GPU" if after_oom.larger_than is not None else "alone on its GPU"
        text = f"GPU out of memory: retrying once, {where}"
        settle(scheduler, job, now, text, attempts=attempts, after_oom=after_oom)
    elif retry is not None:
        seconds, why = retry
        _delay(scheduler, job, now, seconds, why, failures=job.failures + 1, attempts=attempts)
    else:
        hung_up = job.spec.terminal is not None and end == states.Failed(128 + signal.SIGHUP)
        finish(scheduler, job, end, now, HUNG_UP if hung_up else end.name, attempts=attempts)


def _delay(scheduler: SchedulerState, job: Job, now: float, seconds: float, why: str, **changes: Any) -> None:
    scheduler.change(job, now, f"waiting: {why}", keep=True, state=states.Delayed(now + seconds, why), **changes)


def _with_attempt(job: Job, event: AttemptEnded, end: End, now: float) -> tuple[Attempt, ...]:
    assert job.active is not None
    placed, failed = _with_start(job.active, event, now), isinstance(end, states.Failed)
    signature = (event.signature if failed else None) or describe_end(end)
    attempt = Attempt(
        number=placed.attempt,
        gpus=placed.gpus,
        started=placed.since,
        ended=max(min(event.at, now), placed.since),  # the clock used for the report may have been set since
        end=end,
        exit_code=event.outcome.code if isinstance(event.outcome, events.Exited) else None,
        signature=None if isinstance(end, states.Succeeded | states.Killed) else signature,
        environment=placed.environment,
        pid=getattr(job.state, "pid", None),
        usage=event.usage,
        message=event.message if event.message != event.signature and failed else None,
        kind=event.kind if failed else None,
        left=event.left,
        engine=placed.engine,
        slurm_job=placed.slurm_job,
        slots=placed.slots,
    )
    return (*job.attempts, attempt)
