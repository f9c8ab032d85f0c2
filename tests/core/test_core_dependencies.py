"""Jobs that wait for other jobs."""

from __future__ import annotations

import sys
from functools import partial

import pytest
from support.core_world import World, is_sentence, spec
from support.operations import operations

from gputui.core.events import (
    AddJobs,
    AttemptEnded,
    Edit,
    Exited,
    Hold,
    Kill,
    NeverRan,
    Outcome,
    Release,
    Remove,
    Requeue,
    Rerun,
)
from gputui.core.job import Skipped, StateName

QUEUED, BLOCKED, SKIPPED = StateName.QUEUED, StateName.BLOCKED, StateName.SKIPPED


def test_a_job_starts_only_when_all_it_waits_for_have_succeeded() -> None:
    world = World("0 1")
    world.add(spec(), spec(), spec(after=(0, 1)))
    world.start()
    world.end(0)
    assert world.state(2) is BLOCKED
    world.end(1)
    assert world.start() == [2]


def test_dependents_are_skipped_only_after_the_last_retry() -> None:
    world = World()
    world.add(spec(retries=1), spec(after=(0,)), spec(after=(1,)))
    world.run(1)
    assert world.states([1, 2]) == {BLOCKED}
    world.wait(2)
    world.run(1)
    assert world.job(1).state == Skipped(0)
    assert world.job(2).state == Skipped(1)


@pytest.mark.parametrize("outcome", [0, 1])
def test_after_any_goes_on_however_the_others_ended(outcome: int) -> None:
    world = World()
    world.add(spec(), spec(after=(0,), after_any=True))
    world.run(outcome)
    assert world.start() == [1]


def test_a_name_means_the_jobs_of_the_same_batch_first_before_or_behind() -> None:
    world = World()
    world.add(spec(name="train"))
    world.add(spec(after=("train",)), spec(name="train"), spec(name="train"), spec(after=("train",)))
    assert world.job(1).after == world.job(4).after == (2, 3)
    world.add(spec(after=("train",)))
    assert world.job(5).after == (0, 2, 3)


def test_a_removed_job_no_longer_answers_to_its_name() -> None:
    world = World()
    world.add(spec(name="train"))
    world.do(Remove(job=0))
    assert "train" in world.refused(AddJobs((spec(after=("train",)),)))
    world.add(spec(name="train"))
    world.add(spec(after=("train",)))
    assert world.job(2).after == (1,)


@pytest.mark.parametrize("after", [("nobody",), (7,), (-1,), (0, "nobody")])
def test_waiting_for_nobody_is_refused_and_nothing_of_the_batch_is_added(after: tuple[int | str, ...]) -> None:
    world = World()
    world.add()
    assert is_sentence(world.refused(AddJobs((spec(), spec(after=after), spec()))))
    assert len(world.scheduler.book) == 1


def test_jobs_that_wait_for_each_other_are_refused() -> None:
    world = World()
    circle = (spec(name="a", after=("b",)), spec(name="b", after=("c",)), spec(name="c", after=("a",)))
    assert world.refused(AddJobs(circle)) == "these jobs wait for each other: #0 → #1 → #2 → #0"
    assert world.refused(AddJobs((spec(after=(0,)),))) == "#0 cannot wait for itself"
    long_circle = tuple(spec(after=((number + 1) % 50,)) for number in range(50))
    assert len(world.refused(AddJobs(long_circle))) < 100


def test_an_edit_cannot_close_a_circle() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec(after=(1,)))
    assert is_sentence(world.refused(Edit(job=0, spec=spec(after=(2,)))))
    assert world.refused(Edit(job=0, spec=spec(after=(0,)))) == "#0 cannot wait for itself"
    world.do(Edit(job=2, spec=spec(after=(0,))))
    world.do(Edit(job=1, spec=spec(after=(2,))))
    assert [world.job(job).after for job in range(3)] == [(), (2,), (0,)]


def test_an_edit_of_something_else_keeps_what_a_name_meant() -> None:
    world = World()
    world.add(spec(name="train"), spec(after=("train",), priority=1))
    world.run()
    world.do(Remove(job=0))
    world.add(spec(name="train"))
    world.do(Edit(job=1, spec=spec(after=("train",), priority=2)))
    assert world.job(1).after == (0,)


def test_a_rerun_puts_skipped_dependents_back_all_the_way_down() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec(after=(0,)), spec(after=(1, 2)), spec(after=(3,)))
    world.run(1)
    assert world.states([1, 2, 3, 4]) == {SKIPPED}
    world.do(Rerun(job=0))
    assert world.states([1, 2, 3, 4]) == {BLOCKED}
    assert [world.run() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_rerun_leaves_those_skipped_that_another_failure_keeps_back() -> None:
    world = World("0 1")
    held_up = spec(after=(2, 5), after_any=True)
    world.add(spec(), spec(), spec(after=(0, 1)), spec(after=(2,)), held_up, spec(hold=True))
    world.start()
    world.end(0, 1)
    world.end(1, 1)
    world.do(Rerun(job=0))
    assert world.states([2, 3]) == {SKIPPED}
    assert world.scheduler.book.unmet[4] == {5}
    world.do(Rerun(job=1))
    assert world.states([2, 3]) == {BLOCKED}


def test_a_job_that_would_be_skipped_again_is_not_rerun() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)))
    world.run(1)
    sentence = world.refused(Rerun(job=1))
    assert sentence == "#1 would be skipped again: #0 did not succeed; rerun that one"


