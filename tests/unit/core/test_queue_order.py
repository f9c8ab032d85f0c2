"""The order of the queue: priorities, moves, and dependencies between jobs."""

from __future__ import annotations

import sys
from functools import partial
from random import Random

import pytest
from support.core import World, busy, is_sentence, operations, spec

from gputui.core import events
from gputui.core.events import Edit, Hold, Kill, Move, MoveTarget, Requeue, SetPriority
from gputui.core.job import Skipped, StateName


def moved(world: World, job: int, where: MoveTarget, before: int | None = None) -> list[int]:
    world.do(Move(job=job, where=where, before=before))
    return world.line()


def test_a_higher_priority_goes_first_and_equals_keep_their_order() -> None:
    world = World("0")
    world.add(spec(priority=30), spec(priority=99), spec(priority=0), spec(priority=99))
    assert [world.run() for _ in range(4)] == [1, 3, 0, 2]


def test_a_changed_priority_survives_other_edits() -> None:
    world = World()
    world.add_many(3)
    world.do(SetPriority(job=2, priority=50))
    world.do(Edit(job=2, spec=spec("other")))
    assert world.line() == [2, 0, 1]
    world.do(Edit(job=2, spec=spec("other", priority=5)))
    assert world.line() == [0, 1, 2]


def test_an_added_job_is_last() -> None:
    world = World()
    world.add_many(3)
    moved(world, 0, MoveTarget.BOTTOM)
    moved(world, 1, MoveTarget.BOTTOM)
    world.add()
    assert world.line() == [2, 0, 1, 3]


def test_moving_stays_within_the_priority() -> None:
    world = World()
    world.add(spec(priority=50), spec(), spec(), spec(priority=1))
    assert moved(world, 2, MoveTarget.TOP) == [0, 2, 1, 3]
    assert moved(world, 2, MoveTarget.BOTTOM) == [0, 1, 2, 3]
    assert world.refused(Move(job=1, where=MoveTarget.UP)) == "#1 is already first at its priority (30)"
    assert world.refused(Move(job=2, where=MoveTarget.DOWN)) == "#2 is already last at its priority (30)"


def test_a_job_put_before_another_takes_its_priority() -> None:
    world = World()
    world.add(spec(priority=50), spec())
    assert moved(world, 1, MoveTarget.BEFORE, before=0) == [1, 0]
    assert world.job(1).priority == 50


def test_many_moves_between_two_jobs_keep_the_order() -> None:
    world = World()
    world.add_many(300)
    places = {job: world.job(job).position for job in range(250, 300)}
    expected = world.line()
    for job in range(2, 202):
        expected.remove(job)
        expected.insert(expected.index(1), job)
        assert moved(world, job, MoveTarget.BEFORE, before=1) == expected
    assert {job: world.job(job).position for job in places} == places
    assert world.add() == [300]
    assert world.line() == [*expected, 300]


def _equal_positions(world: World) -> None:
    """#0 runs while #2 is put on top, where #0 was; then #0 is requeued."""
    world.add_many(3)
    world.start()
    world.do(Move(job=2, where=MoveTarget.TOP))
    world.do(Requeue(job=0))
    world.end(0, 143)
    assert world.job(0).position == world.job(2).position
    assert world.line() == [0, 2, 1]


@pytest.mark.parametrize(("job", "where"), [(2, MoveTarget.UP), (0, MoveTarget.DOWN)])
def test_jobs_at_the_same_position_can_be_moved(job: int, where: MoveTarget) -> None:
    world = World()
    _equal_positions(world)
    assert moved(world, job, where) == [2, 0, 1]


@pytest.mark.parametrize("before", [None, 0, 1, 2, 99])
def test_jobs_are_moved_only_before_waiting_jobs(before: int | None) -> None:
    world = busy(jobs=3)
    world.do(Kill(job=1))
    assert is_sentence(world.refused(Move(job=2, where=MoveTarget.BEFORE, before=before)))


def test_held_and_blocked_jobs_can_be_moved_and_keep_their_place() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec())
    world.do(Hold(job=2))
    assert moved(world, 2, MoveTarget.TOP) == [2, 0, 1]
    assert moved(world, 1, MoveTarget.UP) == [2, 1, 0]


def test_random_moves_match_a_plain_list() -> None:
    world, chance = World(), Random(1)
    world.add_many(12)
    expected = world.line()
    for _ in range(500):
        job, before = chance.sample(range(12), 2)
        where, at = chance.choice(list(MoveTarget)), expected.index(job)
        if (where, at) in ((MoveTarget.UP, 0), (MoveTarget.DOWN, 11)):
            continue
        expected.remove(job)
        places = {MoveTarget.UP: at - 1, MoveTarget.DOWN: at + 1, MoveTarget.TOP: 0, MoveTarget.BOTTOM: 11}
        expected.insert(places.get(where, expected.index(before)), job)
        assert moved(world, job, where, before) == expected


