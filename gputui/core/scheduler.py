"""The scheduler, a pure state machine: events in, instructions out. It uses no I/O and no clock.

`TRANSITIONS` maps each pair of a job's state and an event to the function that handles it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import asdict, replace

from . import attempts, breaker, commands, events, placement, queue_order
from . import job as states
from .book import Book, due
from .breaker import Breaker, Scope
from .events import Event, IllegalTransition, Instruction, Mode, Refusal
from .job import Job, JobId, Purpose, State, predicate
from .snapshot import PausedScope, Snapshot
from .state import HistoryEntry, Record, SchedulerState

__all__ = ["ADVICE", "TRANSITIONS", "HistoryEntry", "Record", "Savepoint", "Scheduler", "Undo"]

T = TypeVar("T")

# Transitions

Handler = Callable[[SchedulerState, Job, Any, float], list[Instruction] | None]

WAITING = (states.Queued, states.Held, states.Blocked, states.Delayed)
ACTIVE = (states.Starting, states.Running, states.Suspended, states.Stopping)
ENDS: tuple[type, ...] = get_args(states.End)

TRANSITIONS: dict[tuple[type, type], Handler] = {
    **{(state, events.Hold): commands.hold for state in (states.Queued, states.Blocked, states.Delayed)},
    (states.Starting, events.Hold): commands.hold_submitted,
    (states.Held, events.Release): commands.release,
    **{(state, events.Kill): commands.kill_waiting for state in WAITING},
    **{(state, events.Kill): commands.kill_active for state in (states.Starting, states.Running, states.Suspended)},
    (states.Stopping, events.Kill): commands.kill_stopping,
    (states.Running, events.Suspend): commands.suspend,
    (states.Suspended, events.Continue): commands.continue_,
    **{(state, events.Requeue): commands.requeue for state in (states.Starting, states.Running, states.Suspended)},
    **{(state, events.Rerun): commands.rerun for state in ENDS},
    **{(state, events.SetPriority): commands.set_priority for state in (*WAITING, *ACTIVE, *ENDS)},
    **{(state, events.Move): queue_order.move for state in WAITING},
    **{(state, events.Edit): commands.edit for state in WAITING},
    **{(state, events.Notify): commands.notify for state in (*WAITING, *ACTIVE)},
    **{(state, events.Remove): commands.remove_waiting for state in WAITING},
    **{(state, events.Remove): commands.remove_ended for state in ENDS},
    **{(state, events.Submitted): attempts.submitted for state in (states.Starting, states.Stopping)},
    **{(state, events.Submitted): attempts.ignore_outdated for state in (states.Running, states.Suspended)},
    **{(state, events.Remark): attempts.remarked for state in ACTIVE},
    (states.Starting, events.Spawned): attempts.spawned,
    **{(state, events.Spawned): attempts.seen_alive for state in (states.Running, states.Suspended, states.Stopping)},
    **{(state, events.AttemptEnded): attempts.ended for state in ACTIVE},
    (states.Running, events.Silence): attempts.silent,
    **{
        (state, events.Silence): attempts.ignore_outdated
        for state in (states.Starting, states.Suspended, states.Stopping)
    },
}

ADVICE: dict[type, str] = {
    events.Hold: "only a waiting job can be held; suspend or requeue a running one",
    events.Release: "only a held job can be released",
    events.Kill: "it has already ended",
    events.Suspend: "only a running job can be suspended",
    events.Continue: "only a suspended job can be continued",
    events.Requeue: "only a running job can be requeued; use rerun once it has ended",
    events.Rerun: "only an ended job can be rerun",
    events.Move: "only a waiting job can be moved",
    events.Edit: "only a waiting job can be edited",
    events.Notify: "it has already ended",
    events.Remove: "a running job cannot be removed; kill it first",
}


class Savepoint(Struct, frozen=True):
    """The state before some commands. As an event, it takes the commands back because they could not be stored.

    Job ids and attempt numbers are not reused afterwards. Attempts that are being stopped still end.
    """

    jobs: dict[JobId, Job]
    """The jobs that have changed since the savepoint, as they were before."""
    next_id: JobId
    record: Record
    history: int
    """Number of unsaved history entries at the savepoint."""
    revoked: int
    """Number of unsaved revoked keys at the savepoint."""


class Undo(Struct, frozen=True):
    """What some commands changed. As an event, it undoes the commands for all jobs that have not changed since then."""

    before: dict[JobId, Job | None]
    """The changed jobs as they were before the commands, or None for jobs that the commands added."""
    after: dict[JobId, Job]
    """The same jobs as they were after the commands."""
    breakers: tuple[Breaker, Breaker]
    """The breaker before and after the commands."""

    @property
    def possible(self) -> bool:
        """Whether the commands can be taken back: they changed jobs, but not the state of an active attempt."""
        pairs = [(self.before[job_id], after) for job_id, after in self.after.items()]
        return bool(pairs) and not any(
            before is not None and (before.active or after.active) and type(before.state) is not type(after.state)
            for before, after in pairs
        )

    def unchanged(self, book: Book) -> list[JobId]:
        """Return the jobs that have not changed since the commands."""
        return [job_id for job_id, after in self.after.items() if book[job_id] == after]


class Scheduler(SchedulerState):
    """The queue of a session. `handle` makes all changes, except that `place` and `preempt` start and stop jobs."""

    _version = 0

    def handle(self, event: Event | Savepoint | Undo, now: float) -> list[Instruction]:
        """Apply one event and return instructions for the engine. If Refusal is raised, nothing has changed."""
        mode, scopes = self.wanted_mode, self.breaker.scopes
        instructions = self._apply(event, now)
        if self.wanted_mode is mode and self.breaker.scopes is scopes:
            return instructions
        return [*instructions, *commands.withdrawals(self)]

    def _apply(self, event: Event | Savepoint | Undo, now: float) -> list[Instruction]:
        match event:
            case events.JobCommand():
                return self._command(event, now)
            case events.EngineReport():
                return self._report(event, now)
            case events.Tick():
                return self._tick(now)
            case events.AddJobs():
                commands.add_jobs(self, event, now)
            case events.RevokeKey(key=key):
                commands.revoke_key(self, key, now)
            case events.Pause(kind=kind):
                return commands.pause(self, kind, now)
            case events.Drain():
                commands.drain(self, now)
            case events.Resume():
                breaker.resume(self, now)
            case events.SetSlots(slots=slots, these=these):
                self.check_slots(slots)
                self.board.replace(slots, these=these)
            case events.Settings():
                commands.set_settings(self, event, now)
            case events.TryFirst():
                breaker.try_first(self, event, now)
            case events.EngineTrouble(why=why):
                self.unavailable = why
            case events.NodesSeen(largest=largest):
                self.board.largest = largest
            case events.DevicesSeen(devices=devices):
                self.board.devices.update(devices)
            case events.ClockStepped(by=by):
                self._step_clock(by)
            case Savepoint():
                self._roll_back(event, now)
            case Undo():
                self._undo(event, now)
        return []

    def _command(self, event: events.JobCommand, now: float) -> list[Instruction]:
        """Handle a command on a job. Refuse it if the state does not allow it or is not what the user saw."""
        job, seen = self.job(event.job), event.seen
        if job.archived:
            raise Refusal(f"#{job.id} was removed")
        if seen is not None and (seen.state != job.state.name or seen.attempt != job.issued):
            raise Refusal(f"#{job.id} just changed: it {predicate(job.state.name)} now (attempt {job.issued})")
        handler = TRANSITIONS.get((type(job.state), type(event)))
        if handler is None:
            raise Refusal(f"#{job.id} {predicate(job.state.name)}: {ADVICE[type(event)]}")
        return handler(self, job, event, now) or []

    def _report(self, event: events.EngineReport, now: float) -> list[Instruction]:
        """Handle an engine's report. Late reports are ignored. Impossible reports raise IllegalTransition."""
        if event.job not in self.book:
            raise IllegalTransition(f"unexpected {event}: no job #{event.job}")
        job = self.book[event.job]
        if event.attempt < job.issued or job.active is None:
            return []  # the attempt has ended
        handler = TRANSITIONS.get((type(job.state), type(event)))
        if handler is None or event.attempt > job.issued:
            history = "; ".join(f"{moment.at:.3f} {moment.text}" for moment in self.history(job.id))
            raise IllegalTransition(f"unexpected {event} for #{job.id} ({job.state.name}). History: {history}")
        return handler(self, job, event, now) or []

    def _tick(self, now: float) -> list[Instruction]:
        """Handle everything that is due: ends of delays, time limits and grace periods, and probes."""
        instructions: list[Instruction] = []
        while (job_id := self.book.timers.pop(now)) is not None:
            job = self.book[job_id]
            when = due(job)
            if when is None or when > now or job.archived:
                continue
            match job.state:
                case states.Delayed():
                    commands.settle(self, job, now, "delay over", keep=False)
                case states.Running():
                    instructions += commands.stop(self, job, now, Purpose.TIMEOUT)
                case states.Stopping() as state:
                    self.change(job, now, "grace period over", keep=True, state=replace(state, hard=True))
                    instructions.append(events.KillTree(job.id, state.placed.attempt))
        breaker.tick(self, now)
        return instructions

    def place(self, now: float) -> list[events.Start]:
        return placement.place(self, now)

    def preempt(self, now: float) -> list[Instruction]:
        """Stop running jobs in favor of urgent ones. Must be called after `place`."""
        return placement.preempt(self, now)

    def next_wakeup(self) -> float | None:
        """Return when the next Tick is due, or None. The time may be too early, but never too late."""
        moments = (self.book.timers.next(), breaker.next_moment(self) if self.breaker.scopes else None)
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Snapshot:
        """Return a new snapshot, and start collecting the changes for the next one."""
        self._version += 1
        book, board = self.book, self.board
        changed, book.changed = frozenset(book.changed), set()
        return Snapshot(
            version=self._version,
            changed=changed,
            first_id=book.first_id,
            jobs=book.picture(),
            counts={name: count for name, count in book.counts.items() if count},
            active=frozenset(book.active),
            mode=self.mode,
            cause=self.cause,
            paused_scopes=tuple(map(self.paused_scope, self.breaker.paused_scopes)),
            settings=self.settings,
            slots=board.slots,
            leaving=tuple(board.leaving()),
            holders=dict(board.holders),
            blocked=frozenset(slot.id for slot in board.slots if any(map(board.devices.blocked, slot.devices))),
            submitted=dict(self.submitted),
            unavailable=self.unavailable,
            over_budget=self.over_budget(),
        )

    def paused_scope(self, scope: Scope) -> PausedScope:
        cached = self.next_probes.get(scope.group)
        if cached is None or cached[0] != self.book.version or cached[1] is not scope:
            next_job = breaker.next_probe(self, scope)
            cached = (self.book.version, scope, next_job.id if next_job is not None else None)
            self.next_probes[scope.group] = cached
        job = scope.probe.job if scope.probe is not None else cached[2]
        at = breaker.outlives_at(self, scope) if scope.probing else scope.probe_at
        return PausedScope(**asdict(scope), job=job, at=at)

    def _step_clock(self, by: float) -> None:
        """Shift all times by `by` seconds because the wall clock was set, so that durations do not change."""
        book = self.book
        living = (book[job_id] for job_id in (*book.active, *(place.job for place in book.line)))
        book.put_all([replace(job, state=state) for job in living if (state := _moved_by(job, by)) is not job.state])
        self.breaker = self.breaker.moved(by)
        if self.wanted_cause is not None:
            self.wanted_cause = replace(self.wanted_cause, since=self.wanted_cause.since + by)
        self.starts_again_at += by
        if self.clock is not None:
            self.clock += by

    def savepoint(self) -> Savepoint:
        """Return an event that takes back all later commands. Only the newest savepoint may be used."""
        book = self.book
        return Savepoint(book.mark(), book.next_id, self.record(), len(self.unsaved_history), len(book.unsaved_revoked))

    def changes_of(self, carry_out: Callable[[], T]) -> tuple[T, Undo]:
        """Call a function that handles commands. Return its result and an event that takes the commands back."""
        book, breaker, first = self.book, self.breaker, self.book.next_id
        outer = book.earlier
        earlier = book.mark()
        try:
            result = carry_out()
        finally:
            book.earlier = outer
            for job in earlier.values():
                outer.setdefault(job.id, job)
        before: dict[JobId, Job | None] = {job.id: job for job in earlier.values() if job.id < first}
        before |= dict.fromkeys(range(first, book.next_id))
        return result, Undo(before, {job_id: book[job_id] for job_id in before}, (breaker, self.breaker))

    def _undo(self, event: Undo, now: float) -> None:
        book, unchanged = self.book, event.unchanged(self.book)
        if not event.possible:
            raise Refusal("an attempt has been stopped or changed; rerun the job instead")
        if not unchanged:
            changed = book[next(iter(event.after))]
            what = "was removed" if changed.archived else f"{predicate(changed.state.name)} now"
            raise Refusal(f"#{changed.id} has changed since: it {what}")
        earlier = [job for job_id in unchanged if (job := event.before[job_id]) is not None]
        for job in earlier:
            if job.after != book[job.id].after:
                queue_order.resolve(book, [job.spec], job.id)  # refuses circular dependencies
        if len(unchanged) == len(event.after) and self.breaker == event.breakers[1]:
            self.breaker = event.breakers[0]
        for job in earlier:
            self.change(book[job.id], now, "undone by the user", keep=True,
                        **asdict(replace(job, issued=book[job.id].issued)))  # fmt: skip
        for job_id in unchanged:
            if event.before[job_id] is None and isinstance(book[job_id].state, states.Waiting):
                commands.remove_waiting(self, book[job_id], events.Remove(job=job_id), now)
        # The jobs that these jobs depend on may have ended or been restored, so the waiting state is decided again.
        restored = {job.id for job in earlier}
        for each in sorted(restored.union(*(book.dependents.get(job_id, ()) for job_id in restored))):
            job = book[each]
            if isinstance(job.state, states.Waiting) and not isinstance(job.state, states.Held) and not job.archived:
                state = queue_order.waiting_state(book, job, now)
                if states.Blocked in (type(job.state), type(state)) or isinstance(state, states.Skipped):
                    commands.settle(self, job, now, "waiting again: a command was undone", keep=False)

    def _roll_back(self, event: Savepoint, now: float) -> None:
        """Take back commands. Attempts that have not started yet must be reported as NeverRan first."""
        book, before = self.book, event.record
        changed = (_restored(event, book[id]) for id in (*sorted(event.jobs), *range(event.next_id, book.next_id)))
        restored = [job for job in changed if job is not None]
        # When a blocked job is put into the book, the book looks up the jobs it waits for, so blocked jobs come last.
        for job in sorted(restored, key=lambda job: isinstance(job.state, states.Blocked)):
            book.put(job)
        for dependent in {id for job in restored for id in book.dependents.get(job.id, ())}:
            if isinstance(book[dependent].state, states.Blocked):
                book.put(book[dependent])
        book.revoked.difference_update(book.unsaved_revoked[event.revoked :])
        del book.unsaved_revoked[event.revoked :]
        self.settings = before.settings
        if self.board.slots != before.slots:
            self.board.replace(before.slots, these=True)
        # Commands that only keep jobs or probes from starting, such as pauses, are not taken back.
        stopped = [scope for scope in self.breaker.paused_scopes if scope.stopped]
        left = any(scope.cause is not None and scope.cause.left for scope in stopped)
        self.breaker = before.breaker
        for scope in before.breaker.paused_scopes:
            if not scope.stopped and any(other.group == scope.group for other in stopped):
                self.breaker = self.breaker.put(scope.halted(left=left))
        starts_less = (Mode.RUNNING, Mode.DRAINING, Mode.PAUSED)
        if starts_less.index(self.wanted_mode) < starts_less.index(before.mode):
            self.wanted_mode, self.wanted_cause = before.mode, before.cause
        gone, moments = {job.id for job in restored}, self.unsaved_history
        moments[event.history :] = [moment for moment in moments[event.history :] if moment.job not in gone]
        commands.check_drained(self, now)


