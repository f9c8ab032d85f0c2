"""Drives a scheduler as an owner would, by chance, and holds it against the model after each event."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from gputui.core import rollback as taking_back
from gputui.core.book import due
from gputui.core.events import (
    AddJobs,
    AttemptEnded,
    ClockStepped,
    Event,
    Instruction,
    Mode,
    NeverRan,
    Refusal,
    Rerun,
    Resume,
    Silence,
    Spawned,
    Terminate,
    Tick,
    TryFirst,
)
from gputui.core.job import Ended, JobId, Queued, Running, Stopping, Waiting
from gputui.core.placement import is_urgent
from gputui.core.scheduler import Record, Scheduler
from gputui.views.waiting import why
from support.core_chance import any_change_of_scene, any_command, any_kind, any_outcome, any_signature, any_spec
from support.core_model import Model, restored
from support.core_validate import validate
from support.core_world import is_sentence, lanes

MOST_JOBS = 20


class Driver:
    """Each method is something that can happen at any time; a refused event must change nothing."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.scheduler = Scheduler(Record(lanes=lanes("0 1 2")))
        self.model = Model()

    def do(self, event: Event) -> list[Instruction]:
        before = (self.scheduler.record(), self.scheduler.book.jobs)
        instructions: list[Instruction] = []
        refusal = None
        try:
            instructions = self.scheduler.handle(event, self.now)
        except Refusal as refused:
            refusal = str(refused)
        if refusal is not None:
            assert is_sentence(refusal), refusal
            assert self.scheduler.record() == before[0]
            assert self.scheduler.book.jobs is before[1]
        self.model.ordered_of(instructions)
        if isinstance(event, AttemptEnded):
            self.model.ended(event.job, event.attempt)
        self.check()
        return instructions

    def check(self) -> None:
        validate(self.scheduler)
        self.model.check(self.scheduler)

    def add(self, chance: Random) -> None:
        first = self.scheduler.book.next_id
        if sum(not job.archived for job in self.scheduler.book) >= MOST_JOBS:
            return
        specs = [replace(any_spec(chance, first), command=f"c{first + n}") for n in range(chance.randint(1, 4))]
        self.model.commands += [spec.command for spec in specs]
        try:
            self.scheduler.handle(AddJobs(tuple(specs)), self.now)
        except Refusal:
            del self.model.commands[first:]
        self.check()

    def user_command(self, chance: Random) -> None:
        end = self.scheduler.book.next_id
        if end:
            self.do(any_command(chance, self.scheduler.book[chance.randrange(end)], end))

    def turn(self, chance: Random) -> None:
        """Some attempts end, moments come, and then the free lanes are given away once."""
        self.now += chance.choice([0.5, 3.0, 6.0, 30.0, 400.0])
        for job in sorted(self.model.alive):
            if chance.random() < 0.4:
                self.end(chance, job)
        self.do(Tick())
        wakeup = self.scheduler.next_wakeup()
        assert wakeup is None or wakeup > self.now
        self.place(chance)

    def place(self, chance: Random) -> None:
        before = self.scheduler.wanted_mode
        self.model.before_placement(self.scheduler)
        twin = restored(self.scheduler)
        starts = self.scheduler.place(self.now)
        assert twin.place(self.now) == starts, "a new owner would have placed otherwise"
        assert not starts or before is Mode.RUNNING
        for start in starts:
            self.model.started(self.scheduler, start.job)
        self.model.check_cautious(self.scheduler, [start.job for start in starts])
        self.model.check_nothing_fits(self.scheduler, self.now)
        self.preempt(twin)
        for start in starts:
            if chance.random() < 0.8:
                self.do(Spawned(job=start.job.id, attempt=start.job.issued, pid=100))

    def preempt(self, twin: Scheduler) -> None:
        """Nobody gives way who did not offer to, nor to anybody who is not urgent, nor twice."""
        book = self.scheduler.book
        before = {job_id: book[job_id] for job_id in book.active}
        most = max((book[place.job].priority for line in book.ready.values() for place in line), default=-1)
        instructions = self.scheduler.preempt(self.now)
        assert twin.preempt(self.now) == instructions, "a new owner would have chosen otherwise"
        for instruction in instructions:
            assert isinstance(instruction, Terminate)
            job = before[instruction.job]
            assert isinstance(job.state, Running)
            assert job.spec.checkpoint
            assert job.priority < most
            assert not is_urgent(job)
        self.model.ordered_of(instructions)
        assert self.scheduler.preempt(self.now) == [], "what goes already is enough"
        self.check()

    def silent(self, chance: Random) -> None:
        for job, placed in list(self.model.alive.items()):
            since = chance.choice([None, self.now - 10.0, self.now - 100.0])
            self.do(Silence(job=job, attempt=placed.attempt, since=since, may_end=chance.random() < 0.5))

    def end(self, chance: Random, job: JobId) -> None:
        attempt = self.model.alive[job].attempt
        at = self.now - chance.choice([0.0, 1.0, 1000.0])
        told: dict[str, Any] = {"outcome": any_outcome(chance), "signature": any_signature(chance)}
        by_itself = chance.random() < 0.5
        self.do(AttemptEnded(job=job, attempt=attempt, at=at, kind=any_kind(chance), by_itself=by_itself, **told))

    def late_news(self, chance: Random) -> None:
        """Of an attempt that is over: nothing changes and nothing is ordered."""
        over = [each for each in self.model.attempts() if not self.model.is_alive(*each)]
        if over:
            job, attempt = chance.choice(over)
            before = self.scheduler.book.jobs
            assert self.do(AttemptEnded(job=job, attempt=attempt, outcome=any_outcome(chance), at=self.now)) == []
            assert self.do(Spawned(job=job, attempt=attempt, pid=100)) == []
            assert self.scheduler.book.jobs is before

    def seen_alive(self, chance: Random) -> None:
        for job, placed in self.model.alive.items():
            self.do(Spawned(job=job, attempt=placed.attempt, pid=chance.choice([100, 101]), adopted=True))

    def taken_back(self, chance: Random) -> None:
        """What users ask in one turn cannot be made durable: all is as before, but for what is being ended."""
        scheduler, before = self.scheduler, list(self.scheduler.book)
        record, event = scheduler.record(), taking_back.to_now(scheduler)
        commands = len(self.model.commands)
        for _ in range(chance.randint(1, 4)):
            happen = chance.choice([self.user_command, self.user_command, self.add, self.change_of_scene, self.resume])
            happen(chance)
        starts = scheduler.place(self.now)
        for start in starts:
            self.model.started(scheduler, start.job)
        for start in starts:
            self.do(AttemptEnded(job=start.job.id, attempt=start.job.issued, outcome=NeverRan(), at=self.now))
        scheduler.handle(event, self.now)
        for job in list(scheduler.book)[len(before) :]:
            assert job.archived
        for old, new in zip(before, scheduler.book, strict=False):
            assert isinstance(new.state, Stopping) or replace(new, issued=old.issued) == old
        after = scheduler.record()
        assert (after.settings, after.breaker.streak) == (record.settings, record.breaker.streak)
        assert {scope.group for scope in after.breaker.scopes} == {scope.group for scope in record.breaker.scopes}
        assert [lane.devices for lane in after.lanes] == [lane.devices for lane in record.lanes]
        assert len(self.model.commands) - commands == len(scheduler.book) - len(before)
        self.check()

    def clock_steps(self, chance: Random) -> None:
        """What is due stays as far away as it was, but for what the user named by the clock."""
        by = chance.choice([-7200.0, -2.0, 2.0, 7200.0])
        before = {job.id: moment - self.now for job in self.scheduler.book if (moment := due(job)) is not None}
        self.now += by
        self.model.clock_stepped(by)
        self.do(ClockStepped(by))
        for job in self.scheduler.book:
            moment = due(job)
            assert (moment is None) == (job.id not in before)
            if moment is not None and moment != job.spec.not_before:
                assert abs(moment - self.now - before[job.id]) < 0.001

    def change_of_scene(self, chance: Random) -> None:
        self.do(any_change_of_scene(chance))

    def rerun_many(self, chance: Random) -> None:
        ended = [job.id for job in self.scheduler.book if isinstance(job.state, Ended) and not job.archived]
        again = chance.sample(ended, min(len(ended), chance.randint(1, 4)))
        for job in again:
            self.do(Rerun(job=job))
        self.do(TryFirst(tuple(again)))

    def resume(self, chance: Random) -> None:
        self.do(Resume())

    def look(self, chance: Random) -> None:
        """Takes a picture and asks every question."""
        self.model.took_picture(self.scheduler.snapshot())
        outlook, book = self.scheduler.outlook(self.now), self.scheduler.book
        assert outlook.at is None or outlook.at >= self.now
        assert outlook.jobs + len(outlook.unknown) <= len(book.line) + len(book.active)
        assert all(book[job].active is not None for job in outlook.unknown)
        assert all(isinstance(book[never.job].state, Queued) for never in outlook.never)
        for job in self.scheduler.book:
            reason = why(self.scheduler, job, self.now)
            assert (reason is not None) == isinstance(job.state, Waiting)
            assert reason is None or is_sentence(reason), reason

    def new_owner(self, chance: Random) -> None:
        version = self.scheduler._version
        self.scheduler = restored(self.scheduler)
        self.scheduler._version = version
        self.check()
