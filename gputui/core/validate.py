"""Every invariant of the scheduler in one place; tests run it after each event."""

from __future__ import annotations

from collections import Counter

from gputui.core.structures.order import place_of
from gputui.core.structures.timers import due

from .job import Active, Blocked, Ended, Held, Job, Queued, Succeeded, Waiting
from .mode import Mode
from .scheduler import Scheduler


def validate(scheduler: Scheduler) -> None:
    """Raises AssertionError if anything contradicts anything."""
    _check_jobs(scheduler)
    _check_indexes(scheduler)
    _check_lanes(scheduler)
    assert (scheduler.mode is Mode.PAUSED) == (scheduler.cause is not None)
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
    for request, line in book.ready.items():
        assert list(line) == [place for place in waiting if _is_ready(book[place.job], request)]
        assert line, "an empty line stays"
    assert sum(map(len, book.ready.values())) == sum(isinstance(job.state, Queued) for job in listed)
    assert +book.counts == Counter(job.state.name for job in listed)
    assert book.active == {job.id for job in listed if isinstance(job.state, Active)}
    to_come = (job for job in listed if isinstance(job.state, Waiting) and not isinstance(job.state, Held))
    assert +book.waiting_in_group == Counter(job.spec.group for job in to_come)
    assert set(book.unmet) == {job.id for job in listed if isinstance(job.state, Blocked)}
    assert all(job in book.timers for job in listed if due(job) is not None)


def _is_ready(job: Job, request: object) -> bool:
    return isinstance(job.state, Queued) and job.request == request


def _check_lanes(scheduler: Scheduler) -> None:
    held = {lane: job.id for job in scheduler.book if job.active for lane in job.active.lanes}
    assert scheduler.board.holders == held, "the board and the jobs disagree"
    total = sum(len(job.active.lanes) for job in scheduler.book if job.active)
    assert len(held) == total, "two jobs hold one lane"
    cpu_jobs = sum(1 for job in scheduler.book if job.active and not job.active.lanes)
    assert scheduler.cpu_jobs_running == cpu_jobs
    assert len({lane.id for lane in scheduler.board.lanes}) == len(scheduler.board.lanes)