QUEUED, BLOCKED, SKIPPED = StateName.QUEUED, StateName.BLOCKED, StateName.SKIPPED


def test_a_job_starts_only_when_all_it_waits_for_have_succeeded() -> None:
    world = busy("0 1", spec(), spec(), spec(after=(0, 1)))
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
def test_after_any_ignores_how_the_others_ended(outcome: int) -> None:
    world = World()
    world.add(spec(), spec(after=(0,), after_any=True))
    world.run(outcome)
    assert world.start() == [1]


def test_a_name_refers_to_the_same_batch_first() -> None:
    world = World()
    world.add(spec(name="train"))
    world.add(spec(after=("train",)), spec(name="train"), spec(name="train"), spec(after=("train",)))
    assert world.job(1).after == world.job(4).after == (2, 3)
    world.add(spec(after=("train",)))
    assert world.job(5).after == (0, 2, 3)


def test_a_removed_job_is_not_found_by_name() -> None:
    world = World()
    world.add(spec(name="train"))
    world.do(events.Remove(job=0))
    assert "train" in world.refused(events.AddJobs((spec(after=("train",)),)))
    world.add(spec(name="train"))
    world.add(spec(after=("train",)))
    assert world.job(2).after == (1,)


@pytest.mark.parametrize("after", [("unknown",), (7,), (-1,), (0, "unknown")])
def test_an_unknown_dependency_refuses_the_whole_batch(after: tuple[int | str, ...]) -> None:
    world = World()
    world.add()
    assert is_sentence(world.refused(events.AddJobs((spec(), spec(after=after), spec()))))
    assert len(world.scheduler.book) == 1


def test_circular_dependencies_are_refused() -> None:
    world = World()
    circle = (spec(name="a", after=("b",)), spec(name="b", after=("c",)), spec(name="c", after=("a",)))
    assert world.refused(events.AddJobs(circle)) == "circular dependency: #0 → #1 → #2 → #0"
    assert world.refused(events.AddJobs((spec(after=(0,)),))) == "#0 cannot depend on itself"
    long_circle = tuple(spec(after=((number + 1) % 50,)) for number in range(50))
    assert len(world.refused(events.AddJobs(long_circle))) < 100


def test_an_edit_cannot_make_a_circular_dependency() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec(after=(1,)))
    assert is_sentence(world.refused(events.Edit(job=0, spec=spec(after=(2,)))))
    assert world.refused(events.Edit(job=0, spec=spec(after=(0,)))) == "#0 cannot depend on itself"
    world.do(events.Edit(job=2, spec=spec(after=(0,))))
    world.do(events.Edit(job=1, spec=spec(after=(2,))))
    assert [world.job(job).after for job in range(3)] == [(), (2,), (0,)]


def test_other_edits_keep_the_jobs_a_name_referred_to() -> None:
    world = World()
    world.add(spec(name="train"), spec(after=("train",), priority=1))
    world.run()
    world.do(events.Remove(job=0))
    world.add(spec(name="train"))
    world.do(events.Edit(job=1, spec=spec(after=("train",), priority=2)))
    assert world.job(1).after == (0,)


def test_a_rerun_revives_all_skipped_dependents() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec(after=(0,)), spec(after=(1, 2)), spec(after=(3,)))
    world.run(1)
    assert world.states([1, 2, 3, 4]) == {SKIPPED}
    world.do(events.Rerun(job=0))
    assert world.states([1, 2, 3, 4]) == {BLOCKED}
    assert [world.run() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_rerun_does_not_revive_dependents_of_another_failure() -> None:
    world = World("0 1")
    held_up = spec(after=(2, 5), after_any=True)
    world.add(spec(), spec(), spec(after=(0, 1)), spec(after=(2,)), held_up, spec(hold=True))
    world.start()
    world.end(0, 1)
    world.end(1, 1)
    world.do(events.Rerun(job=0))
    assert world.states([2, 3]) == {SKIPPED}
    assert world.scheduler.book.unmet[4] == {5}
    world.do(events.Rerun(job=1))
    assert world.states([2, 3]) == {BLOCKED}


def test_a_job_that_would_be_skipped_again_is_not_rerun() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)))
    world.run(1)
    sentence = world.refused(events.Rerun(job=1))
    assert sentence == "#1 would be skipped again: #0 did not succeed; rerun that first"


