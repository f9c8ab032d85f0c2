"""Pausing, draining and resuming; setting the wall clock."""

from __future__ import annotations

import pytest
from support.core import World, busy, restored, spec

from gputui.core import events
from gputui.core.job import Purpose, Queued, Running, StateName, Stopping


def test_a_paused_scheduler_starts_nothing() -> None:
    world = busy("0 1", jobs=3)
    world.do(events.Pause())
    world.end(0)
    assert world.start() == []
    assert world.state(1) is StateName.RUNNING
    world.do(events.Resume())
    assert world.start() == [2]


def test_a_drain_ends_as_a_pause_when_the_last_running_job_has_ended() -> None:
    world = busy("0 1", jobs=3)
    world.do(events.Drain())
    world.do(events.Drain())
    world.end(0)
    assert world.start() == []
    assert world.mode() is events.Mode.DRAINING
    world.end(1)
    assert world.mode() is events.Mode.PAUSED
    assert world.cause().kind is events.PauseKind.DRAINED
    world.do(events.Resume())
    assert world.start() == [2]


def test_a_drain_with_nothing_running_is_a_pause_at_once() -> None:
    world = World()
    world.add()
    world.do(events.Drain())
    assert world.mode() is events.Mode.PAUSED


def test_a_drain_waits_for_a_job_that_is_being_stopped() -> None:
    world = busy("0", spec())
    world.do(events.Drain())
    world.do(events.Kill(job=0))
    assert world.mode() is events.Mode.DRAINING
    world.end(0, 143)
    assert world.mode() is events.Mode.PAUSED


def test_a_drain_can_be_taken_back_or_become_a_pause() -> None:
    world = busy(jobs=2)
    world.do(events.Drain())
    world.do(events.Resume())
    assert world.mode() is events.Mode.RUNNING
    world.do(events.Drain())
    world.do(events.Pause())
    assert world.mode() is events.Mode.PAUSED


def test_pausing_twice_and_resuming_what_runs_are_refused() -> None:
    world = World()
    assert world.refused(events.Resume()) == "the scheduler is not paused"
    world.do(events.Pause())
    assert world.refused(events.Pause()) == "the scheduler is already paused"


def test_users_cannot_pause_because_of_errors() -> None:
    assert "errors" in World().refused(events.Pause(events.PauseKind.CRASHES))


@pytest.mark.parametrize(
    "settings",
    [
        events.Settings(pause_after=-1),
        events.Settings(grace=-1.0),
        events.Settings(cpu_jobs=-1),
        events.Settings(patience=-1.0),
    ],
)
def test_settings_below_zero_are_refused(settings: events.Settings) -> None:
    assert World().refused(settings)


@pytest.mark.parametrize("kind", [events.PauseKind.STOPPED, events.PauseKind.INTERRUPTED])
def test_stopping_replaces_a_pause_by_the_user(kind: events.PauseKind) -> None:
    world = World()
    world.do(events.Pause())
    world.do(events.Pause(kind))
    assert world.cause().kind is kind


@pytest.mark.parametrize(
    ("kind", "purpose"), [(events.PauseKind.STOPPED, Purpose.REQUEUE), (events.PauseKind.INTERRUPTED, Purpose.KILL)]
)
def test_stopping_ends_all_running_jobs_in_the_same_event(kind: events.PauseKind, purpose: Purpose) -> None:
    world = busy("0 1", jobs=2)
    world.do(events.Requeue(job=0))
    orders = world.do(events.Pause(kind))
    assert orders == [events.Terminate(1, 1)]
    states = [world.scheduler.book[job].state for job in range(2)]
    assert [state.purpose for state in states if isinstance(state, Stopping)] == [purpose, purpose]
    said = [entry.text for entry in world.scheduler.unsaved_history if entry.job == 1]
    verb = "stopped" if kind is events.PauseKind.STOPPED else "interrupted"
    assert said[-1] == f"session {verb} by the user"
    assert world.do(events.Pause(kind)) == []


def test_a_paused_scheduler_can_be_drained() -> None:
    world = busy(jobs=2)
    world.do(events.Pause())
    world.do(events.Drain())
    assert world.mode() is events.Mode.DRAINING
    world.end(0)
    assert world.cause().kind is events.PauseKind.DRAINED


HOUR = 3600.0
steps = pytest.mark.parametrize("by", [-5 * HOUR, -30.0, 30.0, 5 * HOUR])


def step(world: World, by: float) -> None:
    world.now += by
    assert world.do(events.ClockStepped(by)) == []
    world.scheduler = restored(world.scheduler)


@steps
def test_a_clock_step_does_not_change_a_suspension(by: float) -> None:
    world = busy("0", spec(timeout=60.0))
    world.do(events.Suspend(job=0))
    world.now += 10
    step(world, by)
    world.do(events.Continue(job=0))
    assert isinstance(state := world.job(0).state, Running)
    assert state.suspended_for == pytest.approx(10)


@steps
def test_a_clock_step_does_not_change_the_past(by: float) -> None:
    world = busy("0", spec())
    world.now += 5
    world.end(0)
    before = world.job(0)
    step(world, by)
    assert world.job(0) == before


@steps
def test_a_clock_step_does_not_change_what_the_breaker_counts(by: float) -> None:
    world = busy("0", pause_after=1, jobs=2)
    world.end(0, 1)
    world.do(events.Resume())
    world.now += 1
    world.start()
    step(world, by)
    world.end(1, 1)
    assert world.cause().jobs == (1,)


@steps
def test_a_clock_step_does_not_change_waiting_times(by: float) -> None:
    world = busy("0", jobs=2)
    waited = world.job(1).state
    assert isinstance(waited, Queued)
    world.end(0, events.NoRoom("no processes"))
    again = world.scheduler.starts_again_at - world.now
    world.now += by
    world.do(events.ClockStepped(by))
    assert world.scheduler.starts_again_at - world.now == pytest.approx(again)
    assert isinstance(state := world.job(1).state, Queued)
    assert state.since == waited.since + by


def test_the_clock_offset_is_stored() -> None:
    world = World("0")
    world.scheduler.clock = 12.5
    step(world, 100.0)
    assert world.scheduler.clock == 112.5
