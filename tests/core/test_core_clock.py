"""The wall clock is set: every duration goes on as if it had not been touched."""

from __future__ import annotations

import pytest
from support.core_model import restored
from support.core_world import World, spec

from gputui.core.events import ClockStepped, Continue, Kill, KillTree, NoRoom, Resume, Suspend, Terminate
from gputui.core.job import Delayed, Queued, Running

HOUR = 3600.0
steps = pytest.mark.parametrize("by", [-5 * HOUR, -30.0, 30.0, 5 * HOUR])


def step(world: World, by: float) -> None:
    world.now += by
    assert world.do(ClockStepped(by)) == []
    world.scheduler = restored(world.scheduler)


@steps
def test_a_time_limit_is_neither_cut_short_nor_drawn_out(by: float) -> None:
    world = World("0")
    world.add(spec(timeout=60.0))
    world.start()
    world.now += 20
    step(world, by)
    assert world.scheduler.next_wakeup() is not None
    assert world.wait(39) == []
    assert world.wait(2) == [Terminate(0, 1)]


@steps
def test_grace_stays_what_it_was(by: float) -> None:
    world = World("0")
    world.add()
    world.start()
    world.do(Kill(job=0))
    step(world, by)
    assert world.wait(29) == []
    assert world.wait(2) == [KillTree(0, 1)]


@steps
def test_a_suspension_counts_only_the_seconds_it_lasted(by: float) -> None:
    world = World("0")
    world.add(spec(timeout=60.0))
    world.start()
    world.do(Suspend(job=0))
    world.now += 10
    step(world, by)
    world.do(Continue(job=0))
    assert isinstance(state := world.job(0).state, Running)
    assert state.suspended_for == pytest.approx(10)


@steps
def test_a_back_off_stays_what_it_was_and_a_start_time_stays_where_the_user_put_it(by: float) -> None:
    world = World("0 1")
    world.add(spec(retries=1), spec(not_before=world.now + 1e6))
    world.start()
    world.end(0, 1)
    assert isinstance(before := world.job(0).state, Delayed)
    step(world, by)
    assert isinstance(after := world.job(0).state, Delayed)
    assert after.until == before.until + by
    assert world.job(1).state == Delayed(1000.0 + 1e6, "its start time has not come")


@steps
def test_what_is_over_keeps_its_times(by: float) -> None:
    world = World("0")
    world.add()
    world.start()
    world.now += 5
    world.end(0)
    before = world.job(0)
    step(world, by)
    assert world.job(0) == before


@steps
def test_the_breaker_counts_what_began_after_the_last_resume(by: float) -> None:
    world = World("0", pause_after=1)
    world.add_many(2)
    world.start()
    world.end(0, 1)
    world.do(Resume())
    world.now += 1
    world.start()
    step(world, by)
    world.end(1, 1)
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.jobs == (1,)


@steps
def test_patience_and_the_rest_after_a_start_without_room_stay_what_they_were(by: float) -> None:
    world = World("0")
    world.add_many(2)
    world.start()
    waited = world.job(1).state
    assert isinstance(waited, Queued)
    world.end(0, NoRoom("no processes"))
    again = world.scheduler.starts_again_at - world.now
    world.now += by
    world.do(ClockStepped(by))
    assert world.scheduler.starts_again_at - world.now == pytest.approx(again)
    assert isinstance(state := world.job(1).state, Queued)
    assert state.since == waited.since + by


def test_the_next_owner_knows_how_the_clock_stood() -> None:
    world = World("0")
    world.scheduler.clock = 12.5
    step(world, 100.0)
    assert world.scheduler.clock == 112.5
