"""The cost of an event does not grow with the queue: counted in operations, not in time."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
from support.core_world import lanes, spec
from support.operations import operations

from gputui.core.events import (
    AddJobs,
    AttemptEnded,
    Edit,
    Exited,
    Hold,
    Kill,
    Move,
    MoveTarget,
    Release,
    Remove,
    Rerun,
    Resume,
    SetPriority,
    Spawned,
)
from gputui.core.job import JobId
from gputui.core.scheduler import Record, Scheduler

SHORT, LONG = 100, 100_000


def queue(length: int) -> Scheduler:
    """Four lanes busy, the rest waiting; a tenth of it named, in two groups and four priorities."""
    scheduler = Scheduler(Record(lanes=lanes("0 1 2 3")))
    kinds = [spec(group=str(n % 2), priority=30 + n % 4, name="ten" if n % 10 == 0 else None) for n in range(20)]
    scheduler.handle(AddJobs(tuple(kinds[number % 20] for number in range(length))), 0.0)
    for start in scheduler.place(0.0):
        scheduler.handle(Spawned(job=start.job.id, attempt=1, pid=1), 0.0)
    scheduler.snapshot()
    return scheduler


@pytest.fixture(scope="module")
def queues() -> tuple[Scheduler, Scheduler]:
    began = time.perf_counter()
    long = queue(LONG)
    print(f"{LONG} jobs added and placed in {time.perf_counter() - began:.2f} s")
    return queue(SHORT), long


def end_and_start(scheduler: Scheduler) -> None:
    job = min(scheduler.book.active)
    attempt = scheduler.book[job].issued
    scheduler.handle(AttemptEnded(job=job, attempt=attempt, outcome=Exited(0), at=1.0), 1.0)
    for start in scheduler.place(1.0):
        scheduler.handle(Spawned(job=start.job.id, attempt=1, pid=1), 1.0)


def waiting(scheduler: Scheduler) -> JobId:
    """One from the middle of the line, the same for both lengths but for its number."""
    return next(job for job in range(len(scheduler.book) // 2, len(scheduler.book)) if job not in scheduler.book.active)


def hold_and_release(scheduler: Scheduler) -> None:
    scheduler.handle(Hold(job=waiting(scheduler)), 1.0)
    scheduler.handle(Release(job=waiting(scheduler)), 1.0)


def change_priority(scheduler: Scheduler) -> None:
    scheduler.handle(SetPriority(job=waiting(scheduler), priority=77), 1.0)
    scheduler.handle(SetPriority(job=waiting(scheduler), priority=31), 1.0)


def move_about(scheduler: Scheduler) -> None:
    job = waiting(scheduler)
    for where in (MoveTarget.DOWN, MoveTarget.UP, MoveTarget.TOP, MoveTarget.BOTTOM, MoveTarget.BEFORE):
        scheduler.handle(Move(job=job, where=where, before=job + 4), 1.0)


def move_a_hundred_times_between_two(scheduler: Scheduler) -> None:
    first = waiting(scheduler)
    for number in range(100):
        scheduler.handle(Move(job=first + number % 2, where=MoveTarget.BEFORE, before=first + 2), 1.0)


def kill_waiting_and_rerun(scheduler: Scheduler) -> None:
    scheduler.handle(Kill(job=waiting(scheduler)), 1.0)
    scheduler.handle(Rerun(job=waiting(scheduler), environment="mine"), 1.0)


def edit(scheduler: Scheduler) -> None:
    scheduler.handle(Edit(job=waiting(scheduler), spec=spec("other", priority=31)), 1.0)


def add_one_and_remove_it(scheduler: Scheduler) -> None:
    scheduler.handle(AddJobs((spec(),)), 1.0)
    scheduler.handle(Remove(job=scheduler.book.next_id - 1), 1.0)


def place_with_nothing_free(scheduler: Scheduler) -> None:
    assert scheduler.place(1.0) == []


def crash_and_try(scheduler: Scheduler) -> None:
    """A try that fails, and the next one, in a scope of thousands that wait."""
    for _ in range(8):
        job = min(scheduler.book.active)
        attempt = scheduler.book[job].issued
        event = AttemptEnded(job=job, attempt=attempt, outcome=Exited(1), at=2.0, signature="crash")
        scheduler.handle(event, 2.0)
        for start in scheduler.place(2.0):
            scheduler.handle(Spawned(job=start.job.id, attempt=start.job.issued, pid=1), 2.0)
    scheduler.handle(Resume(), 3.0) if scheduler.breaker.cautious else None


def look(scheduler: Scheduler) -> None:
    scheduler.snapshot()
    scheduler.record()
    scheduler.next_wakeup()


@pytest.mark.parametrize(
    "act",
    [
        end_and_start,
        hold_and_release,
        change_priority,
        move_about,
        move_a_hundred_times_between_two,
        kill_waiting_and_rerun,
        edit,
        add_one_and_remove_it,
        place_with_nothing_free,
        crash_and_try,
        look,
    ],
)
def test_an_event_costs_the_same_in_a_queue_a_thousand_times_longer(
    queues: tuple[Scheduler, Scheduler], act: Callable[[Scheduler], None]
) -> None:
    short, long = (operations(partial(act, scheduler)) for scheduler in queues)
    print(f"{act.__name__}: {short} operations among {SHORT}, {long} among {LONG}")
    assert 0 < long <= 2 * short + 200


def test_an_estimate_is_bounded(queues: tuple[Scheduler, Scheduler]) -> None:
    for scheduler in queues:
        end_and_start(scheduler)
    assert operations(lambda: queues[1].outlook(1.0)) < 20_000


def test_no_event_copies_something_as_long_as_the_queue(queues: tuple[Scheduler, Scheduler]) -> None:
    """What built-in functions do inside is not counted above, but a copy of a long list takes memory."""
    tracemalloc.start()
    try:
        for act in (end_and_start, hold_and_release, move_about, kill_waiting_and_rerun, edit, look):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            act(queues[1])
            assert tracemalloc.get_traced_memory()[1] - before < 100_000, act.__name__
    finally:
        tracemalloc.stop()


def test_a_hundred_thousand_jobs_fit_in_little_memory() -> None:
    tracemalloc.start()
    try:
        scheduler = Scheduler(Record(lanes=lanes("0 1 2 3")))
        scheduler.handle(AddJobs(tuple(spec(f"train --seed {n}", name=f"run {n}") for n in range(20_000))), 0.0)
        per_job = tracemalloc.get_traced_memory()[0] / len(scheduler.book)
    finally:
        tracemalloc.stop()
    print(f"{per_job:.0f} bytes for each job")
    assert per_job < 1350
