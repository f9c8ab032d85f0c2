"""Urgent jobs: who goes back to the queue for whom, and who never does."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.core_world import World, spec

from gputui.core.events import DevicesSeen, SetPriority, Suspend, Terminate
from gputui.core.job import JobId, JobSpec, Purpose, Queued, Request, Running, StateName, Stopping
from gputui.core.lanes import DeviceFacts
from gputui.views.waiting import why


def urgent(**settings: Any) -> JobSpec:
    return spec(**{"priority": 90, "preempt": True} | settings)


def run_each(world: World, *specs: JobSpec) -> list[JobId]:
    """Each runs a minute longer than the next."""
    jobs = []
    for each in specs:
        jobs += world.add(each)
        world.start()
        world.now += 60.0
    return jobs


def give_way(world: World) -> list[JobId]:
    """Placed first, as each turn does; the jobs that are told to go."""
    world.start()
    told = world.scheduler.preempt(world.now)
    assert world.scheduler.preempt(world.now) == [], "nobody is told twice"
    return [instruction.job for instruction in told if isinstance(instruction, Terminate)]


def test_the_youngest_that_can_go_on_gives_way_and_comes_back() -> None:
    world = World("0 1")
    old, young = run_each(world, spec(checkpoint=True), spec(checkpoint=True))
    (job,) = world.add(urgent())
    assert give_way(world) == [young]
    assert world.state(old) is StateName.RUNNING
    assert f"#{young} gives way to it" in (why(world.scheduler, world.job(job), world.now) or "")
    assert "gives way to an urgent job" in (why(world.scheduler, world.job(young), world.now) or "")
    world.end(young, 143)
    assert world.start() == [job]
    assert isinstance(world.job(young).state, Queued), "it waits again, and has not failed"
    world.end(job)
    assert world.start() == [young]
    told = {moment.job: moment.text for moment in world.scheduler.unsaved_moments if "way" in moment.text}
    assert told == {young: f"gives way to #{job}, which is urgent", job: f"#{young} gives way to it"}


@pytest.mark.parametrize(
    ("running", "waiting"),
    [
        (spec(), urgent()),
        (spec(checkpoint=True), spec(priority=99)),
        (spec(checkpoint=True, priority=95), urgent(priority=95)),
        (spec(checkpoint=True, priority=90, preempt=True), urgent(priority=99)),
        (spec(checkpoint=True), urgent(gpus=2)),
        (spec(checkpoint=True), urgent(devices=("7",))),
    ],
    ids=["no checkpoint", "not urgent", "as urgent", "urgent itself", "too large all the same", "elsewhere"],
)
def test_nobody_goes_otherwise(running: JobSpec, waiting: JobSpec) -> None:
    world = World("0")
    run_each(world, running)
    world.add(waiting)
    assert give_way(world) == []


def test_a_free_lane_is_taken_before_anybody_goes() -> None:
    world = World("0 1")
    run_each(world, spec(checkpoint=True))
    (job,) = world.add(urgent())
    assert give_way(world) == []
    assert world.state(job) is StateName.RUNNING


def test_as_few_go_as_are_needed_and_those_in_the_way() -> None:
    world = World("0 1 2 3")
    jobs = run_each(world, *(spec(checkpoint=True) for _ in range(4)))
    world.add(urgent(gpus=2))
    assert sorted(give_way(world)) == jobs[2:]
    world = World("0 1 2 3")
    jobs = run_each(world, *(spec(checkpoint=True) for _ in range(4)))
    world.add(urgent(devices=("1",)))
    assert give_way(world) == [jobs[1]], "the younger ones hold other cards"


def test_each_of_several_urgent_ones_gets_a_place_of_its_own() -> None:
    world = World("0 1")
    jobs = run_each(world, spec(checkpoint=True), spec(checkpoint=True))
    world.add(urgent(), urgent(), urgent())
    assert sorted(give_way(world)) == jobs


def test_the_memory_of_whoever_goes_counts_as_free() -> None:
    world = World("0")
    (job,) = run_each(world, spec(checkpoint=True))
    world.do(DevicesSeen({"0": DeviceFacts(memory_total=80, memory_used=70, ours={job: 60})}))
    world.add(replace(urgent(), request=Request(memory=75)))
    assert give_way(world) == [], "others use 10 of 80"
    world.add(replace(urgent(), request=Request(memory=65)))
    assert give_way(world) == [job]


def test_cpu_jobs_give_way_to_cpu_jobs_only() -> None:
    world = World("0", cpu_jobs=1)
    cpu, gpu = run_each(world, spec(checkpoint=True, gpus=0), spec(checkpoint=True))
    world.add(urgent(gpus=0))
    assert give_way(world) == [cpu]
    assert isinstance(world.job(gpu).state, Running)


def test_a_suspended_job_and_one_whose_priority_was_raised_stay() -> None:
    world = World("0 1")
    first, second = run_each(world, spec(checkpoint=True), spec(checkpoint=True))
    world.do(Suspend(job=second))
    world.do(SetPriority(job=first, priority=95))
    world.add(urgent())
    assert give_way(world) == []


def test_it_ends_with_grace_for_its_checkpoint() -> None:
    world = World("0", grace=30.0)
    (job,) = run_each(world, spec(checkpoint=True))
    world.add(urgent())
    give_way(world)
    state = world.job(job).state
    assert isinstance(state, Stopping)
    assert (state.purpose, state.deadline, state.hard) == (Purpose.PREEMPT, world.now + 30.0, False)
