"""Snapshots, histories, removed jobs, and the containers they are made of."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.core import World, busy, spec

from gputui.core.book import BLOCK, Order, Place
from gputui.core.events import Kill, Mode, Move, MoveTarget, Remove, Rerun, SetPriority
from gputui.core.job import StateName
from gputui.core.results import JobResults, PackedResults
from gputui.core.scheduler import Scheduler


def test_a_snapshot_is_immutable() -> None:
    world = busy("0 1", jobs=3)
    old = world.scheduler.snapshot()
    world.end(0, 1)
    world.add()
    world.do(Kill(job=2))
    assert [job.state.name for job in old] == [StateName.RUNNING, StateName.RUNNING, StateName.QUEUED]
    assert old.counts == {StateName.RUNNING: 2, StateName.QUEUED: 1}
    assert old.active == {0, 1}
    assert set(old.holders.values()) == {0, 1}
    assert (len(old.jobs), 3 in old, old.running, old.waiting) == (3, False, 2, 1)


def test_a_snapshot_lists_what_changed_since_the_last() -> None:
    world = World()
    world.add_many(4)
    assert world.scheduler.snapshot().changed == {0, 1, 2, 3}
    assert world.scheduler.snapshot().changed == frozenset()
    world.do(SetPriority(job=2, priority=31))
    world.do(Move(job=1, where=MoveTarget.UP))
    snapshot = world.scheduler.snapshot()
    assert snapshot.changed == {0, 1, 2}
    assert snapshot.version == 3
    assert snapshot[2].priority == 31


def test_snapshots_share_unchanged_jobs() -> None:
    world = World()
    world.add_many(100)
    old = world.scheduler.snapshot()
    world.do(Kill(job=5))
    new = world.scheduler.snapshot()
    assert [job.id for job in new if job is not old[job.id]] == [5]


def test_changed_jobs_are_unsaved() -> None:
    world = World()
    world.add_many(3)
    assert world.scheduler.book.unsaved == {0: None, 1: None, 2: None}
    world.scheduler.book.unsaved.clear()
    saved = list(world.scheduler.book)
    world.start()
    world.do(Kill(job=2))
    assert world.scheduler.book.unsaved == {0: saved[0], 2: saved[2]}
    assert [moment.text for moment in world.scheduler.unsaved_history] == ["killed by the user before it started"]


def test_a_reopened_session_has_nothing_unsaved() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)))
    again = Scheduler(world.scheduler.record(), world.scheduler.book)
    assert again.book.unsaved == {}
    assert again.unsaved_history == []


def test_a_history_lists_the_transitions_of_a_job() -> None:
    world = World()
    world.add()
    world.run(1)
    world.do(Rerun(job=0))
    texts = [moment.text for moment in world.scheduler.history(0)]
    assert texts == ["starting", "running", "failed", "rerun by the user"]


def test_a_removed_job_is_kept_but_not_counted() -> None:
    world = World()
    world.add_many(3)
    world.run()
    world.do(Remove(job=0))
    world.do(Remove(job=1))
    snapshot = world.scheduler.snapshot()
    assert [job.id for job in snapshot] == [2]
    assert snapshot.counts == {StateName.QUEUED: 1}
    assert (snapshot[0].archived, snapshot[1].state.name) == (True, StateName.KILLED)
    assert world.refused(Rerun(job=0)) == "#0 was removed"
    assert world.add() == [3], "an id was used again"
    assert world.line() == [2, 3]


def test_a_removed_dependent_is_not_revived() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)))
    world.run(1)
    world.do(Remove(job=1))
    world.do(Rerun(job=0))
    assert world.state(1) is StateName.SKIPPED
    assert world.mode() is Mode.RUNNING


places = st.builds(Place, st.integers(-2, 2), st.integers(0, 20).map(float), st.integers(0, 9))


def filled(model: list[Place]) -> Order:
    order = Order()
    for place in model:
        order.add(place)
    return order


@given(st.sets(places), st.sets(places), st.sampled_from([1, BLOCK, 3 * BLOCK]))
def test_an_order_can_be_extended_at_once(before: set[Place], more: set[Place], crowd: int) -> None:
    others = {Place(0, float(number), 10 + number) for number in range(crowd)}
    order = filled(sorted(before | others))
    order.extend(sorted(more - before, reverse=True))
    assert list(order) == sorted(before | others | more)
    assert len(order) == len(before | others | more)
    for place in more:
        order.remove(place)
    assert list(order) == sorted((before | others) - more)


@given(st.sets(places), st.sets(places), places)
def test_an_order_is_a_sorted_list(added: set[Place], removed: set[Place], asked: Place) -> None:
    order = filled(list(added))
    for place in removed & added:
        order.remove(place)
    model = sorted(added - removed)
    at, behind = bisect_left(model, asked), bisect_right(model, asked)
    assert list(order) == model
    assert len(order) == len(model)
    assert order.before(asked) == (model[at - 1] if at else None)
    assert order.after(asked) == (model[behind] if behind < len(model) else None)
    assert order.rank(asked) == at
    assert order.first() == (model[0] if model else None)


@pytest.mark.parametrize("stride", [1, -1, 7])
def test_a_long_order_splits_its_blocks_and_stays_sorted(stride: int) -> None:
    count = 5 * BLOCK + 3
    numbers = [index * stride % count for index in range(count)]
    order = filled([Place(0, float(number), number) for number in numbers])
    assert [place.job for place in order] == sorted(numbers)
    for number in numbers[::2]:
        order.remove(Place(0, float(number), number))
    kept = sorted(numbers[1::2])
    assert [place.job for place in order] == kept
    assert [order.rank(Place(0, float(number), number)) for number in kept] == list(range(len(kept)))


@given(st.lists(st.dictionaries(st.integers(3, 200), st.none() | st.integers(1, 9))))
def test_packed_results_are_those_that_were_set_last(steps: list[dict[int, int | None]]) -> None:
    packed = PackedResults(first=3)
    expected: dict[int, int] = {}
    for step in steps:
        earlier, kept = packed, dict(expected)
        packed = packed.with_results({key: JobResults(value) if value else None for key, value in step.items()})
        expected = {key: value for key, value in (expected | step).items() if value}
        assert {key: found.attempt for key, found in packed.items()} == expected
        assert len(packed) == len(expected)
        assert {key: found.attempt for key, found in earlier.items()} == kept
        differing = {key for key in step if (key in earlier) or (key in packed)}
        assert set(packed.changed_since(earlier)) == differing
    assert 2 not in packed
    assert 10**6 not in packed
