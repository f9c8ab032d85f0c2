"""The scheduler: a pure state machine. Events in, instructions out; no I/O, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from . import breaker_rules, cluster, commands, eta, placement, rollback, transitions
from .book import Book
from .breaker import Breaker, Scope
from .breaker_rules import Successes
from .events import (
    AddJobs,
    Cause,
    ClockStepped,
    DevicesSeen,
    Drain,
    EngineTrouble,
    Event,
    Instruction,
    JobCommand,
    Mode,
    NodesSeen,
    Pause,
    Refusal,
    Resume,
    SetLanes,
    Settings,
    Start,
    Submitted,
    Tick,
    TryFirst,
)
from .job import (
    Active,
    Blocked,
    Delayed,
    End,
    Job,
    JobId,
    LaneId,
    Queued,
    Request,
    Running,
    Skipped,
    State,
    Stopping,
    Succeeded,
    Suspended,
    predicate,
)
from .lanes import Board, Lane
from .policies import learn, with_learned
from .queue_order import satisfied, waiting_state
from .results import JobResults
from .rollback import TakenBack
from .snapshot import Snapshot, take_snapshot

# ---- What the store keeps of a scheduler besides its jobs ----


class Moment(Struct, frozen=True):
    """One line of a job's story."""

    job: JobId
    at: float
    text: str


class Record(Struct, frozen=True):
    """All of the scheduler that is not in its jobs; what the store keeps besides them."""

    first_id: JobId = 0
    mode: Mode = Mode.RUNNING
    """As people want it; crashes are the breaker's."""
    cause: Cause | None = None
    settings: Settings = Settings()
    lanes: tuple[Lane, ...] = ()
    next_position: float = 0.0
    leaving: tuple[Lane, ...] = ()
    clock: float | None = None
    """The wall clock's lead over one that cannot be set, in this boot: by it the next owner knows of a step."""
    learned: dict[str, int] = {}
    """The memory that jobs of each group were seen to use on a device, and a little more."""
    breaker: Breaker = Breaker()


# ---- What a step of the wall clock moves ----


def step_clock(scheduler: Scheduler, by: float) -> None:
    """Every duration goes on as if the clock had not been touched."""
    book = scheduler.book
    living = (book[job_id] for job_id in (*book.active, *(place.job for place in book.line)))
    book.put_all([replace(job, state=state) for job in living if (state := _moved_by(job, by)) is not job.state])
    scheduler.breaker = scheduler.breaker.moved(by)
    if scheduler.wanted_cause is not None:
        scheduler.wanted_cause = replace(scheduler.wanted_cause, since=scheduler.wanted_cause.since + by)
    scheduler.starts_again_at += by
    if scheduler.clock is not None:
        scheduler.clock += by


def _moved_by(job: Job, by: float) -> State:
    state = job.state
    match state:
        case Queued(since=since):
            return Queued(since + by)
        case Delayed(until=until) if until != job.spec.not_before:
            return replace(state, until=until + by)
    if not isinstance(state, Active):
        return state
    placed = replace(state.placed, since=state.placed.since + by)
    match state:
        case Stopping():
            return replace(state, placed=placed, deadline=state.deadline + by)
        case Suspended():
            return replace(state, placed=placed, since=state.since + by)
        case Running(silent_since=float(since)):
            return replace(state, placed=placed, silent_since=since + by)
    return replace(state, placed=placed)


# ---- The scheduler ----


