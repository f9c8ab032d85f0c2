"""What an engine's reports make of a job: its attempt has started, is alive, or has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from . import breaker_rules, commands, policies
from .commands import check_drained
from .events import (
    AttemptEnded,
    Exited,
    Instruction,
    KillTree,
    NeverRan,
    NodeFailed,
    NoRoom,
    NotStarted,
    Outcome,
    Silence,
    Spawned,
    Submitted,
    Terminate,
    Vanished,
    words,
)
from .job import (
    Active,
    Attempt,
    Crashed,
    End,
    Failed,
    Held,
    Job,
    Killed,
    Lost,
    Placed,
    Purpose,
    Refused,
    Running,
    Starting,
    Stopping,
    Succeeded,
    Suspended,
    TimedOut,
)

if TYPE_CHECKING:
    from .scheduler import Scheduler


NO_ROOM_DELAY = 5.0


def spawned(scheduler: Scheduler, job: Job, event: Spawned, now: float) -> list[Instruction]:
    assert isinstance(job.state, Starting)
    scheduler.submitted.pop(job.id, None)
    running = scheduler.change(job, now, "running", state=Running(_begun(job.state.placed, event, now), event.pid))
    return commands.stop(scheduler, running, now, event.asked) if event.asked is not None else []


def _begun(placed: Placed, report: Spawned | AttemptEnded, now: float) -> Placed:
    """With what is known only since it has begun; the clock of another machine may be ahead of ours."""
    since = placed.since if report.started is None else min(report.started, now)
    gpus = placed.gpus if report.gpus is None else report.gpus
    return replace(placed, since=since, gpus=gpus, slurm_job=report.slurm_job or placed.slurm_job)


def seen_alive(scheduler: Scheduler, job: Job, event: Spawned, now: float) -> list[Instruction]:
    """A new owner found it alive: nothing changes but, if an earlier owner was stopping it, that goes on."""
    state = job.state
    assert isinstance(state, Running | Suspended | Stopping)
    scheduler.submitted.pop(job.id, None)
    state = replace(state, placed=_begun(state.placed, event, now))
    if isinstance(state, Stopping):
        state = replace(state, purpose=_final_purpose(state, event.asked))
    if state != job.state or state.pid != event.pid:
        scheduler.change(job, now, "seen alive", state=replace(state, pid=event.pid))
    if isinstance(state, Stopping) and event.adopted:
        return [(KillTree if state.hard else Terminate)(job.id, state.placed.attempt)]
    if event.asked is not None and not isinstance(state, Stopping):
        return commands.stop(scheduler, scheduler.book[job.id], now, event.asked)
    return []


def late(scheduler: Scheduler, job: Job, event: Submitted | Silence, now: float) -> list[Instruction]:
    """Queues, logs and devices are looked at now and then: it has begun, or is dealt with, meanwhile."""
    return []


def ended(scheduler: Scheduler, job: Job, event: AttemptEnded, now: float) -> list[Instruction]:
    state = job.state
    assert isinstance(state, Active)
    scheduler.free(job)
    scope = scheduler.breaker.trying(job.id)
    purpose = _final_purpose(state, event.asked)
    if event.by_itself and (purpose is not Purpose.KILL or event.outcome == Exited(0)):
        # What was asked came too late. But a job that was to be killed is not retried, whatever it failed of.
        purpose = None
    if purpose is not None:
        _ended_as_asked(scheduler, job, purpose, event, now)
    elif isinstance(event.outcome, NeverRan) and isinstance(state, Starting) and state.hold:
        scheduler.change(job, now, "held by the user", keep=True, state=Held())
    elif isinstance(event.outcome, NeverRan):
        commands.settle(scheduler, job, now, "its attempt was revoked before it ran")
    elif isinstance(event.outcome, NoRoom):
        scheduler.starts_again_at = now + NO_ROOM_DELAY
        scheduler.delay(job, now, NO_ROOM_DELAY, event.outcome.why)
    else:
        _ended_by_itself(scheduler, job, event, _end_of(event.outcome), now)
    if scope is not None:
        breaker_rules.probe_ended(scheduler, scope, event, now)
    for leftover in event.left:
        scheduler.tell(job.id, now, leftover.words, keep=True)
    check_drained(scheduler, now)
    return []


def _final_purpose(state: Active, asked: Purpose | None) -> Purpose | None:
    """What it was being ended for; whatever else had been asked, a kill was asked last."""
    stopping_for = state.purpose if isinstance(state, Stopping) else None
    return Purpose.KILL if Purpose.KILL in (stopping_for, asked) else stopping_for or asked


def _end_of(outcome: Outcome) -> End:
    match outcome:
        case Exited(code=0):
            return Succeeded()
        case Exited(code=code):
            return Crashed(code - 128) if 129 <= code <= 192 else Failed(code)
        case Vanished(why=why) | NodeFailed(why=why):
            return Lost(why)
        case NotStarted(why=why):
            return Refused(why)
    raise AssertionError(outcome)


def _ended_as_asked(scheduler: Scheduler, job: Job, purpose: Purpose, event: AttemptEnded, now: float) -> None:
    ran = not isinstance(event.outcome, NeverRan | NoRoom)
    attempts = _with_attempt(job, event, Killed(), now) if ran else job.attempts
    if purpose is Purpose.KILL:
        scheduler.finish(job, Killed(), now, "killed", attempts=attempts)
    elif purpose is Purpose.TIMEOUT and ran:
        _ended_by_itself(scheduler, job, event, TimedOut(job.spec.timeout or 0.0), now)
    elif purpose is Purpose.HANG and ran:
        _ended_by_itself(scheduler, job, event, TimedOut(job.spec.hang_after, silent=True), now)
    elif event.left:
        # What lives on would have a second copy beside it.
        held = Held(f"{event.left[0].words}; end it, then release the job")
        scheduler.change(job, now, "held: the attempt before lives on", keep=True, state=held, attempts=attempts)
    else:
        commands.settle(scheduler, job, now, "waits again", attempts=attempts)


def _ended_by_itself(scheduler: Scheduler, job: Job, event: AttemptEnded, end: End, now: float) -> None:
    attempts = _with_attempt(job, event, end, now)
    after_oom = policies.after_oom(scheduler, job, end, event)
    retry = policies.retry(job, end, event)
    if after_oom is not None:
        commands.settle(scheduler, job, now, policies.told(after_oom), attempts=attempts, after_oom=after_oom)
    elif retry is not None:
        scheduler.delay(job, now, retry.seconds, retry.why, failures=job.failures + 1, attempts=attempts)
    else:
        scheduler.finish(job, end, now, end.name, attempts=attempts)


def _with_attempt(job: Job, event: AttemptEnded, end: End, now: float) -> tuple[Attempt, ...]:
    assert job.active is not None
    placed = _begun(job.active, event, now)
    attempt = Attempt(
        number=placed.attempt,
        gpus=placed.gpus,
        started=placed.since,
        ended=max(min(event.at, now), placed.since),  # it may be known by a clock that was set since
        end=end,
        exit_code=event.outcome.code if isinstance(event.outcome, Exited) else None,
        signature=_signature(event, end),
        environment=placed.environment,
        pid=getattr(job.state, "pid", None),
        usage=event.usage,
        message=event.message if event.message != event.signature and isinstance(end, Failed | Crashed) else None,
        kind=event.kind if isinstance(end, Failed | Crashed) else None,
        left=event.left,
        engine=placed.engine,
        slurm_job=placed.slurm_job,
        lanes=placed.lanes,
    )
    return (*job.attempts, attempt)


def _signature(event: AttemptEnded, end: End) -> str | None:
    match end:
        case Failed() | Crashed():
            return event.signature or words(end)
        case TimedOut() | Refused() | Lost():
            return words(end)
    return None
