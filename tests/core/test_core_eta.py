"""When a job and the queue will have ended, as soon as a job tells its progress."""

from __future__ import annotations

from support.core_world import World

from gputui.core.results import JobResults
from gputui.core.views.eta import job_eta


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
