"""The table of transitions: what may happen to a job in which state, and who answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from . import attempts, breaker_rules, cluster, commands, policies, queue_order
from .book import due
from .events import (
    AttemptEnded,
    Continue,
    Edit,
    EngineReport,
    Event,
    Hold,
    IllegalTransition,
    Instruction,
    JobCommand,
    Kill,
    KillTree,
    Move,
    Notify,
    Refusal,
    Release,
    Remark,
    Remove,
    Requeue,
    Rerun,
    SetPriority,
    Silence,
    Spawned,
    Submitted,
    Suspend,
)
from .job import (
    Blocked,
    Crashed,
    Delayed,
    Failed,
    Held,
    Job,
    Killed,
    Lost,
    Purpose,
    Queued,
    Refused,
    Running,
    Skipped,
    Starting,
    Stopping,
    Succeeded,
    Suspended,
    TimedOut,
    predicate,
)

if TYPE_CHECKING:
    from .scheduler import Scheduler


Handler = Callable[["Scheduler", Job, Any, float], list[Instruction]]


def tick(scheduler: Scheduler, now: float) -> list[Instruction]:
    """All moments that have come."""
    instructions: list[Instruction] = []
    while (job_id := scheduler.book.timers.pop(now)) is not None:
        job = scheduler.book[job_id]
        when = due(job)
        if when is not None and when <= now and not job.archived:
            instructions += _moment_came(scheduler, job, now)
    breaker_rules.tick(scheduler, now)
    return instructions


def _moment_came(scheduler: Scheduler, job: Job, now: float) -> list[Instruction]:
    match job.state:
        case Delayed():
            commands.settle(scheduler, job, now, "its delay is over", keep=False)
        case Running():
            return commands.stop(scheduler, job, now, Purpose.TIMEOUT)
        case Stopping():
            hard = replace(job.state, hard=True)
            scheduler.change(job, now, "grace is over", keep=True, state=hard)
            return [KillTree(job.id, job.state.placed.attempt)]
    return []


WAITING = (Queued, Held, Blocked, Delayed)
ACTIVE = (Starting, Running, Suspended, Stopping)
ENDS = (Succeeded, Failed, Crashed, Killed, TimedOut, Lost, Refused, Skipped)

TRANSITIONS: dict[tuple[type, type], Handler] = {
    **{(state, Hold): commands.hold for state in (Queued, Blocked, Delayed)},
    (Starting, Hold): commands.hold_submitted,
    (Held, Release): commands.release,
    **{(state, Kill): commands.kill_waiting for state in WAITING},
    **{(state, Kill): commands.kill_active for state in (Starting, Running, Suspended)},
    (Stopping, Kill): commands.kill_stopping,
    (Running, Suspend): commands.suspend,
    (Suspended, Continue): commands.go_on,
    **{(state, Requeue): commands.requeue for state in (Starting, Running, Suspended)},
    **{(state, Rerun): commands.rerun for state in ENDS},
    **{(state, SetPriority): commands.set_priority for state in (*WAITING, *ACTIVE, *ENDS)},
    **{(state, Move): queue_order.move for state in WAITING},
    **{(state, Edit): commands.edit for state in WAITING},
    **{(state, Notify): commands.notify for state in (*WAITING, *ACTIVE)},
    **{(state, Remove): commands.remove_waiting for state in WAITING},
    **{(state, Remove): commands.remove_ended for state in ENDS},
    **{(state, Submitted): cluster.submitted for state in (Starting, Stopping)},
    **{(state, Submitted): attempts.late for state in (Running, Suspended)},
    **{(state, Remark): cluster.remarked for state in ACTIVE},
    (Starting, Spawned): attempts.spawned,
    **{(state, Spawned): attempts.seen_alive for state in (Running, Suspended, Stopping)},
    **{(state, AttemptEnded): attempts.ended for state in ACTIVE},
    (Running, Silence): policies.heard,
    **{(state, Silence): attempts.late for state in (Starting, Suspended, Stopping)},
}

ADVICE: dict[type, str] = {
    Hold: "only a waiting job can be held; suspend or requeue a running one",
    Release: "only a held job can be released",
    Kill: "it has ended already",
    Suspend: "only a running job can be suspended",
    Continue: "only a suspended job can be continued",
    Requeue: "only a running job can be requeued; rerun one that has ended",
    Rerun: "only a job that has ended can be rerun",
    Move: "only a waiting job can be moved",
    Edit: "only a waiting job can be edited",
    Notify: "it has ended already, so there is nothing left to tell",
    Remove: "only a job that does not run can be removed; kill it first",
}


def apply(scheduler: Scheduler, event: Event, now: float) -> list[Instruction]:
    """Looks the event up in the table; users are refused with advice, engines must not err."""
    if isinstance(event, JobCommand):
        job = scheduler.check_seen(event)
        handler = TRANSITIONS.get((type(job.state), type(event)))
        if handler is None:
            raise Refusal(f"#{job.id} {predicate(job.state.name)}: {ADVICE[type(event)]}")
        return handler(scheduler, job, event, now)
    assert isinstance(event, EngineReport)
    if event.job not in scheduler.book:
        raise IllegalTransition(f"{event} cannot happen: there is no job #{event.job}")
    job = scheduler.book[event.job]
    if event.attempt < job.issued or job.active is None:
        return []  # late news of an attempt that is over
    handler = TRANSITIONS.get((type(job.state), type(event)))
    if handler is None or event.attempt > job.issued:
        story = "; ".join(f"{moment.at:.3f} {moment.text}" for moment in scheduler.story(job.id))
        raise IllegalTransition(f"{event} cannot happen to #{job.id}, {job.state.name}. Its story: {story}")
    return handler(scheduler, job, event, now)
