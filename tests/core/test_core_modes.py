"""Pause, drain and resume."""

from __future__ import annotations

import pytest
from support.core_world import World

from gputui.core.events import Drain, Kill, Mode, Pause, PauseKind, Resume, Settings
from gputui.core.job import StateName


def test_a_paused_scheduler_starts_nothing_and_leaves_what_runs() -> None:
    world = World("0 1")
    world.add_many(3)
    world.start()
    world.do(Pause())
    world.end(0)
    assert world.start() == []
    assert world.state(1) is StateName.RUNNING
    world.do(Resume())
    assert world.start() == [2]


def test_a_drain_ends_as_a_pause_when_the_last_running_job_has_ended() -> None:
    world = World("0 1")
    world.add_many(3)
    world.start()
    world.do(Drain())
    world.do(Drain())
    world.end(0)
    assert world.start() == []
    assert world.mode() is Mode.DRAINING
    world.end(1)
    assert world.mode() is Mode.PAUSED
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.kind is PauseKind.DRAINED
    world.do(Resume())
    assert world.start() == [2]


def test_a_drain_with_nothing_running_is_a_pause_at_once() -> None:
    world = World()
    world.add()
    world.do(Drain())
    assert world.mode() is Mode.PAUSED


def test_a_drain_waits_for_a_job_that_is_being_stopped() -> None:
    world = World()
    world.add()
    world.start()
    world.do(Drain())
    world.do(Kill(job=0))
    assert world.mode() is Mode.DRAINING
    world.end(0, 143)
    assert world.mode() is Mode.PAUSED


def test_a_drain_can_be_taken_back_or_become_a_pause() -> None:
    world = World()
    world.add_many(2)
    world.start()
    world.do(Drain())
    world.do(Resume())
    assert world.mode() is Mode.RUNNING
    world.do(Drain())
    world.do(Pause())
    assert world.mode() is Mode.PAUSED


def test_pausing_twice_and_resuming_what_runs_are_refused() -> None:
    world = World()
    assert world.refused(Resume()) == "the scheduler is not paused"
    world.do(Pause())
    assert world.refused(Pause()) == "the scheduler is paused already"


def test_nobody_but_the_scheduler_pauses_because_of_crashes() -> None:
    assert "crashes" in World().refused(Pause(PauseKind.CRASHES))


@pytest.mark.parametrize("kind", [kind for kind in PauseKind if kind is not PauseKind.CRASHES])
def test_every_pause_has_its_sentence(kind: PauseKind) -> None:
    world = World()
    world.do(Pause(kind))
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.message


@pytest.mark.parametrize(
    "settings", [Settings(pause_after=-1), Settings(grace=-1.0), Settings(cpu_jobs=-1), Settings(patience=-1.0)]
)
def test_settings_below_zero_are_refused(settings: Settings) -> None:
    assert World().refused(settings)


@pytest.mark.parametrize("kind", [PauseKind.STOPPED, PauseKind.INTERRUPTED])
def test_leaving_on_purpose_takes_the_place_of_a_users_pause(kind: PauseKind) -> None:
    world = World()
    world.do(Pause())
    world.do(Pause(kind))
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.kind is kind


def test_a_paused_scheduler_can_be_drained() -> None:
    world = World()
    world.add_many(2)
    world.start()
    world.do(Pause())
    world.do(Drain())
    assert world.mode() is Mode.DRAINING
    world.end(0)
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.kind is PauseKind.DRAINED


@pytest.mark.parametrize("leave", [Drain(), Pause(PauseKind.STOPPED), Pause(PauseKind.INTERRUPTED)])
def test_who_leaves_on_purpose_does_not_hide_the_crashes(leave: Drain | Pause) -> None:
    world = World("0 1")
    world.do(Settings(pause_after=1))
    world.add_many(3)
    world.start()
    world.end(0, 1)
    world.do(leave)
    world.end(1, 1)
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.kind is PauseKind.CRASHES
    assert world.scheduler.cause.on_purpose
    assert world.scheduler.cause.jobs == (0, 1)
