"""Jobs that run and do nothing: when one is flagged, when it is not, and what becomes of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.core_model import restored
from support.core_world import World, spec

from gputui.core.events import AttemptEnded, ClockStepped, Continue, Exited, Silence, Suspend
from gputui.core.job import Delayed, JobId, OnHang, Running, Stopping, TimedOut
from gputui.core.policies import Signs, last_life
from gputui.views.format import silence

HOUR = 3600.0


def running(world: World, on_hang: OnHang = OnHang.NOTIFY, hang_after: float = 1800.0) -> JobId:
    (job,) = world.add(spec(on_hang=on_hang, hang_after=hang_after))
    world.start()
    return job


def quiet(world: World, job: JobId, seconds: float, *, may_end: bool = False) -> None:
    """Nothing is seen of it for so long."""
    since = world.now
    world.now += seconds
    world.do(Silence(job=job, attempt=world.job(job).issued, since=since, may_end=may_end))


def test_a_job_is_flagged_when_its_time_has_come_and_not_before() -> None:
    world = World()
    job = running(world)
    quiet(world, job, 1799.0)
    assert silence(world.scheduler.snapshot(), world.job(job), world.now) == ""
    world.do(Silence(job=job, attempt=1, since=world.now - 2040.0))
    assert silence(world.scheduler.snapshot(), world.job(job), world.now) == "silent 34:00"


def test_a_job_that_goes_on_loses_its_flag_and_the_story_tells_both() -> None:
    world = World()
    job = running(world)
    quiet(world, job, 2040.0)
    world.do(Silence(job=job, attempt=1, since=None))
    assert silence(world.scheduler.snapshot(), world.job(job), world.now) == ""
    told = [moment.text for moment in world.scheduler.unsaved_moments if moment.job == job]
    assert any(text.startswith("silent for 34 m") for text in told)
    assert "goes on after being silent for 34 m" in told


def test_hang_after_0_never_flags() -> None:
    world = World()
    job = running(world, hang_after=0.0)
    quiet(world, job, 100 * HOUR)
    assert silence(world.scheduler.snapshot(), world.job(job), world.now) == ""


def test_a_suspended_job_is_not_hung_and_one_that_is_continued_begins_anew() -> None:
    world = World()
    job = running(world)
    quiet(world, job, HOUR)
    world.do(Suspend(job=job))
    quiet(world, job, HOUR)
    assert silence(world.scheduler.snapshot(), world.job(job), world.now) == ""
    world.do(Continue(job=job))
    assert silence(world.scheduler.snapshot(), world.job(job), world.now) == ""


@pytest.mark.parametrize(("on_hang", "after"), [(OnHang.KILL, TimedOut), (OnHang.REQUEUE, Delayed)])
def test_it_is_ended_when_its_stack_is_kept_and_then_failed_or_run_again(on_hang: OnHang, after: type) -> None:
    world = World()
    job = running(world, on_hang)
    quiet(world, job, HOUR)
    assert isinstance(world.job(job).state, Running), "first its stack"
    world.do(Silence(job=job, attempt=1, since=world.now - HOUR, may_end=True))
    assert isinstance(world.job(job).state, Stopping)
    world.do(AttemptEnded(job=job, attempt=1, outcome=Exited(143), at=world.now))
    assert isinstance(world.job(job).state, after)
    assert "did nothing for 1800 s" in (world.job(job).attempts[-1].said or "")


def test_the_flag_is_stored_and_moves_with_the_clock() -> None:
    world = World()
    job = running(world)
    quiet(world, job, HOUR)
    world.now += 10 * HOUR
    world.do(ClockStepped(10 * HOUR))
    assert silence(world.scheduler.snapshot(), world.job(job), world.now) == "silent 1:00:00"
    assert silence(restored(world.scheduler).snapshot(), world.job(job), world.now) == "silent 1:00:00"


BEFORE = Signs(at=100.0, output=(5,), gpu_age=0.5, gpu_work=1.0, cpu_seconds=7.0)


@pytest.mark.parametrize(
    ("now", "life"),
    [
        (replace(BEFORE, at=110.0), 50.0),
        (replace(BEFORE, at=110.0, output=(6,), output_age=3.0), 107.0),
        (replace(BEFORE, at=110.0, output=(6,), output_age=5000.0), 100.0),
        (replace(BEFORE, at=110.0, output=(6,), output_age=-9.0), 110.0),
        (replace(BEFORE, at=110.0, gpu_work=2.0, gpu_work_age=1.0), 109.0),
        (replace(BEFORE, at=110.0, cpu_seconds=17.0), 50.0),
        (replace(BEFORE, at=110.0, gpu_age=None, cpu_seconds=17.0), 110.0),
        (replace(BEFORE, at=110.0, gpu_age=60.0, cpu_seconds=17.0), 110.0),
        (replace(BEFORE, at=110.0, gpu_age=None, cpu_seconds=7.05), 50.0),
        (replace(BEFORE, at=110.0, gpu_age=None, cpu_seconds=None), 110.0),
    ],
    ids=[
        "nothing at all",
        "it printed",
        "a file with an old date",
        "a file with a date to come",
        "its card worked",
        "it spins while its card idles",
        "without a card its processors count",
        "a driver that fell silent tells nothing",
        "looking at a clock is no work",
        "what cannot be told is not nothing",
    ],
)
def test_what_is_a_sign_of_life(now: Signs, life: float) -> None:
    assert last_life(now, BEFORE, 50.0) == life