def test_a_rerun_blocks_dependents_that_have_not_started() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec(after=(0,), not_before=9999.0))
    world.run()
    assert (world.state(1), world.state(2)) == (QUEUED, StateName.DELAYED)
    world.do(events.Rerun(job=0))
    assert world.states([1, 2]) == {BLOCKED}


@pytest.mark.parametrize("outcome", [1, events.NeverRan()])
def test_a_retried_job_waits_for_a_rerun_dependency(outcome: events.Outcome | int) -> None:
    world = World("0 1")
    world.add(spec(), spec(after=(0,), retries=1))
    world.run()
    world.start()
    world.do(events.Rerun(job=0))
    world.end(1, outcome)
    world.wait(2)
    assert world.state(1) is BLOCKED


def test_a_requeued_job_is_skipped_if_its_dependency_failed() -> None:
    world = World("0 1")
    world.add(spec(), spec(after=(0,)), spec(after=(1,)))
    world.run()
    world.start()
    world.do(events.Rerun(job=0))
    world.run(1)
    world.do(events.Requeue(job=1))
    world.end(1, 143)
    assert world.states([1, 2]) == {SKIPPED}
    assert len(world.job(1).attempts) == 1


def test_killing_or_removing_a_waiting_job_skips_its_dependents() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec(), spec(after=(2,)))
    world.do(events.Kill(job=0))
    world.do(events.Remove(job=2))
    assert world.states([1, 3]) == {SKIPPED}


def test_a_released_job_follows_its_dependencies() -> None:
    world = World("0 1")
    world.add(spec(), spec(), spec(after=(0,)), spec(after=(1,)))
    for job in (2, 3):
        world.do(events.Hold(job=job))
    world.start()
    world.end(0, 1)
    world.end(1)
    world.do(events.Release(job=2))
    world.do(events.Release(job=3))
    assert (world.state(2), world.state(3)) == (SKIPPED, QUEUED)


def test_a_job_added_after_a_failed_one_is_skipped() -> None:
    world = World()
    world.add()
    world.run(1)
    world.add(spec(after=(2,)), spec(after=(0,)), spec(after=(1,)))
    assert world.states([1, 2, 3]) == {SKIPPED}


@pytest.mark.parametrize("step", [1, -1])
def test_a_long_chain_needs_no_recursion(step: int) -> None:
    count = 2000
    links = [number - step for number in range(count)]
    chain = [spec(after=(link,) if 0 <= link < count else ()) for link in links]
    world = World()
    world.scheduler.handle(events.AddJobs(tuple(chain)), world.now)
    first = 0 if step == 1 else count - 1
    assert world.scheduler.book.counts[BLOCKED] == count - 1
    assert world.start() == [first]
    world.end(first, 1)
    assert world.scheduler.book.counts[SKIPPED] == count - 1
    world.do(events.Rerun(job=first))
    assert world.scheduler.book.counts[BLOCKED] == count - 1
    circle = tuple(spec(after=((number + 1) % count,)) for number in range(count))
    other = World()
    assert "circular dependency" in other.refused(events.AddJobs(circle))


def barrier(width: int, code: int, reruns: list[int]) -> World:
    """Jobs that all end with this code, one that waits for all of them, and then reruns."""
    world = World("0 " * 50, pause_after=0)
    scheduler = world.scheduler
    scheduler.handle(events.AddJobs((*(spec() for _ in range(width)), spec(after=tuple(range(width))))), 0.0)
    while starts := [start.job.id for start in scheduler.place(0.0) if start.job.id < width]:
        for job in starts:
            scheduler.handle(events.AttemptEnded(job=job, attempt=1, outcome=events.Exited(code), at=0.0), 0.0)
    for job in reruns:
        scheduler.handle(events.Rerun(job=job), 0.0)
    return world


def test_a_wide_barrier_opens_with_the_last_success() -> None:
    width = sys.getrecursionlimit() + 100
    assert barrier(width, 0, []).state(width) is StateName.STARTING
    assert barrier(width, 1, []).state(width) is SKIPPED
    assert barrier(width, 1, [*range(1, width)]).state(width) is SKIPPED
    assert barrier(width, 1, [*range(width)]).state(width) is BLOCKED


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("step", [1, -1])
def test_the_cost_of_a_barrier_is_linear(code: int, step: int) -> None:
    few, many = (
        operations(partial(barrier, width, code, [*range(width)][::step] if code else [])) for width in (100, 400)
    )
    assert many < 5 * few, "four times the jobs are four times the work"
