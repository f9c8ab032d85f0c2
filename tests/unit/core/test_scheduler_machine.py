"""The scheduler under every event in any order, checked after each one."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.core import is_sentence, restored, slots, validate

from gputui.core import events
from gputui.core import job as states
from gputui.core.book import Book, due
from gputui.core.breaker import Probe, Scope, ScopeState
from gputui.core.eta import estimate_outlook
from gputui.core.events import Event, Instruction, Mode, Outcome, Refusal
from gputui.core.job import (
    URGENT_PRIORITY,
    CrashKind,
    Job,
    JobId,
    JobSpec,
    OnHang,
    OnOom,
    Placed,
    Purpose,
    Request,
    StateName,
)
from gputui.core.placement import is_urgent
from gputui.core.scheduler import TRANSITIONS, Record, Scheduler, Undo
from gputui.core.slots import DeviceFacts
from gputui.core.snapshot import Snapshot
from gputui.views.waiting import why


def _apart(placed: Placed) -> Placed:
    """Without whether it shared its devices."""
    return replace(placed, shared=False)


def _check_company(scheduler: Scheduler, alive: dict[JobId, Placed]) -> None:
    for job, placed in alive.items():
        others = {gpu for other in alive if other != job for gpu in alive[other].gpus}
        assert placed.shared or others.isdisjoint(placed.gpus), "company that nobody noted"
        assert not scheduler.book[job].request.alone or others.isdisjoint(placed.gpus), "not alone"


class Model:
    """The attempts that were started and the snapshots that were returned."""

    def __init__(self) -> None:
        self.ordered: set[tuple[JobId, int]] = set()
        self.alive: dict[JobId, Placed] = {}
        self.memory: dict[JobId, int] = {}
        self.commands: list[str] = []
        self.pictures: list[tuple[Snapshot, list[Job]]] = []
        self.paused: tuple[Scope, ...] = ()
        self.eligible: set[JobId] = set()
        self.keys: dict[str, JobId] = {}
        self.revoked: set[str] = set()

    def attempts(self) -> list[tuple[JobId, int]]:
        return sorted(self.ordered)

    def is_alive(self, job: JobId, attempt: int) -> bool:
        return job in self.alive and self.alive[job].attempt == attempt

    def ordered_of(self, instructions: list[Instruction]) -> None:
        """Instructions are only about live attempts, and SIGKILL is sent once."""
        for instruction in instructions:
            assert not isinstance(instruction, events.Start)
            assert self.is_alive(instruction.job, instruction.attempt)
        kills = [instruction for instruction in instructions if isinstance(instruction, events.KillTree)]
        assert len(kills) == len(set(kills))

    def started(self, scheduler: Scheduler, job: Job) -> None:
        placed = job.active
        assert placed is not None
        assert (job.id, placed.attempt) not in self.ordered, "an attempt was ordered twice"
        assert job.id not in self.alive, "a job runs twice"
        self.ordered.add((job.id, placed.attempt))
        self._check_slots(scheduler, job, placed)
        self.alive[job.id] = _apart(placed)
        for earlier in job.after:
            end = scheduler.book[earlier].state
            assert isinstance(end, states.Ended if job.spec.after_any else states.Succeeded), "started too early"

    def clock_stepped(self, by: float) -> None:
        self.alive = {job: replace(placed, since=placed.since + by) for job, placed in self.alive.items()}

    def _check_slots(self, scheduler: Scheduler, job: Job, placed: Placed) -> None:
        on_offer = {slot.id: slot for slot in scheduler.board.slots}
        taken = {slot for other in self.alive.values() for slot in other.slots}
        assert taken.isdisjoint(placed.slots), "a slot runs two jobs"
        device_keys = [device_key for slot in placed.slots for device_key in on_offer[slot].device_keys]
        assert len(device_keys) == len(set(device_keys)), "one device twice"
        request = job.spec.request
        assert len(device_keys) >= (1 if request.gpus is None else request.gpus)
        assert bool(device_keys) == (request.gpus != 0)
        assert not request.devices or set(placed.gpus) <= set(request.devices)
        self._check_capacity(scheduler, placed)
        self._check_manners(scheduler, job, placed)

    def _check_manners(self, scheduler: Scheduler, job: Job, placed: Placed) -> None:
        """External processes are left alone, memory is promised once, no more devices are used than allowed."""
        for device in placed.gpus:
            facts = scheduler.board.devices._facts.get(device, DeviceFacts())
            assert facts.blocked is None, "an external process was disturbed"
            if facts.memory_total is not None and facts.memory_used is not None and job.spec.request.memory:
                promised = [self.memory[other] for other in self.alive if device in self.alive[other].gpus]
                assert facts.memory_used + sum(promised) + job.spec.request.memory <= facts.memory_total
        most = scheduler.most_devices()
        before = {device for other in self.alive.values() for device in other.gpus}
        assert most is None or before >= set(placed.gpus) or len(before | set(placed.gpus)) <= most
        self.memory[job.id] = job.spec.request.memory or 0

    def _check_capacity(self, scheduler: Scheduler, placed: Placed) -> None:
        capacity = Counter(device for slot in scheduler.board.slots for device in slot.devices)
        used = Counter(device for other in (*self.alive.values(), placed) for device in other.gpus)
        assert all(used[device] <= capacity[device] for device in placed.gpus), "a device has too many jobs"
        if not placed.slots:
            cpu_jobs = 1 + sum(not other.slots for other in self.alive.values())
            assert cpu_jobs <= scheduler.settings.cpu_jobs

    def before_placement(self, scheduler: Scheduler) -> None:
        self.paused = scheduler.breaker.paused_scopes
        self.eligible = {job.id for job in scheduler.book if isinstance(job.state, states.Queued)}

    def check_cautious(self, scheduler: Scheduler, started: list[Job]) -> None:
        """In a paused scope nothing starts but an eligible probe that was due."""
        for scope in self.paused:
            of_scope = [job for job in started if scope.group in (None, job.spec.group)]
            assert len(of_scope) <= (scope.state is ScopeState.PAUSED and scope.due), "more than one was tried"
            for job in of_scope:
                now = scheduler.breaker.scope_pausing(job.spec.group)
                assert job.id in self.eligible
                assert now is not None
                assert now.probe == Probe(job.id, job.issued)
        assert {scope.group for scope in self.paused} == {scope.group for scope in scheduler.breaker.paused_scopes}

    def ended(self, job: JobId, attempt: int) -> None:
        if self.is_alive(job, attempt):
            del self.alive[job]

    def check(self, scheduler: Scheduler) -> None:
        assert [job.spec.command for job in scheduler.book] == self.commands, "a job was lost"
        alive = {job.id: job.active for job in scheduler.book if job.active is not None}
        assert {job: _apart(placed) for job, placed in alive.items()} == self.alive
        _check_company(scheduler, alive)
        for job in scheduler.book:
            assert {(job.id, attempt.number) for attempt in job.attempts} <= self.ordered

    def check_nothing_fits(self, scheduler: Scheduler, now: float) -> None:
        """After placement no job waits for a free slot, unless it is reserved."""
        waiting = [job for job in scheduler.book if isinstance(job.state, states.Queued)]
        if scheduler.wanted_mode is not Mode.RUNNING or now < scheduler.starts_again_at:
            return
        patience = scheduler.settings.patience
        if any(isinstance(job.state, states.Queued) and now - job.state.since >= patience for job in waiting):
            return
        for job in waiting:
            scope = scheduler.breaker.scope_pausing(job.spec.group)
            if scope is not None and (not scope.due or scope.first is not None):
                continue
            if job.spec.request.gpus != 0 and _is_over_budget(scheduler, job, now):
                continue
            if job.spec.request.gpus == 0:
                assert scheduler.cpu_jobs_running >= scheduler.settings.cpu_jobs
            else:
                assert scheduler.fit(job.request) is None, f"#{job.id} could run"

    def check_keys(self, book: Book) -> None:
        """A key belongs to its first job for ever, and a revoked one to none that has run."""
        assert self.keys.items() <= book.keys.items()
        assert self.revoked <= book.revoked
        for key in book.revoked & book.keys.keys():
            job = book[book.keys[key]]
            assert job.archived
            assert not job.attempts
        self.keys, self.revoked = dict(book.keys), set(book.revoked)

    def took_picture(self, picture: Snapshot) -> None:
        """`changed` lists exactly what differs from the previous snapshot."""
        before = self.pictures[-1][1] if self.pictures else []
        jobs = list(picture.jobs)
        differing = {job.id for job in jobs if job.id >= len(before) or before[job.id] != job}
        assert differing <= picture.changed
        self.pictures.append((picture, jobs))

    def check_pictures(self) -> None:
        assert all(list(picture.jobs) == jobs for picture, jobs in self.pictures)
        versions = [picture.version for picture, _ in self.pictures]
        assert versions == sorted(set(versions))


def _is_over_budget(scheduler: Scheduler, job: Job, now: float) -> bool:
    used: defaultdict[str, float] = defaultdict(float)
    for other in scheduler.book:
        used[other.spec.group] += sum(attempt.seconds * len(attempt.gpus) for attempt in other.attempts)
        if other.active is not None:
            used[other.spec.group] += max(0.0, now - other.active.since) * len(other.active.gpus)
    own, total = job.request.budget, scheduler.settings.budget
    return (own is not None and used[job.spec.group] >= own) or (total is not None and sum(used.values()) >= total)


NAMES = ("prepare", "train", "evaluate")


SLOTS = ("0", "0 1", "0 0 1", "0 1 2 3", "0 1 2 3", "0+1 2+3", "0+1 2", "cpu cpu", "0 cpu", "")


COUNTS = (None, None, None, None, 0, 1, 1, 2, 2, 9)


DEVICES = ((), (), (), (), (), ("0",), ("0", "1"), ("7",))


OUTCOMES = (
    events.NodeFailed("its node failed"),
    events.Vanished("rebooted"),
    events.NeverRan(),
    events.NotStarted("its directory is gone"),
    events.NoRoom("the disk is full"),
)


KEYS = tuple(f"k{number}" for number in range(12))


def any_spec(chance: Random, first: JobId) -> JobSpec:
    """`first` is the next free id."""
    priority = chance.choice([30, 30, 30, 0, 99])
    return JobSpec(
        command=f"c{first}",
        cwd="/",
        environment=chance.choice(["e1", "e2"]),
        name=chance.choice([None, None, *NAMES]),
        group=chance.choice(["", "sweep"]),
        request=Request(
            chance.choice(COUNTS),
            chance.choice(DEVICES),
            chance.choice([None, None, None, 6]),
            budget=chance.choice([None, None, None, 300.0]),
        ),
        priority=priority,
        preempt=priority >= URGENT_PRIORITY and chance.random() < 0.7,
        retries=chance.choice([0, 0, 1, 2]),
        retry_on=chance.choice([(), (), ("oom", "exit:1"), ("signal", "node", "hang")]),
        on_oom=chance.choice(list(OnOom)),
        hang_after=chance.choice([0.0, 60.0]),
        on_hang=chance.choice(list(OnHang)),
        checkpoint=chance.random() < 0.5,
        timeout=chance.choice([None, None, 5.0, 60.0]),
        after=_any_earlier(chance, first),
        after_any=chance.random() < 0.3,
        not_before=chance.choice([None, None, None, 1010.0, 2000.0]),
        hold=chance.random() < 0.1,
        key=chance.choice(KEYS) if chance.random() < 0.1 else None,
    )


def _any_earlier(chance: Random, first: JobId) -> tuple[JobId | str, ...]:
    """Mostly existing jobs, sometimes one of the same batch, a name, or an unknown id."""
    if chance.random() < 0.1:
        unsure: list[JobId | str] = [chance.choice(NAMES), first + chance.randrange(4)]
        return (chance.choice(unsure),)
    count = chance.choice([0, 0, 1, 2, 3])
    return tuple(chance.randrange(max(0, first - 8), first) for _ in range(count)) if first else ()


def any_outcome(chance: Random) -> Outcome:
    if chance.random() < 0.75:
        return events.Exited(chance.choice([0, 0, 0, 1, 1, 137, 255]))
    return chance.choice(OUTCOMES)


def any_kind(chance: Random) -> CrashKind | None:
    return chance.choice([None, CrashKind.OOM_GPU, CrashKind.OOM_GPU, CrashKind.EXCEPTION])


def any_signature(chance: Random) -> str | None:
    return chance.choice([None, "CUDA out of memory", "No module named 'timm'"])


def any_seen(chance: Random, job: Job) -> events.Seen | None:
    if chance.random() < 0.1:
        return events.Seen(chance.randrange(3), chance.choice(list(StateName)))
    return chance.choice([None, events.Seen(job.issued, job.state.name)])


def any_command(chance: Random, job: Job, end: JobId) -> events.UserCommand:
    """A command on a job, mostly one that is possible in its state."""
    about: dict[str, Any] = {"job": job.id, "seen": any_seen(chance, job)}
    every: list[events.UserCommand] = [
        *(
            kind(**about)
            for kind in (events.Hold, events.Release, events.Suspend, events.Continue, events.Requeue, events.Remove)
        ),
        events.Kill(**about, now=chance.random() < 0.3),
        events.Rerun(**about, environment=chance.choice([None, "e3"])),
        events.Move(**about, where=chance.choice(list(events.MoveTarget)), before=chance.randrange(end)),
        events.SetPriority(**about, priority=chance.choice([-1, 0, 30, 99])),
        _any_edit(chance, job, end, about),
    ]
    possible = [command for command in every if (type(job.state), type(command)) in TRANSITIONS]
    return chance.choice(possible if chance.random() < 0.9 else every)


def _any_edit(chance: Random, job: Job, end: JobId, about: dict[str, Any]) -> events.Edit:
    spec = any_spec(chance, end)
    fields = {name: getattr(spec, name) for name in spec.__struct_fields__} | {"command": job.spec.command}
    return events.Edit(**about, spec=JobSpec(**fields))


def any_change_of_scene(chance: Random) -> Event:
    new_settings = events.Settings(
        pause_after=chance.choice([0, 1, 3]),
        grace=chance.choice([0.0, 30.0]),
        cpu_jobs=chance.choice([0, 1, 3]),
        patience=chance.choice([0.0, 300.0]),
        max_gpus=chance.choice([None, None, 1, 2]),
        keep_free=chance.choice([0, 0, 1]),
        budget=chance.choice([None, None, 2000.0]),
        probe=chance.choice([None, 0.0, 5.0, 600.0]),
    )
    new_slots = events.SetSlots(slots(chance.choice(SLOTS)))
    seen = events.DevicesSeen({device: _any_facts(chance) for device in "0123"})
    changes: list[Event] = [
        new_settings,
        new_slots,
        seen,
        seen,
        events.Drain(),
        events.Pause(),
        events.Pause(events.PauseKind.STOPPED),
        *[events.RevokeKey(chance.choice(KEYS))] * 2,
    ]
    return chance.choice(changes)


def _any_facts(chance: Random) -> DeviceFacts:
    """Mostly free devices of ten bytes, some without driver data."""
    return DeviceFacts(
        blocked=chance.choice([None, None, None, "used by alice"]),
        memory_total=chance.choice([None, 10, 10, 20]),
        crowded=chance.random() < 0.2,
        memory_used=chance.choice([None, 0, 0, 3, 8]),
    )


MOST_JOBS = 20


class Driver:
    """Methods for everything that can happen; a refused event must change nothing."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.scheduler = Scheduler(Record(slots=slots("0 1 2")))
        self.model = Model()
        self.undos: list[Undo] = []
        """What the commands so far changed."""

    def do(self, event: Event | Undo) -> list[Instruction]:
        before = (self.scheduler.record(), self.scheduler.book.version)
        instructions: list[Instruction] = []
        refusal = None
        try:
            instructions = self.scheduler.handle(event, self.now)
        except Refusal as refused:
            refusal = str(refused)
        if refusal is not None:
            assert is_sentence(refusal), refusal
            assert self.scheduler.record() == before[0]
            assert self.scheduler.book.version == before[1]
        self.model.ordered_of(instructions)
        if isinstance(event, events.AttemptEnded):
            self.model.ended(event.job, event.attempt)
        self.check()
        return instructions

    def check(self) -> None:
        validate(self.scheduler)
        self.model.check(self.scheduler)
        self.model.check_keys(self.scheduler.book)

    def add(self, chance: Random) -> None:
        first = self.scheduler.book.next_id
        if sum(not job.archived for job in self.scheduler.book) >= MOST_JOBS:
            return
        specs = [replace(any_spec(chance, first), command=f"c{first + n}") for n in range(chance.randint(1, 4))]
        self.model.commands += [spec.command for spec in specs]
        try:
            self.scheduler.handle(events.AddJobs(tuple(specs)), self.now)
        except Refusal:
            del self.model.commands[first:]
        self.check()

    def user_command(self, chance: Random) -> None:
        end = self.scheduler.book.next_id
        if end:
            command = any_command(chance, self.scheduler.book[chance.randrange(end)], end)
            self.undos.append(self.scheduler.changes_of(lambda: self.do(command))[1])

    def undo(self, chance: Random) -> None:
        """Commands are taken back, whatever has happened since; their jobs may be ready to start by now."""
        if self.undos:
            self._take_back(self.undos.pop(chance.randrange(len(self.undos))))

    def undo_at_once(self, chance: Random) -> None:
        """A command that is undone at once leaves nothing but its entries in the history."""
        before = list(self.scheduler.book)
        scopes = self.scheduler.breaker
        self.user_command(chance)
        if self.undos and self.undos[-1].possible:
            self._take_back(self.undos.pop())
            assert self.scheduler.breaker == scopes
            for old, new in zip(before, self.scheduler.book, strict=True):
                assert type(new.state) is type(old.state), (old, new)
                assert replace(new, state=old.state) == old

    def _take_back(self, undo: Undo) -> None:
        active = dict(self.model.alive)
        self.do(undo)
        assert active == self.model.alive, "undoing starts and ends nothing"

    def turn(self, chance: Random) -> None:
        """Some attempts end, times come, then jobs are placed once."""
        self.now += chance.choice([0.5, 3.0, 6.0, 30.0, 400.0])
        for job in sorted(self.model.alive):
            if chance.random() < 0.4:
                self.end(chance, job)
        self.do(events.Tick())
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
                self.do(events.Spawned(job=start.job.id, attempt=start.job.issued, pid=100))

    def preempt(self, twin: Scheduler) -> None:
        """Only jobs with checkpoints are preempted, only for urgent ones, and only once."""
        book = self.scheduler.book
        before = {job_id: book[job_id] for job_id in book.active}
        most = max((book[place.job].priority for line in book.ready.values() for place in line), default=-1)
        instructions = self.scheduler.preempt(self.now)
        assert twin.preempt(self.now) == instructions, "a new owner would have chosen otherwise"
        for instruction in instructions:
            assert isinstance(instruction, events.Terminate)
            job = before[instruction.job]
            assert isinstance(job.state, states.Running)
            assert job.spec.checkpoint
            assert job.priority < most
            assert not is_urgent(job)
        self.model.ordered_of(instructions)
        assert self.scheduler.preempt(self.now) == [], "what goes already is enough"
        self.check()

    def silent(self, chance: Random) -> None:
        for job, placed in list(self.model.alive.items()):
            since = chance.choice([None, self.now - 10.0, self.now - 100.0])
            self.do(events.Silence(job=job, attempt=placed.attempt, since=since, may_end=chance.random() < 0.5))

    def end(self, chance: Random, job: JobId) -> None:
        attempt = self.model.alive[job].attempt
        at = self.now - chance.choice([0.0, 1.0, 1000.0])
        told: dict[str, Any] = {"outcome": any_outcome(chance), "signature": any_signature(chance)}
        by_itself = chance.random() < 0.5
        self.do(
            events.AttemptEnded(job=job, attempt=attempt, at=at, kind=any_kind(chance), by_itself=by_itself, **told)
        )

    def late_news(self, chance: Random) -> None:
        """Reports on ended attempts change nothing and return no instructions."""
        over = [each for each in self.model.attempts() if not self.model.is_alive(*each)]
        if over:
            job, attempt = chance.choice(over)
            before = self.scheduler.book.version
            assert (
                self.do(events.AttemptEnded(job=job, attempt=attempt, outcome=any_outcome(chance), at=self.now)) == []
            )
            assert self.do(events.Spawned(job=job, attempt=attempt, pid=100)) == []
            assert self.scheduler.book.version == before

    def seen_alive(self, chance: Random) -> None:
        for job, placed in self.model.alive.items():
            self.do(events.Spawned(job=job, attempt=placed.attempt, pid=chance.choice([100, 101]), adopted=True))

    def taken_back(self, chance: Random) -> None:
        """Commands of a turn that could not be stored are taken back, except for attempts being stopped."""
        scheduler, before = self.scheduler, list(self.scheduler.book)
        record, event = scheduler.record(), scheduler.savepoint()
        commands = len(self.model.commands)
        keys, revoked = self.model.keys, self.model.revoked
        for _ in range(chance.randint(1, 4)):
            happen = chance.choice([self.user_command, self.user_command, self.add, self.change_of_scene, self.resume])
            happen(chance)
        starts = scheduler.place(self.now)
        for start in starts:
            self.model.started(scheduler, start.job)
        for start in starts:
            self.do(
                events.AttemptEnded(job=start.job.id, attempt=start.job.issued, outcome=events.NeverRan(), at=self.now)
            )
        scheduler.handle(event, self.now)
        assert (scheduler.book.keys, scheduler.book.revoked) == (keys, revoked)
        self.model.keys, self.model.revoked = keys, revoked
        for job in list(scheduler.book)[len(before) :]:
            assert job.archived
        for old, new in zip(before, scheduler.book, strict=False):
            assert isinstance(new.state, states.Stopping) or replace(new, issued=old.issued) == old
        after = scheduler.record()
        assert (after.settings, after.breaker.streak) == (record.settings, record.breaker.streak)
        assert {scope.group for scope in after.breaker.scopes} == {scope.group for scope in record.breaker.scopes}
        assert [slot.devices for slot in after.slots] == [slot.devices for slot in record.slots]
        assert len(self.model.commands) - commands == len(scheduler.book) - len(before)
        self.check()

    def clock_steps(self, chance: Random) -> None:
        """Due times keep their distance, except for start times set by the user."""
        by = chance.choice([-7200.0, -2.0, 2.0, 7200.0])
        before = {job.id: due(job) for job in self.scheduler.book}
        self.now += by
        self.model.clock_stepped(by)
        self.do(events.ClockStepped(by))
        for job in self.scheduler.book:
            was_due = before[job.id]
            if was_due is None or was_due == job.spec.not_before:
                assert due(job) == was_due
            else:
                assert due(job) == pytest.approx(was_due + by, abs=0.001)

    def change_of_scene(self, chance: Random) -> None:
        self.do(any_change_of_scene(chance))

    def rerun_many(self, chance: Random) -> None:
        ended = [job.id for job in self.scheduler.book if isinstance(job.state, states.Ended) and not job.archived]
        again = chance.sample(ended, min(len(ended), chance.randint(1, 4)))
        for job in again:
            self.do(events.Rerun(job=job))
        self.do(events.TryFirst(tuple(again)))

    def resume(self, chance: Random) -> None:
        self.do(events.Resume())

    def look(self, chance: Random) -> None:
        """Take a snapshot and ask every question."""
        self.model.took_picture(self.scheduler.snapshot())
        outlook, book = estimate_outlook(self.scheduler, self.now), self.scheduler.book
        assert outlook.at is None or outlook.at >= self.now
        assert outlook.jobs + len(outlook.unknown) <= len(book.line) + len(book.active)
        assert all(book[job].active is not None for job in outlook.unknown)
        assert all(isinstance(book[never.job].state, states.Queued) for never in outlook.never)
        for job in self.scheduler.book:
            reason = why(self.scheduler, job, self.now)
            preempted = isinstance(job.state, states.Stopping) and job.state.purpose is Purpose.PREEMPT
            assert (reason is not None) == (isinstance(job.state, states.Waiting) or preempted)
            assert reason is None or is_sentence(reason), reason

    def new_owner(self, chance: Random) -> None:
        version = self.scheduler._version
        self.scheduler = restored(self.scheduler)
        self.scheduler._version = version
        self.check()


