"""A scheduler with its clock and short ways to make things happen; every step is validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gputui.core.eta import Outlook
from gputui.core.events import (
    AddJobs,
    AttemptEnded,
    Event,
    Exited,
    Instruction,
    Mode,
    Outcome,
    Refusal,
    Settings,
    Spawned,
    Tick,
)
from gputui.core.job import Job, JobId, JobSpec, Request, StateName
from gputui.core.lanes import Lane
from gputui.core.results import JobResults
from gputui.core.scheduler import Record, Scheduler
from gputui.views.waiting import why
from support.core_validate import validate


def lanes(written: str) -> tuple[Lane, ...]:
    """`0 0 1` is three lanes, `0+1` a group, `cpu` a lane without a GPU."""
    devices = (() if word == "cpu" else tuple(word.split("+")) for word in written.split())
    return tuple(Lane(number, each) for number, each in enumerate(devices))


def spec(command: str = "train", *, gpus: int | None = None, devices: tuple[str, ...] = (), **rest: Any) -> JobSpec:
    """A job as a source would give it."""
    return JobSpec(command=command, cwd="/", environment="e", request=Request(gpus, devices), **rest)


class World:
    """Stands for the owner, the engine and the clock."""

    def __init__(self, gpus: str = "0", **settings: Any) -> None:
        self.now = 1000.0
        self.scheduler = Scheduler(Record(settings=Settings(**settings), lanes=lanes(gpus)))

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
        """Gives the free lanes away; the ids of the jobs that were started."""
        started = [start.job.id for start in self.scheduler.place(self.now)]
        validate(self.scheduler)
        return started

    def start(self) -> list[JobId]:
        """Places, and lets what was placed be running."""
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
        """The next job in the line starts, takes its time and ends."""
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

    def line(self) -> list[JobId]:
        """All waiting jobs as the user sees them."""
        return [place.job for place in self.scheduler.book.line]

    def gpus(self, job: JobId) -> tuple[str, ...]:
        placed = self.job(job).active
        assert placed is not None
        return placed.gpus

    def outlook(self, results: Mapping[JobId, JobResults] | None = None) -> Outlook:
        return self.scheduler.outlook(self.now, results or {})

    def why(self, job: JobId) -> str | None:
        return why(self.scheduler, self.job(job), self.now)

    def refused(self, event: Event) -> str:
        """The sentence of a refusal, which must have changed nothing."""
        before = (self.scheduler.record(), list(self.scheduler.book))
        with pytest.raises(Refusal) as refusal:
            self.do(event)
        validate(self.scheduler)
        assert (self.scheduler.record(), list(self.scheduler.book)) == before
        return str(refusal.value)


def is_sentence(text: str) -> bool:
    """What a refusal must be: one line, one sentence, no full stop."""
    return bool(text) and "\n" not in text and ". " not in text and text[-1] not in ".:;,"
