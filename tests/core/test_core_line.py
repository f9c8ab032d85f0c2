"""The line of waiting jobs: priority first, then the user's position."""

from __future__ import annotations

from random import Random

import pytest
from support.core_world import World, is_sentence, spec

from gputui.core.events import Edit, Hold, Kill, Move, MoveTarget, Requeue, SetPriority


def moved(world: World, job: int, where: MoveTarget, before: int | None = None) -> list[int]:
    world.do(Move(job=job, where=where, before=before))
    return world.line()


def test_jobs_start_in_the_order_in_which_they_were_added() -> None:
    world = World("0")
    jobs = world.add_many(5)
    assert [world.run() for _ in jobs] == jobs


def test_a_higher_priority_goes_first_and_equals_keep_their_order() -> None:
    world = World("0")
    world.add(spec(priority=30), spec(priority=99), spec(priority=0), spec(priority=99))
    assert [world.run() for _ in range(4)] == [1, 3, 0, 2]


def test_a_priority_given_later_moves_the_job_and_survives_an_edit_of_something_else() -> None:
    world = World()
    world.add_many(3)
    world.do(SetPriority(job=2, priority=50))
    world.do(Edit(job=2, spec=spec("other")))
    assert world.line() == [2, 0, 1]
    world.do(Edit(job=2, spec=spec("other", priority=5)))
    assert world.line() == [0, 1, 2]


@pytest.mark.parametrize("priority", [-1, 100])
def test_a_priority_out_of_range_is_refused(priority: int) -> None:
    world = World()
    world.add()
    assert is_sentence(world.refused(SetPriority(job=0, priority=priority)))


def test_rows_move_up_down_to_the_top_to_the_bottom_and_before_another() -> None:
    world = World()
    world.add_many(4)
    assert moved(world, 2, MoveTarget.UP) == [0, 2, 1, 3]
    assert moved(world, 2, MoveTarget.DOWN) == [0, 1, 2, 3]
    assert moved(world, 2, MoveTarget.TOP) == [2, 0, 1, 3]
    assert moved(world, 0, MoveTarget.BOTTOM) == [2, 1, 3, 0]
    assert moved(world, 0, MoveTarget.BEFORE, before=1) == [2, 0, 1, 3]
    assert moved(world, 3, MoveTarget.BEFORE, before=2) == [3, 2, 0, 1]


def test_a_job_added_after_moves_stands_last() -> None:
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
    assert world.refused(Move(job=1, where=MoveTarget.UP)) == "#1 is already the first of its priority (30)"
    assert world.refused(Move(job=2, where=MoveTarget.DOWN)) == "#2 is already the last of its priority (30)"


def test_a_job_put_before_another_takes_its_priority() -> None:
    world = World()
    world.add(spec(priority=50), spec())
    assert moved(world, 1, MoveTarget.BEFORE, before=0) == [1, 0]
    assert world.job(1).priority == 50


def test_two_hundred_moves_between_the_same_two_keep_the_order_right_and_the_rest_in_place() -> None:
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


def test_two_hundred_moves_to_the_end_between_the_last_two() -> None:
    world = World()
    world.add_many(202)
    for job in range(200):
        moved(world, job, MoveTarget.BEFORE, before=201)
    assert world.line() == [200, *range(200), 201]


def _equal_positions(world: World) -> None:
    """#0 runs while #2 is put on top, where #0 stood; then #0 comes back to its place."""
    world.add_many(3)
    world.start()
    world.do(Move(job=2, where=MoveTarget.TOP))
    world.do(Requeue(job=0))
    world.end(0, 143)
    assert world.job(0).position == world.job(2).position
    assert world.line() == [0, 2, 1]


@pytest.mark.parametrize(("job", "where"), [(2, MoveTarget.UP), (0, MoveTarget.DOWN)])
def test_rows_that_came_to_share_a_position_still_move(job: int, where: MoveTarget) -> None:
    world = World()
    _equal_positions(world)
    assert moved(world, job, where) == [2, 0, 1]


@pytest.mark.parametrize("before", [None, 0, 1, 2, 99])
def test_nothing_is_put_before_what_does_not_wait(before: int | None) -> None:
    world = World()
    world.add_many(3)
    world.start()
    world.do(Kill(job=1))
    assert is_sentence(world.refused(Move(job=2, where=MoveTarget.BEFORE, before=before)))


def test_held_and_blocked_jobs_can_be_moved_and_keep_their_place() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)), spec())
    world.do(Hold(job=2))
    assert moved(world, 2, MoveTarget.TOP) == [2, 0, 1]
    assert moved(world, 1, MoveTarget.UP) == [2, 1, 0]


def test_any_moves_give_the_order_of_a_plain_list() -> None:
    world, chance = World(), Random(1)
    world.add_many(12)
    expected = world.line()
    for _ in range(500):
        job, before = chance.sample(range(12), 2)
        where = chance.choice([MoveTarget.TOP, MoveTarget.BOTTOM, MoveTarget.BEFORE])
        expected.remove(job)
        at = {MoveTarget.TOP: 0, MoveTarget.BOTTOM: 11, MoveTarget.BEFORE: expected.index(before)}[where]
        expected.insert(at, job)
        assert moved(world, job, where, before) == expected