WEIGHTS = {
    Driver.user_command: 10,
    Driver.turn: 8,
    Driver.add: 4,
    Driver.resume: 2,
    Driver.change_of_scene: 1,
    Driver.late_news: 1,
    Driver.seen_alive: 1,
    Driver.silent: 1,
    Driver.place: 1,
    Driver.look: 1,
    Driver.new_owner: 1,
    Driver.taken_back: 2,
    Driver.clock_steps: 1,
    Driver.rerun_many: 1,
    Driver.undo: 2,
    Driver.undo_at_once: 2,
}


def walk(chance: Random, steps: int) -> None:
    driver, ways = Driver(), [happen for happen, weight in WEIGHTS.items() for _ in range(weight)]
    for _ in range(steps):
        chance.choice(ways)(driver, chance)
    driver.model.check_pictures()


@settings(
    max_examples=100,
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=list(HealthCheck),
)
@given(st.randoms(use_true_random=False))
def test_random_walks_keep_all_invariants(chance: Random) -> None:
    """Hypothesis chooses what happens, and finds the shortest history of a failure."""
    walk(chance, 40)


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(20, 200))])
def test_long_random_walks_keep_all_invariants(seed: int) -> None:
    """Walks deeper than a search can afford; the seed is the history."""
    walk(Random(seed), 300)
