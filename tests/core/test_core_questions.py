"""Questions users ask: why does it wait, and when will it be done?"""

from __future__ import annotations

import pytest
from support.core_world import World, is_sentence, lanes, spec

from gputui.core.events import AddJobs, Drain, Hold, NoRoom, Pause, SetLanes


def test_a_job_that_does_not_wait_has_no_reason_to() -> None:
    world = World()
    world.add()
    world.start()
    assert world.why(0) is None
    world.end(0)
    assert world.why(0) is None


def test_a_held_a_blocked_and_a_delayed_job_say_what_they_wait_for() -> None:
    world = World("0 1 2 3 4")
    world.add(*(spec() for _ in range(5)), spec(hold=True), spec(after=(0,)), spec(after=tuple(range(5))))
    world.start()
    world.add(spec(not_before=1030.0))
    assert world.why(5) == "held by you; release it to let it run"
    assert world.why(6) == "waits for #0 (running)"
    assert world.why(7) == "waits for #0 (running), #1 (running), #2 (running) and 2 more"
    assert world.why(8) == "its start time has not come; goes on in 30 s"


def test_a_job_in_back_off_says_which_retry_it_waits_for() -> None:
    world = World()
    world.add(spec(retries=2))
    world.run(1)
    assert world.why(0) == "retry 1 of 2 after exit code 1; goes on in 2 s"


def test_an_eligible_job_says_who_is_in_its_way() -> None:
    world = World("0 1")
    world.add_many(2)
    world.start()
    world.add(spec(gpus=2), spec(), spec())
    assert world.why(2) == "waiting for 2 GPUs: all 2 busy"
    assert world.why(3) == "1 job is ahead of it"
    assert world.why(4) == "2 jobs are ahead of it"
    world.do(Hold(job=2))
    assert world.why(3) == "waiting for a GPU: all 2 busy"


def test_a_job_for_one_device_names_only_who_holds_that_device() -> None:
    world = World("0 1")
    world.add(spec(devices=("0",)), spec(devices=("1",)))
    world.start()
    world.add(spec(gpus=1, devices=("1",)))
    assert world.why(2) == "waiting for GPU 1: busy"


def test_a_job_behind_a_lane_that_is_leaving_names_its_holder() -> None:
    world = World("0 0")
    world.add_many(3)
    world.start()
    world.do(SetLanes(lanes("0")))
    world.end(0)
    assert world.why(2) == "waiting for a GPU: 0 busy"


@pytest.mark.parametrize(
    ("gpus", "has"), [("0 1", "GPU 0, 1"), ("cpu cpu", "2 lanes without a GPU"), ("cpu", "1 lane"), ("", "no lane")]
)
def test_a_job_that_can_never_run_here_says_so(gpus: str, has: str) -> None:
    world = World(gpus)
    world.add(spec(gpus=3))
    reason = world.why(0)
    assert reason is not None
    assert reason.startswith(f"needs 3 GPUs; this session has {has}")


def test_cpu_jobs_wait_for_each_other_only() -> None:
    world = World("0")
    world.add_many(5)
    world.add_many(3, gpus=0)
    assert world.why(5) == "0 CPU jobs run, of 1 at once"
    world.start()
    assert world.why(6) == "1 CPU job runs, of 1 at once"
    assert world.why(7) == "1 job is ahead of it"


def test_a_job_says_when_the_scheduler_itself_is_the_reason() -> None:
    world = World("0 1")
    world.add_many(3)
    assert world.why(0) == "a lane is free: it starts next"
    world.start()
    world.end(1, NoRoom("the disk is full"))
    assert world.why(1) == "the disk is full; goes on in 5 s"
    assert world.why(2) == "the machine had no room for the last job; tried again in 5 s"
    world.do(Drain())
    assert world.why(2) == "the scheduler is draining: nothing new is started"
    world.do(Pause())
    assert world.why(2) == "the scheduler is paused: paused by you"
    assert all(is_sentence(world.why(job) or "none") for job in range(3))


def test_without_a_success_nobody_knows_when_it_is_done() -> None:
    world = World()
    assert world.outlook().at is None
    world.add_many(3)
    world.run(1)
    assert world.outlook().at is None


def test_the_estimate_is_the_typical_time_of_what_is_left_over_the_lanes() -> None:
    world = World("0 1")
    world.add_many(6)
    world.run(seconds=100)
    world.start()
    assert world.outlook().at == world.now + 250, "#1 is due and has 50 s more, #2 needs 100 s, then #3 to #5"
    world.now += 40
    assert world.outlook().at == world.now + 280, "#1 is late: 120 s are typical by now, for all behind it"


def test_the_estimate_knows_groups_and_leaves_held_jobs_out() -> None:
    world = World("0")
    world.add(spec(group="quick"), spec(group="slow"))
    world.run(seconds=10)
    world.run(seconds=1000)
    world.add(*(spec(group="quick") for _ in range(3)), spec(group="slow"))
    assert world.outlook().at == world.now + 1030
    world.do(Hold(job=5))
    assert world.outlook().at == world.now + 30


def test_nothing_left_needs_no_estimate_and_a_rerun_counts_a_success_once() -> None:
    world = World("0")
    world.add()
    world.run(seconds=10)
    assert world.outlook().at is None


def test_an_estimate_for_a_hundred_thousand_is_exact_enough() -> None:
    world = World("0 1 2 3")
    world.add()
    world.run(seconds=8)
    world.scheduler.handle(AddJobs(tuple(spec() for _ in range(100_000))), world.now)
    eta = world.outlook().at
    assert eta is not None
    assert eta - world.now == pytest.approx(200_000, rel=0.01)
