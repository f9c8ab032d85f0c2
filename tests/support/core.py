"""A scheduler under test: a clock, a model of what must hold, and random events that drive it."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import msgspec
import pytest

from gputui.core.book import due, kind_of, place_of
from gputui.core.breaker import SHORTEST_WORKING_AFTER, Scope, ScopeState
from gputui.core.eta import Outlook, estimate_outlook
from gputui.core.events import (
    AddJobs,
    AttemptEnded,
    Cause,
    Event,
    Exited,
    Instruction,
    Mode,
    Outcome,
    PauseKind,
    Refusal,
    Settings,
    Spawned,
    Tick,
)
from gputui.core.job import (
    Active,
    Blocked,
    Ended,
    Held,
    Job,
    JobId,
    JobSpec,
    Queued,
    Request,
    StateName,
    Succeeded,
    Waiting,
)
from gputui.core.results import JobResults
from gputui.core.scheduler import Record, Scheduler
from gputui.core.slots import Slot
from gputui.views.waiting import why

# ---- What must hold of a scheduler, remembered and checked without trusting its own indexes ----


def restored(scheduler: Scheduler) -> Scheduler:
    """The same session, opened by another scheduler from the store."""
    record = msgspec.json.decode(msgspec.json.encode(scheduler.record()), type=Record)
    jobs = [msgspec.json.decode(msgspec.json.encode(job), type=Job) for job in scheduler.book]
    assert record == scheduler.record()
    assert jobs == list(scheduler.book)
    twin = Scheduler(record, jobs, scheduler.book.revoked)
    twin.starts_again_at = scheduler.starts_again_at
    twin.board.devices.update(scheduler.board.devices._facts)
    return twin


# ---- Every invariant of the scheduler in one place ----


def validate(scheduler: Scheduler) -> None:
    """Check all invariants."""
    _check_jobs(scheduler)
    _check_indexes(scheduler)
    _check_slots(scheduler)
    _check_breaker(scheduler)
    assert (scheduler.mode is Mode.PAUSED) == (scheduler.cause is not None)
    assert (scheduler.wanted_mode is Mode.PAUSED) == (scheduler.wanted_cause is not None)
    assert scheduler.mode is not Mode.DRAINING or scheduler.book.active, "drained, yet draining"


def _check_jobs(scheduler: Scheduler) -> None:
    for number, job in enumerate(scheduler.book):
        assert job.id == scheduler.book.first_id + number
        numbers = [attempt.number for attempt in job.attempts]
        assert numbers == sorted(set(numbers))
        assert not numbers or numbers[-1] <= job.issued
        assert job.active is None or job.active.attempt == job.issued
        assert not job.archived or isinstance(job.state, Ended)
        assert all(attempt.started <= attempt.ended for attempt in job.attempts)
        if isinstance(job.state, Succeeded):
            assert isinstance(job.attempts[-1].end, Succeeded)
        _check_dependencies(scheduler, job)


def _check_dependencies(scheduler: Scheduler, job: Job) -> None:
    book = scheduler.book
    unfinished = {id for id in job.after if not isinstance(book[id].state, Ended)}
    if isinstance(job.state, Blocked):
        assert book.unmet[job.id] == unfinished, f"#{job.id} waits for the wrong jobs"
        assert unfinished, f"#{job.id} waits for nothing"
    if isinstance(job.state, Queued):
        assert not unfinished, f"#{job.id} is eligible too early"
    for earlier in job.after:
        assert job.id in book.dependents[earlier]


def _check_indexes(scheduler: Scheduler) -> None:
    book = scheduler.book
    listed = [job for job in book if not job.archived]
    waiting = sorted(place_of(job) for job in listed if isinstance(job.state, Waiting))
    assert list(book.line) == waiting
    for (request, group), line in book.ready.items():
        assert list(line) == [place for place in waiting if _is_ready(book[place.job], request, group)]
        assert line, "an empty line stays"
    assert sum(map(len, book.ready.values())) == sum(isinstance(job.state, Queued) for job in listed)
    assert +book.counts == Counter(job.state.name for job in listed)
    assert book.active == {job.id for job in listed if isinstance(job.state, Active)}
    to_come = (job for job in listed if isinstance(job.state, Waiting) and not isinstance(job.state, Held))
    assert book.waiting_of == Counter(map(kind_of, to_come))
    used: dict[str, float] = dict.fromkeys((job.spec.group for job in book), 0.0)
    for job in book:
        used[job.spec.group] += sum(attempt.seconds * len(attempt.gpus) for attempt in job.attempts)
    assert used == pytest.approx({group: book.gpu_seconds[group] for group in used})
    assert book.keys == {job.spec.key: job.id for job in book if job.spec.key is not None}
    assert len(set(book.keys.values())) == sum(job.spec.key is not None for job in book), "two jobs with one key"
    assert set(book.unmet) == {job.id for job in listed if isinstance(job.state, Blocked)}
    assert all((due(job), job.id) in book.timers._heap for job in listed if due(job) is not None)


def _is_ready(job: Job, request: object, group: str) -> bool:
    return isinstance(job.state, Queued) and job.request == request and job.spec.group == group


def _check_slots(scheduler: Scheduler) -> None:
    held = {slot: job.id for job in scheduler.book if job.active for slot in job.active.slots}
    assert scheduler.board.holders == held, "the board and the jobs disagree"
    total = sum(len(job.active.slots) for job in scheduler.book if job.active)
    assert len(held) == total, "two jobs hold one slot"
    cpu_jobs = sum(1 for job in scheduler.book if job.active and not job.active.slots)
    assert scheduler.cpu_jobs_running == cpu_jobs
    assert len({slot.id for slot in scheduler.board.slots}) == len(scheduler.board.slots)


def _check_breaker(scheduler: Scheduler) -> None:
    scopes = scheduler.breaker.scopes
    assert len({scope.group for scope in scopes}) == len(scopes), "a scope twice"
    paused = scheduler.breaker.paused_scopes
    assert len(paused) <= 1 or all(scope.group is not None for scope in paused), "all jobs, and a group beside them"
    assert scheduler.wanted_cause is None or scheduler.wanted_cause.kind is not PauseKind.CRASHES
    for scope in scopes:
        _check_scope(scheduler, scope)


def _check_scope(scheduler: Scheduler, scope: Scope) -> None:
    is_half, is_open = scope.state is ScopeState.PROBING, scope.state is ScopeState.PAUSED
    assert (scope.cause is not None) == (is_half or is_open)
    assert (scope.probe is not None) == is_half
    assert is_open or (scope.probe_at is None and not scope.due and scope.first is None)
    assert not scope.due or scope.probe_at is not None
    assert scope.wait is None or scope.wait >= 0
    assert scope.life >= SHORTEST_WORKING_AFTER
    if scope.cause is not None:
        assert scope.cause.jobs
        assert scope.cause.kind is PauseKind.CRASHES
        assert all(scheduler.book[job].attempts for job in scope.cause.jobs), "it never ran, yet crashed"
    if scope.probe is not None:
        tried = scheduler.book[scope.probe.job]
        assert tried.active is not None, "nobody is tried"
        assert tried.active.attempt == scope.probe.attempt
        assert scope.covers(tried.spec.group)


# ---- A scheduler with its clock and short ways to make things happen ----


def slots(written: str) -> tuple[Slot, ...]:
    """`0 0 1` is three slots, `0+1` a group, `cpu` a slot without a GPU."""
    devices = (() if word == "cpu" else tuple(word.split("+")) for word in written.split())
    return tuple(Slot(number, each) for number, each in enumerate(devices))


def spec(
    command: str = "train",
    *,
    gpus: int | None = None,
    devices: tuple[str, ...] = (),
    budget: float | None = None,
    **rest: Any,
) -> JobSpec:
    """A job as a source would give it."""
    return JobSpec(command=command, cwd="/", environment="e", request=Request(gpus, devices, budget=budget), **rest)


class World:
    """A scheduler with a clock; acts as its owner and engine."""

    def __init__(self, gpus: str = "0", **settings: Any) -> None:
        self.now = 1000.0
        self.scheduler = Scheduler(Record(settings=Settings(**settings), slots=slots(gpus)))

    def do(self, event: Event) -> list[Instruction]:
        instructions = self.scheduler.handle(event, self.now)
        validate(self.scheduler)
        return instructions

    def add(self, *specs: JobSpec) -> list[JobId]:
        first = self.scheduler.book.next_id
        self.do(AddJobs(specs or (spec(),)))
        return list(range(first, self.scheduler.book.next_id))

    def add_many(self, count: int, **settings: Any) -> list[JobId]:
        return self.add(*(spec(**settings) for _ in range(count)))

    def place(self) -> list[JobId]:
        """Place jobs and return the ids of those that start."""
        started = [start.job.id for start in self.scheduler.place(self.now)]
        validate(self.scheduler)
        return started

    def start(self) -> list[JobId]:
        """Place jobs and let them run."""
        started = self.place()
        for job in started:
            self.spawned(job)
        return started

    def spawned(self, job: JobId, *, adopted: bool = False, pid: int | None = None) -> list[Instruction]:
        return self.do(Spawned(job=job, attempt=self.job(job).issued, pid=pid or 100 + job, adopted=adopted))

    def end(self, job: JobId, outcome: Outcome | int = 0, signature: str | None = None) -> list[Instruction]:
        if isinstance(outcome, int):
            outcome = Exited(outcome)
        attempt = self.job(job).issued
        return self.do(AttemptEnded(job=job, attempt=attempt, outcome=outcome, at=self.now, signature=signature))

    def run(self, outcome: Outcome | int = 0, signature: str | None = None, seconds: float = 10.0) -> JobId:
        """Start the next job of the queue and end it after some seconds."""
        job = self.start()[0]
        self.now += seconds
        self.end(job, outcome, signature)
        return job

    def wait(self, seconds: float) -> list[Instruction]:
        self.now += seconds
        return self.do(Tick())

    def job(self, job: JobId) -> Job:
        return self.scheduler.book[job]

    def state(self, job: JobId) -> StateName:
        return self.job(job).state.name

    def states(self, jobs: list[JobId]) -> set[StateName]:
        return {self.state(job) for job in jobs}

    def mode(self) -> Mode:
        return self.scheduler.mode

    def cause(self) -> Cause:
        """Why it is paused."""
        assert self.scheduler.cause is not None
        return self.scheduler.cause

    def line(self) -> list[JobId]:
        """All waiting jobs in the order that users see."""
        return [place.job for place in self.scheduler.book.line]

    def gpus(self, job: JobId) -> tuple[str, ...]:
        placed = self.job(job).active
        assert placed is not None
        return placed.gpus

    def outlook(self, results: Mapping[JobId, JobResults] | None = None) -> Outlook:
        return estimate_outlook(self.scheduler, self.now, results or {})

    def why(self, job: JobId) -> str | None:
        return why(self.scheduler, self.job(job), self.now)

    def refused(self, event: Event) -> str:
        """Return the message of a refusal, which must change nothing."""
        before = (self.scheduler.record(), list(self.scheduler.book))
        with pytest.raises(Refusal) as refusal:
            self.do(event)
        validate(self.scheduler)
        assert (self.scheduler.record(), list(self.scheduler.book)) == before
        return str(refusal.value)


def busy(gpus: str = "0", *specs: JobSpec, jobs: int = 0, **settings: Any) -> World:
    """A world with these jobs, or this number of equal ones, of which those that fit are running."""
    world = World(gpus, **settings)
    world.add(*specs, *(spec() for _ in range(jobs)))
    world.start()
    return world


def is_sentence(text: str) -> bool:
    """Whether a refusal is one line without a full stop."""
    return bool(text) and "\n" not in text and ". " not in text and text[-1] not in ".:;,"


# ---- Counts what a call costs in operations, so that a test of cost does not depend on the machine ----


def operations(act: Callable[[], object]) -> int:
    """Count the lines of Python executed and the calls of built-in functions, also in threads that are started."""
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return line

    def call(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "c_call"

    for module in (threading, sys):
        module.settrace(line)
        module.setprofile(call)
    try:
        act()
    finally:
        for module in (threading, sys):
            module.settrace(None)
            module.setprofile(None)
    return count
