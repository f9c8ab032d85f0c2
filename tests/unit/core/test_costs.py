"""The cost of an event does not grow with the queue: counted in operations, not in time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
from support.core import operations, slots, spec

from gputui.core import events
from gputui.core.eta import estimate_outlook
from gputui.core.job import JobId
from gputui.core.scheduler import Record, Scheduler

SHORT, LONG = 100, 20_000


def queue(length: int) -> Scheduler:
    """Four slots busy, the rest waiting; a tenth of them named, in two groups and four priorities."""
    scheduler = Scheduler(Record(slots=slots("0 1 2 3")))
    kinds = [spec(group=str(n % 2), priority=30 + n % 4, name="ten" if n % 10 == 0 else None) for n in range(20)]
    scheduler.handle(events.AddJobs(tuple(kinds[number % 20] for number in range(length))), 0.0)
    for start in scheduler.place(0.0):
        scheduler.handle(events.Spawned(job=start.job.id, attempt=1, pid=1), 0.0)
    scheduler.snapshot()
    return scheduler


@pytest.fixture(scope="module")
def queues() -> tuple[Scheduler, Scheduler]:
    return queue(SHORT), queue(LONG)


def end_and_start(scheduler: Scheduler) -> None:
    job = min(scheduler.book.active)
    attempt = scheduler.book[job].issued
    scheduler.handle(events.AttemptEnded(job=job, attempt=attempt, outcome=events.Exited(0), at=1.0), 1.0)
    for start in scheduler.place(1.0):
        scheduler.handle(events.Spawned(job=start.job.id, attempt=1, pid=1), 1.0)


def waiting(scheduler: Scheduler) -> JobId:
    """A job from the middle of the queue."""
    return next(job for job in range(len(scheduler.book) // 2, len(scheduler.book)) if job not in scheduler.book.active)


def hold_and_release(scheduler: Scheduler) -> None:
    scheduler.handle(events.Hold(job=waiting(scheduler)), 1.0)
    scheduler.handle(events.Release(job=waiting(scheduler)), 1.0)


def change_priority(scheduler: Scheduler) -> None:
    scheduler.handle(events.SetPriority(job=waiting(scheduler), priority=77), 1.0)
    scheduler.handle(events.SetPriority(job=waiting(scheduler), priority=31), 1.0)


def move_about(scheduler: Scheduler) -> None:
    job = waiting(scheduler)
    for where in (
        events.MoveTarget.DOWN,
        events.MoveTarget.UP,
        events.MoveTarget.TOP,
        events.MoveTarget.BOTTOM,
        events.MoveTarget.BEFORE,
    ):
        scheduler.handle(events.Move(job=job, where=where, before=job + 4), 1.0)


def move_a_hundred_times_between_two(scheduler: Scheduler) -> None:
    first = waiting(scheduler)
    for number in range(100):
        scheduler.handle(events.Move(job=first + number % 2, where=events.MoveTarget.BEFORE, before=first + 2), 1.0)


def kill_waiting_and_rerun(scheduler: Scheduler) -> None:
    scheduler.handle(events.Kill(job=waiting(scheduler)), 1.0)
    scheduler.handle(events.Rerun(job=waiting(scheduler), environment="mine"), 1.0)


def edit(scheduler: Scheduler) -> None:
    scheduler.handle(events.Edit(job=waiting(scheduler), spec=spec("other", priority=31)), 1.0)


def add_one_and_remove_it(scheduler: Scheduler) -> None:
    scheduler.handle(events.AddJobs((spec(),)), 1.0)
    scheduler.handle(events.Remove(job=scheduler.book.next_id - 1), 1.0)


def place_with_nothing_free(scheduler: Scheduler) -> None:
    assert scheduler.place(1.0) == []


def crash_and_try(scheduler: Scheduler) -> None:
    """Failed probes in a scope of thousands of waiting jobs."""
    for _ in range(8):
        job = min(scheduler.book.active)
        attempt = scheduler.book[job].issued
        event = events.AttemptEnded(job=job, attempt=attempt, outcome=events.Exited(1), at=2.0, signature="crash")
        scheduler.handle(event, 2.0)
        for start in scheduler.place(2.0):
            scheduler.handle(events.Spawned(job=start.job.id, attempt=start.job.issued, pid=1), 2.0)
    scheduler.handle(events.Resume(), 3.0) if scheduler.breaker.paused_scopes else None


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
def test_an_event_costs_the_same_in_a_much_longer_queue(
    queues: tuple[Scheduler, Scheduler], act: Callable[[Scheduler], None]
) -> None:
    short, long = (operations(partial(act, scheduler)) for scheduler in queues)
    print(f"{act.__name__}: {short} operations among {SHORT}, {long} among {LONG}")
    assert 0 < long <= 2 * short + 200


def test_an_estimate_is_bounded(queues: tuple[Scheduler, Scheduler]) -> None:
    for scheduler in queues:
        end_and_start(scheduler)
    assert operations(lambda: estimate_outlook(queues[1], 1.0)) < 20_000


def test_no_event_copies_the_queue(queues: tuple[Scheduler, Scheduler]) -> None:
    """What built-in functions do inside is not counted above, but a copy of a long list takes memory.

    A snapshot is the exception: it copies one pointer for each job, which takes 0.1 ms for 100,000 of them.
    """
    tracemalloc.start()
    try:
        for act in (end_and_start, hold_and_release, move_about, kill_waiting_and_rerun, edit):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            act(queues[1])
            assert tracemalloc.get_traced_memory()[1] - before < 100_000, act.__name__
    finally:
        tracemalloc.stop()


def test_a_waiting_job_needs_little_memory() -> None:
    tracemalloc.start()
    try:
        scheduler = Scheduler(Record(slots=slots("0 1 2 3")))
        scheduler.handle(events.AddJobs(tuple(spec(f"train --seed {n}", name=f"run {n}") for n in range(20_000))), 0.0)
        per_job = tracemalloc.get_traced_memory()[0] / len(scheduler.book)
    finally:
        tracemalloc.stop()
    print(f"{per_job:.0f} bytes for each job")
    assert per_job < 1350
