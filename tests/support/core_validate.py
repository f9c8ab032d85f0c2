"""Every invariant of the scheduler in one place; tests run it after each event."""

from __future__ import annotations

from collections import Counter

from gputui.core.book import due, kind_of, place_of
from gputui.core.breaker import SHORTEST_LIFE, Scope, ScopeState
from gputui.core.events import Mode, PauseKind
from gputui.core.job import Active, Blocked, Ended, Held, Job, Queued, Succeeded, Waiting
from gputui.core.scheduler import Scheduler


def validate(scheduler: Scheduler) -> None:
    """Raises AssertionError if anything contradicts anything."""
    _check_jobs(scheduler)
    _check_indexes(scheduler)
    _check_lanes(scheduler)
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
    assert set(book.unmet) == {job.id for job in listed if isinstance(job.state, Blocked)}
    assert all(job in book.timers for job in listed if due(job) is not None)


def _is_ready(job: Job, request: object, group: str) -> bool:
    return isinstance(job.state, Queued) and job.request == request and job.spec.group == group


def _check_lanes(scheduler: Scheduler) -> None:
    held = {lane: job.id for job in scheduler.book if job.active for lane in job.active.lanes}
    assert scheduler.board.holders == held, "the board and the jobs disagree"
    total = sum(len(job.active.lanes) for job in scheduler.book if job.active)
    assert len(held) == total, "two jobs hold one lane"
    cpu_jobs = sum(1 for job in scheduler.book if job.active and not job.active.lanes)
    assert scheduler.cpu_jobs_running == cpu_jobs
    assert len({lane.id for lane in scheduler.board.lanes}) == len(scheduler.board.lanes)


def _check_breaker(scheduler: Scheduler) -> None:
    scopes = scheduler.breaker.scopes
    assert len({scope.group for scope in scopes}) == len(scopes), "a scope twice"
    cautious = scheduler.breaker.cautious
    assert len(cautious) <= 1 or all(scope.group is not None for scope in cautious), "all jobs, and a group beside them"
    assert scheduler.wanted_cause is None or scheduler.wanted_cause.kind is not PauseKind.CRASHES
    for scope in scopes:
        _check_scope(scheduler, scope)


def _check_scope(scheduler: Scheduler, scope: Scope) -> None:
    is_half, is_open = scope.state is ScopeState.HALF, scope.state is ScopeState.OPEN
    assert (scope.cause is not None) == (is_half or is_open)
    assert (scope.probe is not None) == is_half
    assert is_open or (scope.probe_at is None and not scope.due and scope.first is None)
    assert not scope.due or scope.probe_at is not None
    assert scope.wait is None or scope.wait >= 0
    assert scope.life >= SHORTEST_LIFE
    if scope.cause is not None:
        assert scope.cause.jobs
        assert scope.cause.kind is PauseKind.CRASHES
        assert all(scheduler.book[job].attempts for job in scope.cause.jobs), "it never ran, yet crashed"
    if scope.probe is not None:
        tried = scheduler.book[scope.probe.job]
        assert tried.active is not None, "nobody is tried"
        assert tried.active.attempt == scope.probe.attempt
        assert scope.covers(tried.spec.group)
