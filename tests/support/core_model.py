"""What must hold of a scheduler, remembered and checked without trusting its own indexes."""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec.structs import replace

from gputui.core.breaker import Probe, Scope, ScopeState
from gputui.core.events import Instruction, KillTree, Mode, Start
from gputui.core.job import Ended, Job, JobId, Placed, Queued, Succeeded
from gputui.core.lanes import DeviceFacts
from gputui.core.scheduler import Record, Scheduler
from gputui.core.snapshot import Snapshot


def restored(scheduler: Scheduler) -> Scheduler:
    """The same session, opened by another owner from what the store keeps."""
    record = msgspec.json.decode(msgspec.json.encode(scheduler.record()), type=Record)
    jobs = [msgspec.json.decode(msgspec.json.encode(job), type=Job) for job in scheduler.book]
    assert record == scheduler.record()
    assert jobs == list(scheduler.book)
    twin = Scheduler(record, jobs)
    twin.starts_again_at = scheduler.starts_again_at
    twin.board.cards.see(scheduler.board.cards._facts)
    return twin


def _apart(placed: Placed) -> Placed:
    """Whatever company it had."""
    return replace(placed, shared=False)


def _check_company(scheduler: Scheduler, alive: dict[JobId, Placed]) -> None:
    for job, placed in alive.items():
        others = {gpu for other in alive if other != job for gpu in alive[other].gpus}
        assert placed.shared or others.isdisjoint(placed.gpus), "company that nobody noted"
        assert not scheduler.book[job].request.alone or others.isdisjoint(placed.gpus), "not alone"