class Scheduler:
    """One session's queue. `handle` is the only door for events, `place` gives the free lanes away."""

    def __init__(self, record: Record | None = None, jobs: Iterable[Job] = ()) -> None:
        record = record or Record()
        self.book = Book(jobs, record.first_id)
        self.board = Board(record.lanes, record.leaving)
        self.wanted_mode, self.wanted_cause = record.mode, record.cause
        """What people want of it; crashes may keep it from starting more than they do."""
        self.settings = record.settings
        self.breaker: Breaker = record.breaker
        self.successes = Successes()
        self.next_probes: dict[str | None, tuple[object, Scope, JobId | None]] = {}
        """What was last said of each scope: asked for every row, told once."""
        self.learned = dict(record.learned)
        self.next_position, self.clock = record.next_position, record.clock
        self.cpu_jobs_running = 0
        self.starts_again_at = float("-inf")
        """The machine had no room for the last start; not kept, so that a new owner tries at once."""
        self.stalled = ""
        """What keeps the owner from starting anything, in words; not kept either."""
        self.unavailable = ""
        """What keeps the engine from starting anything, in words; not kept either, as all that a cluster tells."""
        self.submitted: dict[JobId, Submitted] = {}
        self.remarks: dict[JobId, str] = {}
        """What waits in a cluster's own queue, and for what."""
        self.durations = eta.Durations()
        self.recent: deque[Moment] = deque(maxlen=1000)
        """The last transitions of all jobs, for stories in error messages."""
        self.unsaved_moments: list[Moment] = []
        """What the user did, and what the attempts alone do not tell; the store keeps it."""
        self._version = 0
        for job in self.book:
            self._restore(job)

    def _restore(self, job: Job) -> None:
        self.durations.note(job)
        if isinstance(job.state, Succeeded):
            self.successes.note(job)
        if job.active is not None:
            self.board.hold(job.id, job.active.lanes, job.active.gpus, self.asked(job))
            self.cpu_jobs_running += not job.active.lanes

    # Events

    def handle(self, event: Event | TakenBack, now: float) -> list[Instruction]:
        """Applies one event and returns what the world must do about it; raises Refusal, changing nothing."""
        mode, scopes = self.wanted_mode, self.breaker.scopes
        instructions = self._apply(event, now)
        if self.wanted_mode is mode and self.breaker.scopes is scopes:
            return instructions
        return [*instructions, *cluster.withdrawals(self)]

    def _apply(self, event: Event | TakenBack, now: float) -> list[Instruction]:
        match event:
            case AddJobs():
                commands.add_jobs(self, event, now)
            case Pause(kind=kind):
                commands.pause_as_asked(self, kind, now)
            case Drain():
                commands.drain(self, now)
            case Resume():
                breaker_rules.resume(self, now)
            case SetLanes(lanes=lanes, these=these):
                cluster.check_lanes(self, lanes)
                self.board.replace(lanes, these=these)
            case Settings():
                self._set(event, now)
            case TryFirst():
                breaker_rules.try_first(self, event, now)
            case EngineTrouble(why=why):
                self.unavailable = why
            case NodesSeen(largest=largest):
                self.board.largest = largest
            case DevicesSeen(devices=devices):
                self.board.cards.see(devices)
            case ClockStepped(by=by):
                step_clock(self, by)
            case TakenBack():
                rollback.take_back(self, event, now)
            case Tick():
                return transitions.tick(self, now)
            case _:
                return transitions.apply(self, event, now)
        return []

    def place(self, now: float) -> list[Start]:
        return placement.place(self, now)

    def preempt(self, now: float) -> list[Instruction]:
        """After placing: who goes back to the queue for an urgent job."""
        return placement.preempt(self, now)

    def next_wakeup(self) -> float | None:
        """When a Tick is due; may be early, never late."""
        moments = (self.book.timers.next(), breaker_rules.next_moment(self) if self.breaker.scopes else None)
        return min((moment for moment in moments if moment is not None), default=None)

    # What transitions are made of

    def change(self, job: Job, now: float, text: str, *, keep: bool = False, **changes: Any) -> Job:
        """Puts a changed job into the book; `keep` makes the line part of the stored story."""
        changed = replace(job, **changes)
        self.book.put(changed)
        self.tell(job.id, now, text, keep=keep)
        return changed

    def tell(self, job: JobId, now: float, text: str, *, keep: bool = False) -> None:
        moment = Moment(job, now, text)
        self.recent.append(moment)
        if keep:
            self.unsaved_moments.append(moment)

    def finish(self, job: Job, end: End, now: float, text: str, **changes: Any) -> None:
        """The job's final end: whoever waited for it goes on or is skipped, which ends that one too."""
        self._end(job, end, now, text, **changes)
        to_tell = [job.id]
        while to_tell:
            earlier = to_tell.pop()
            for dependent in self.book.dependents.get(earlier, ()):
                if isinstance(self.book[dependent].state, Blocked) and not self._go_on(dependent, earlier, now):
                    to_tell.append(dependent)

    def _end(self, job: Job, end: End, now: float, text: str, **changes: Any) -> None:
        finished = self.change(job, now, text, keep="attempts" not in changes, state=end, **changes)
        self.durations.note(finished)
        learn(self, finished, now)
        breaker_rules.ended(self, finished, end, now)

    def _go_on(self, dependent: JobId, earlier: JobId, now: float) -> bool:
        """A job that a blocked one waits for has ended; False: the blocked one has ended too, skipped."""
        job = self.book[dependent]
        if not satisfied(self.book, job, earlier):
            self._end(job, Skipped(earlier), now, f"skipped because #{earlier} did not succeed")
            return False
        unmet = self.book.unmet[dependent]
        unmet.discard(earlier)
        if not unmet:
            state = waiting_state(self.book, job, now)
            self.change(job, now, state.name, state=state)
        return True

    # Whether jobs start

    @property
    def mode(self) -> Mode:
        return Mode.PAUSED if self.breaker.pause is not None else self.wanted_mode

    @property
    def cause(self) -> Cause | None:
        """Crashes come first: leaving a session that is paused by them must not hide them."""
        return self.wanted_cause if self.breaker.pause is None else self.breaker.pause.cause

    def _set(self, settings: Settings, now: float) -> None:
        commands.check_settings(settings)
        before, self.settings = self.settings, settings
        if settings.probe != before.probe:
            breaker_rules.probe_setting_changed(self, now)

    def fit(self, request: Request, reserved: Collection[LaneId] = ()) -> tuple[Lane, ...] | None:
        """Lanes for the request that are free, fit, and within what we may use of a shared machine."""
        return self.board.fit(request, reserved, self.most_devices())

    def most_devices(self) -> int | None:
        """How many devices we may use at once; None: all there are."""
        return self.board.most_devices(self.settings.at_most, self.settings.keep_free)

    def asked(self, job: Job) -> Request:
        """What the job asks for, as far as anything is known of jobs like it."""
        return self.asked_by(job.request, job.spec.group)

    def asked_by(self, request: Request, group: str) -> Request:
        return with_learned(request, self.learned.get(group))

    def free(self, job: Job) -> None:
        """Gives back what its attempt held."""
        assert job.active is not None
        self.board.release(job.active.lanes)
        self.submitted.pop(job.id, None)
        self.remarks.pop(job.id, None)
        self.cpu_jobs_running -= not job.active.lanes

    def delay(self, job: Job, now: float, seconds: float, why: str, **changes: Any) -> None:
        self.change(job, now, f"waits: {why}", keep=True, state=Delayed(now + seconds, why), **changes)

    # Questions

    @property
    def cannot_start(self) -> str:
        """Why nothing can be started now, in words; empty: it can."""
        return self.stalled or self.unavailable

    def job(self, job_id: JobId) -> Job:
        if job_id not in self.book:
            raise Refusal(f"there is no job #{job_id}")
        return self.book[job_id]

    def check_seen(self, command: JobCommand) -> Job:
        """The job, if it still is what the user saw."""
        job = self.job(command.job)
        if job.archived:
            raise Refusal(f"#{job.id} was removed")
        seen = command.seen
        if seen is not None and (seen.state != job.state.name or seen.attempt != job.issued):
            raise Refusal(f"#{job.id} just changed: it {predicate(job.state.name)} now (attempt {job.issued})")
        return job

    def story(self, job_id: JobId) -> list[Moment]:
        """How a job came to where it is, as far as this owner has seen it."""
        return [moment for moment in self.recent if moment.job == job_id]

    def record(self) -> Record:
        return Record(
            self.book.first_id, self.wanted_mode, self.wanted_cause, self.settings, self.board.lanes,
            self.next_position, tuple(self.board.leaving()), self.clock, dict(self.learned), self.breaker,
        )  # fmt: skip

    def outlook(
        self,
        now: float,
        results: Mapping[JobId, JobResults] = eta.NO_RESULTS,
        paces: Mapping[str, float] = eta.NO_PACES,
    ) -> eta.Outlook:
        return eta.outlook(self, now, results, paces)

    def snapshot(self) -> Snapshot:
        """The newest picture; costs what changed since the last one, not what there is."""
        self._version += 1
        return take_snapshot(self, self._version)
