"""When a job and the queue will have ended, as soon as a job tells its progress."""

from __future__ import annotations

import pytest
from support.core_world import World

from gputui.core.eta import SteadyEnd, job_eta
from gputui.core.results import JobResults


def test_the_end_is_known_from_the_first_progress_on() -> None:
    world = World("0")
    world.add_many(3)
    world.start()
    world.now += 100
    quarter = JobResults(1, progress=0.25, progress_at=world.now)
    assert world.scheduler.eta(world.now) is None
    assert job_eta(world.job(0), quarter) == world.now + 300
    assert world.scheduler.eta(world.now, {0: quarter}) == world.now + 300 + 2 * 400
    assert job_eta(world.job(0), JobResults(2, progress=0.25, progress_at=world.now)) is None, "of another attempt"
    assert job_eta(world.job(0), JobResults(1)) is None
    assert job_eta(world.job(1), quarter) is None, "it waits"


def test_short_jobs_that_end_first_do_not_make_the_queue_look_short() -> None:
    world = World("0 1")
    world.add_many(6)
    world.start()
    world.now += 10
    long_one = JobResults(1, progress=0.1, progress_at=world.now)
    world.end(0)
    by_both = world.scheduler.eta(world.now, {1: long_one})
    assert by_both is not None
    assert by_both - world.now > 100, "the one that runs will take a hundred seconds"


def test_a_told_end_moves_slowly_unless_there_is_other_work() -> None:
    told = SteadyEnd()
    assert told.take(700.0, 0.0, 30, 4) == 700.0
    near = told.take(60.0, 1.0, 29, 4)
    assert near is not None
    assert 650 < near < 700, "one estimate does not make it jump"
    for second in range(2, 120):
        near = told.take(300.0, float(second), 29, 4)
    assert near == pytest.approx(300.0, abs=5)
    assert told.take(900.0, 120.0, 60, 4) == 900.0, "jobs were added"
    assert told.take(500.0, 121.0, 60, 8) == 500.0, "there are more lanes"
    assert told.take(None, 122.0, 60, 8) is None
