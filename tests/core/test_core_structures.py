"""The structures under the book, against plain lists."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.core.book import BLOCK, Order, Place
from gputui.core.results import JobResults
from gputui.core.structures import WIDTH, PackedMap, Vector

places = st.builds(Place, st.integers(-2, 2), st.integers(0, 20).map(float), st.integers(0, 9))
sizes = st.sampled_from([0, 1, WIDTH - 1, WIDTH, WIDTH + 1, WIDTH**2, WIDTH**2 + 1, WIDTH**3 + 5])


@given(sizes, st.lists(st.integers(0, 10**6), max_size=5), st.integers(0, 2 * WIDTH))
def test_a_vector_is_a_list(size: int, changed: list[int], more: int) -> None:
    model = list(range(size))
    vector = Vector(model)
    for index in changed if size else ():
        vector = vector.set(index % size, -index)
        model[index % size] = -index
    vector = vector.extend(range(more))
    model.extend(range(more))
    assert list(vector) == model
    assert len(vector) == len(model)
    assert [vector[index] for index in range(0, len(model), 97)] == model[::97]


@given(sizes, st.integers(0, 10**6))
def test_changing_a_vector_leaves_the_old_one_as_it_was(size: int, index: int) -> None:
    vector = Vector(range(size))
    vector.append(-1)
    if size:
        vector.set(index % size, -1)
    assert list(vector) == list(range(size))


@pytest.mark.parametrize("index", [-1, 3])
def test_a_vector_has_no_elements_outside(index: int) -> None:
    vector = Vector(range(3))
    with pytest.raises(IndexError):
        vector[index]
    with pytest.raises(IndexError):
        vector.set(index, 0)


def filled(model: list[Place]) -> Order:
    order = Order()
    for place in model:
        order.add(place)
    return order


@given(st.sets(places), st.sets(places), st.sampled_from([1, BLOCK, 3 * BLOCK]))
def test_an_order_takes_many_places_as_it_takes_each(before: set[Place], more: set[Place], crowd: int) -> None:
    others = {Place(0, float(number), 10 + number) for number in range(crowd)}
    order = filled(sorted(before | others))
    order.extend(sorted(more - before, reverse=True))
    assert list(order) == sorted(before | others | more)
    assert len(order) == len(before | others | more)
    for place in more:
        assert place in order
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
    assert (asked in order) == (asked in model)
    assert order.before(asked) == (model[at - 1] if at else None)
    assert order.after(asked) == (model[behind] if behind < len(model) else None)
    assert order.rank(asked) == at
    assert (order.first(), order.last()) == ((model[0], model[-1]) if model else (None, None))


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


def test_removing_what_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        filled([Place(0, 1.0, 1)]).remove(Place(0, 0.0, 0))


@given(st.lists(st.dictionaries(st.integers(3, 200), st.none() | st.integers(1, 9))))
def test_a_packed_map_holds_what_was_set_last(steps: list[dict[int, int | None]]) -> None:
    packed: PackedMap[JobResults] = PackedMap(JobResults, first=3)
    expected: dict[int, int] = {}
    for step in steps:
        earlier, kept = packed, dict(expected)
        packed = packed.set_all({key: JobResults(value) if value else None for key, value in step.items()})
        expected = {key: value for key, value in (expected | step).items() if value}
        assert {key: found.attempt for key, found in packed.items()} == expected
        assert len(packed) == len(expected)
        assert {key: found.attempt for key, found in earlier.items()} == kept
    assert 2 not in packed
    assert 10**6 not in packed


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1023, 1024, 1025, 3000])
def test_what_differs_between_two_vectors_is_found_without_looking_at_the_rest(size: int) -> None:
    before = Vector([object() for _ in range(size)])
    places = sorted({0, size // 2, size - 1} & set(range(size)))
    after = before
    for place in places:
        after = after.set(place, object())
    after = after.append(object()).append(object())
    assert list(after.changed_since(before)) == [*places, size, size + 1]
    assert list(before.changed_since(before)) == []