def test_a_rerun_makes_those_wait_again_that_had_not_started() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec(after=(0,), not_before=9999.0))
    world.run()
    assert (world.state(1), world.state(2)) == (QUEUED, StateName.DELAYED)
    world.do(Rerun(job=0))
    assert world.states([1, 2]) == {BLOCKED}


@pytest.mark.parametrize("outcome", [1, NeverRan()])
def test_a_job_that_comes_back_waits_for_what_is_rerun_meanwhile(outcome: Outcome | int) -> None:
    world = World("0 1")
    world.add(spec(), spec(after=(0,), retries=1))
    world.run()
    world.start()
    world.do(Rerun(job=0))
    world.end(1, outcome)
    world.wait(2)
    assert world.state(1) is BLOCKED


def test_a_requeued_job_is_skipped_if_what_it_waits_for_has_failed_meanwhile() -> None:
    world = World("0 1")
    world.add(spec(), spec(after=(0,)), spec(after=(1,)))
    world.run()
    world.start()
    world.do(Rerun(job=0))
    world.run(1)
    world.do(Requeue(job=1))
    world.end(1, 143)
    assert world.states([1, 2]) == {SKIPPED}
    assert len(world.job(1).attempts) == 1


def test_killing_or_removing_a_waiting_job_skips_its_dependents() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec(), spec(after=(2,)))
    world.do(Kill(job=0))
    world.do(Remove(job=2))
    assert world.states([1, 3]) == {SKIPPED}


def test_a_held_job_learns_at_its_release_what_became_of_the_others() -> None:
    world = World("0 1")
    world.add(spec(), spec(), spec(after=(0,)), spec(after=(1,)))
    for job in (2, 3):
        world.do(Hold(job=job))
    world.start()
    world.end(0, 1)
    world.end(1)
    world.do(Release(job=2))
    world.do(Release(job=3))
    assert (world.state(2), world.state(3)) == (SKIPPED, QUEUED)


def test_a_job_added_after_a_failure_it_waits_for_is_skipped_at_once_with_its_own_dependents() -> None:
    world = World()
    world.add()
    world.run(1)
    world.add(spec(after=(2,)), spec(after=(0,)), spec(after=(1,)))
    assert world.states([1, 2, 3]) == {SKIPPED}


@pytest.mark.parametrize("step", [1, -1])
def test_a_chain_of_five_thousand_ends_revives_and_is_refused_without_recursion(step: int) -> None:
    count = 5000
    links = [number - step for number in range(count)]
    chain = [spec(after=(link,) if 0 <= link < count else ()) for link in links]
    world = World()
    world.scheduler.handle(AddJobs(tuple(chain)), world.now)
    first = 0 if step == 1 else count - 1
    assert world.scheduler.book.counts[BLOCKED] == count - 1
    assert world.start() == [first]
    world.end(first, 1)
    assert world.scheduler.book.counts[SKIPPED] == count - 1
    world.do(Rerun(job=first))
    assert world.scheduler.book.counts[BLOCKED] == count - 1
    circle = tuple(spec(after=((number + 1) % count,)) for number in range(count))
    other = World()
    assert "wait for each other" in other.refused(AddJobs(circle))


def barrier(width: int, code: int, reruns: list[int]) -> World:
    """Jobs that all end with this code, one that waits for all of them, and then reruns."""
    world = World("0 " * 50, pause_after=0)
    scheduler = world.scheduler
    scheduler.handle(AddJobs((*(spec() for _ in range(width)), spec(after=tuple(range(width))))), 0.0)
    while starts := [start.job.id for start in scheduler.place(0.0) if start.job.id < width]:
        for job in starts:
            scheduler.handle(AttemptEnded(job=job, attempt=1, outcome=Exited(code), at=0.0), 0.0)
    for job in reruns:
        scheduler.handle(Rerun(job=job), 0.0)
    return world


def test_a_barrier_wider_than_any_stack_is_deep_opens_with_the_last_success() -> None:
    width = 2 * sys.getrecursionlimit()
    assert barrier(width, 0, []).state(width) is StateName.STARTING
    assert barrier(width, 1, []).state(width) is SKIPPED
    assert barrier(width, 1, [*range(1, width)]).state(width) is SKIPPED
    assert barrier(width, 1, [*range(width)]).state(width) is BLOCKED


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("step", [1, -1])
def test_a_barrier_costs_what_its_jobs_cost(code: int, step: int) -> None:
    few, many = (
        operations(partial(barrier, width, code, [*range(width)][::step] if code else [])) for width in (100, 400)
    )
    assert many < 5 * few, "four times the jobs are four times the work"
