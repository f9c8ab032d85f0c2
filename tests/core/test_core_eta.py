"""When jobs will have ended, which of them are silent, and that no end is told that nobody can know."""

from __future__ import annotations

import pytest
from support.core_world import World, spec

from gputui.core.eta import NeverStarts, Outlook, Paces, SteadyEnd, job_eta, progress_of, silent_since
from gputui.core.events import Hold, Settings, Silence, Suspend
from gputui.core.job import Request
from gputui.core.results import JobResults


def test_the_end_is_known_from_the_first_progress_on() -> None:
    world = World("0")
    world.add_many(3)
    world.start()
    world.now += 100
    quarter = JobResults(1, progress=0.25, progress_at=world.now)
    assert world.outlook() == Outlook()
    assert job_eta(world.job(0), quarter, world.now) == world.now + 300
    assert world.outlook({0: quarter}) == Outlook(world.now + 300 + 2 * 400, 3)
    other_attempt = JobResults(2, progress=0.25, progress_at=world.now)
    assert job_eta(world.job(0), other_attempt, world.now) is None
    assert (progress_of(world.job(0), quarter), progress_of(world.job(0), other_attempt)) == (0.25, None)
    assert job_eta(world.job(0), JobResults(1), world.now) is None
    assert job_eta(world.job(1), quarter, world.now) is None, "it waits"


def test_short_jobs_that_end_first_do_not_make_the_queue_look_short() -> None:
    world = World("0 1")
    world.add_many(6)
    world.start()
    world.now += 10
    long_one = JobResults(1, progress=0.1, progress_at=world.now)
    world.end(0)
    by_both = world.outlook({1: long_one}).at
    assert by_both is not None
    assert by_both - world.now > 100, "the one that runs will take a hundred seconds"


def test_a_job_that_hangs_is_unknown_and_the_others_are_expected_without_its_lane() -> None:
    world = World("0 1")
    world.add_many(4)
    world.start()
    world.now += 60
    world.end(0)
    world.start()
    told = []
    for _ in range(20):
        told.append(world.outlook())
        world.now += 10
    on_time, late = told[0], told[5]
    assert (on_time.jobs, on_time.unknown) == (3, ())
    assert all(seen.at is None or seen.at > world.now - 200 for seen in told)
    assert (late.jobs, late.unknown) == (2, (1,)), "twice as long as any job took"
    assert told[-1].unknown == (1, 2)
    assert (told[-1].at, told[-1].jobs) == (None, 0), "no lane is left that one can count on"


def test_short_jobs_are_not_called_unknown_for_a_second_more_or_less() -> None:
    world = World("0")
    world.add_many(3)
    world.run(seconds=1)
    world.start()
    world.now += 8
    assert world.outlook().unknown == ()
    world.now += 4
    assert world.outlook().unknown == (1,)


@pytest.mark.parametrize("trouble", ["hung", "suspended"])
def test_a_job_that_stands_still_is_unknown_at_once(trouble: str) -> None:
    world = World("0 1")
    world.add_many(4, hang_after=10)
    world.start()
    world.now += 60
    world.end(0)
    world.do(Suspend(job=1) if trouble == "suspended" else Silence(job=1, attempt=1, since=world.now - 30))
    assert world.outlook().unknown == (1,)
    assert world.outlook().jobs == 2


def test_jobs_that_no_lane_can_ever_run_are_named_and_not_counted() -> None:
    world = World("0 1 2 3")
    world.add()
    world.run(seconds=60)
    world.add_many(8)
    (big,) = world.add(spec(gpus=99, name="big"))
    (after_it,) = world.add(spec(after=("big",)))
    world.start()
    end = world.now + 120
    assert world.outlook() == Outlook(end, 8, never=(NeverStarts(big, Request(99)),))
    for _ in range(5):
        world.now += 10
        assert world.outlook().at == end, "it does not slide along"
    assert world.state(after_it) == "blocked"