class Model:
    """The attempts that were ordered and the pictures that were handed out."""

    def __init__(self) -> None:
        self.ordered: set[tuple[JobId, int]] = set()
        self.alive: dict[JobId, Placed] = {}
        self.memory: dict[JobId, int] = {}
        self.commands: list[str] = []
        self.pictures: list[tuple[Snapshot, list[Job]]] = []
        self.cautious: tuple[Scope, ...] = ()
        self.eligible: set[JobId] = set()

    def attempts(self) -> list[tuple[JobId, int]]:
        return sorted(self.ordered)

    def is_alive(self, job: JobId, attempt: int) -> bool:
        return job in self.alive and self.alive[job].attempt == attempt

    def ordered_of(self, instructions: list[Instruction]) -> None:
        """Orders may only be about attempts that live, and SIGKILL is sent once."""
        for instruction in instructions:
            assert not isinstance(instruction, Start)
            assert self.is_alive(instruction.job, instruction.attempt)
        kills = [instruction for instruction in instructions if isinstance(instruction, KillTree)]
        assert len(kills) == len(set(kills))

    def started(self, scheduler: Scheduler, job: Job) -> None:
        placed = job.active
        assert placed is not None
        assert (job.id, placed.attempt) not in self.ordered, "an attempt was ordered twice"
        assert job.id not in self.alive, "a job runs twice"
        self.ordered.add((job.id, placed.attempt))
        self._check_lanes(scheduler, job, placed)
        self.alive[job.id] = _apart(placed)
        for earlier in job.after:
            end = scheduler.book[earlier].state
            assert isinstance(end, Ended if job.spec.after_any else Succeeded), "started too early"

    def clock_stepped(self, by: float) -> None:
        self.alive = {job: replace(placed, since=placed.since + by) for job, placed in self.alive.items()}

    def _check_lanes(self, scheduler: Scheduler, job: Job, placed: Placed) -> None:
        on_offer = {lane.id: lane for lane in scheduler.board.lanes}
        taken = {lane for other in self.alive.values() for lane in other.lanes}
        assert taken.isdisjoint(placed.lanes), "a lane runs two jobs"
        slots = [slot for lane in placed.lanes for slot in on_offer[lane].slots]
        assert len(slots) == len(set(slots)), "one device twice"
        request = job.spec.request
        assert len(slots) >= (1 if request.gpus is None else request.gpus)
        assert bool(slots) == (request.gpus != 0)
        assert not request.devices or set(placed.gpus) <= set(request.devices)
        self._check_capacity(scheduler, placed)
        self._check_manners(scheduler, job, placed)

    def _check_manners(self, scheduler: Scheduler, job: Job, placed: Placed) -> None:
        """Strangers are left alone, memory is not promised twice, and no more devices are used than allowed."""
        for device in placed.gpus:
            facts = scheduler.board.cards._facts.get(device, DeviceFacts())
            assert facts.blocked is None, "a stranger was disturbed"
            if facts.memory_total is not None and facts.memory_used is not None and job.spec.request.memory:
                promised = [self.memory[other] for other in self.alive if device in self.alive[other].gpus]
                assert facts.memory_used + sum(promised) + job.spec.request.memory <= facts.memory_total
        most = scheduler.most_devices()
        before = {device for other in self.alive.values() for device in other.gpus}
        assert most is None or before >= set(placed.gpus) or len(before | set(placed.gpus)) <= most
        self.memory[job.id] = job.spec.request.memory or 0

    def _check_capacity(self, scheduler: Scheduler, placed: Placed) -> None:
        capacity = Counter(device for lane in scheduler.board.lanes for device in lane.devices)
        used = Counter(device for other in (*self.alive.values(), placed) for device in other.gpus)
        assert all(used[device] <= capacity[device] for device in placed.gpus), "a device has too many jobs"
        if not placed.lanes:
            cpu_jobs = 1 + sum(not other.lanes for other in self.alive.values())
            assert cpu_jobs <= scheduler.settings.cpu_jobs

    def before_placement(self, scheduler: Scheduler) -> None:
        self.cautious = scheduler.breaker.cautious
        self.eligible = {job.id for job in scheduler.book if isinstance(job.state, Queued)}

    def check_cautious(self, scheduler: Scheduler, started: list[Job]) -> None:
        """Where jobs crashed nothing starts, but one that was due and eligible, and that one is being tried."""
        for scope in self.cautious:
            of_scope = [job for job in started if scope.group in (None, job.spec.group)]
            assert len(of_scope) <= (scope.state is ScopeState.OPEN and scope.due), "more than one was tried"
            for job in of_scope:
                now = scheduler.breaker.over(job.spec.group)
                assert job.id in self.eligible
                assert now is not None
                assert now.probe == Probe(job.id, job.issued)
        assert {scope.group for scope in self.cautious} == {scope.group for scope in scheduler.breaker.cautious}

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
        """After placement no job waits for a lane that is free, unless lanes are kept for one."""
        waiting = [job for job in scheduler.book if isinstance(job.state, Queued)]
        if scheduler.wanted_mode is not Mode.RUNNING or now < scheduler.starts_again_at:
            return
        patience = scheduler.settings.patience
        if any(isinstance(job.state, Queued) and now - job.state.since >= patience for job in waiting):
            return
        for job in waiting:
            scope = scheduler.breaker.over(job.spec.group)
            if scope is not None and (not scope.due or scope.first is not None):
                continue
            if job.spec.request.gpus == 0:
                assert scheduler.cpu_jobs_running >= scheduler.settings.cpu_jobs
            else:
                assert scheduler.fit(job.request) is None, f"#{job.id} could run"

    def took_picture(self, picture: Snapshot) -> None:
        """`changed` says exactly what differs from the picture before."""
        before = self.pictures[-1][1] if self.pictures else []
        jobs = list(picture.jobs)
        differing = {job.id for job in jobs if job.id >= len(before) or before[job.id] != job}
        assert differing <= picture.changed
        self.pictures.append((picture, jobs))

    def check_pictures(self) -> None:
        assert all(list(picture.jobs) == jobs for picture, jobs in self.pictures)
        versions = [picture.version for picture, _ in self.pictures]
        assert versions == sorted(set(versions))