def _moved_by(job: Job, by: float) -> State:
    """Return the job's state with all times shifted by `by` seconds."""
    state = job.state
    match state:
        case states.Queued(since=since):
            return states.Queued(since + by)
        case states.Delayed(until=until) if until != job.spec.not_before:
            return replace(state, until=until + by)
    if not isinstance(state, states.Active):
        return state
    placed = replace(state.placed, since=state.placed.since + by)
    match state:
        case states.Stopping():
            return replace(state, placed=placed, deadline=state.deadline + by)
        case states.Suspended():
            return replace(state, placed=placed, since=state.since + by)
        case states.Running(silent_since=float(since)):
            return replace(state, placed=placed, silent_since=since + by)
    return replace(state, placed=placed)


def _restored(event: Savepoint, job: Job) -> Job | None:
    """Return the job as it should be restored, or None if it needs no change."""
    if job.id >= event.next_id:
        # Remove the identity, so that the same job can be loaded again and does not count as removed by the user.
        spec = replace(job.spec, occurrence=None, outfile=None, key=None)
        return replace(job, spec=spec, state=states.Killed(), archived=True)
    before = event.jobs[job.id]
    is_being_ended = isinstance(job.state, states.Stopping) and before.active is not None
    return None if job is before or is_being_ended else replace(before, issued=job.issued)