def test_wide_jobs_cpu_jobs_and_limits_count_as_what_they_are() -> None:
    world = World("0 1 2 3", cpu_jobs=1)
    world.add(spec())
    world.run(seconds=100)
    world.add(spec(gpus=4), spec(gpus=4))
    assert world.outlook().at == world.now + 200, "side by side they do not fit"
    world.add(spec(gpus=0), spec(gpus=0), spec(gpus=0))
    assert world.outlook() == Outlook(world.now + 300, 5)
    world.do(Settings(cpu_jobs=1, at_most=3))
    assert world.outlook() == Outlook(world.now + 300, 3), "four GPUs are more than it may use"
    world.do(Hold(job=5))
    assert world.outlook().jobs == 2


def test_a_group_that_is_paused_is_not_counted() -> None:
    world = World("0", pause_after=1)
    world.add(spec(group="good"), *(spec(group="bad") for _ in range(5)), *(spec(group="good") for _ in range(3)))
    world.run(seconds=100)
    world.run(outcome=1, signature="boom")
    assert world.outlook().jobs == 3


def test_a_told_end_moves_slowly_unless_there_is_other_work() -> None:
    told = SteadyEnd()

    def take(at: float | None, now: float, jobs: int, lanes: int, *unknown: int) -> float | None:
        return told.take(Outlook(at, jobs, unknown), now, lanes).at

    assert take(700.0, 0.0, 30, 4) == 700.0
    near = take(60.0, 1.0, 29, 4)
    assert near is not None
    assert 650 < near < 700, "one estimate does not make it jump"
    for second in range(2, 120):
        near = take(300.0, float(second), 29, 4)
    assert near == pytest.approx(300.0, abs=5)
    late = take(1200.0, 120.0, 29, 4)
    assert late is not None
    assert late - 120.0 >= (1200.0 - 120.0) / 1.5, "an end that was told far too early is not kept for steadiness"
    assert take(900.0, 120.0, 60, 4) == 900.0, "jobs were added"
    assert take(500.0, 121.0, 60, 8) == 500.0, "there are more lanes"
    assert take(400.0, 122.0, 59, 8, 7) == 400.0, "one of them is no longer counted on"
    assert take(None, 123.0, 59, 8, 7) is None


@pytest.mark.parametrize(
    ("printed", "pace", "silent_after"),
    [
        (None, None, None),  # nothing is known of its pace
        (None, 49.0, 3 * 49.0),  # it never printed, its siblings took so long
        (JobResults(1, written_at=1100.0, longest_pause=5.0, outputs=3), None, None),  # too few lines
        (JobResults(1, written_at=1100.0, longest_pause=5.0, outputs=50), None, 100 + 60.0),  # a minute at least
        (JobResults(1, written_at=1100.0, longest_pause=40.0, outputs=50), None, 100 + 120.0),
        (JobResults(1, written_at=1100.0, longest_pause=40.0, outputs=50), 60.0, 100 + 180.0),
        (JobResults(2, written_at=1100.0, longest_pause=40.0, outputs=50), 60.0, 180.0),  # of another attempt
    ],
)
def test_a_job_is_silent_after_three_times_the_usual_pause(
    printed: JobResults | None, pace: float | None, silent_after: float | None
) -> None:
    world = World("0")
    world.add()
    world.start()
    job = world.job(0)
    began = 1000.0
    if silent_after is None:
        assert silent_since(job, printed, pace, began + 100_000) is None
        return
    assert silent_since(job, printed, pace, began + silent_after - 1) is None
    heard = 1100.0 if printed is not None and printed.attempt == 1 else began
    assert silent_since(job, printed, pace, began + silent_after + 1) == heard


def test_what_is_usual_in_a_group_is_learned_from_its_ended_jobs() -> None:
    world = World("0")
    paces = Paces()
    world.add(spec(group="quiet"), spec(group="quiet"), spec(group="talks"), spec(group="talks"))
    for job in range(4):
        world.run(seconds=49, outcome=int(job == 3))
        talks = JobResults(1, written_at=world.now - 4, longest_pause=7.0 + job, outputs=9)
        paces.note(world.job(job), talks if job > 1 else None)
    assert paces.usual() == {"quiet": 49.0, "talks": 9.0}, "what failed tells nothing"
