"""Curves on a canvas: whole numbers on the scales, names at the ends, nothing outside, whatever the values are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.core.results import Point
from gputui.tui.chart import Chart, ChartCurve, axis_number, drawn, nice_step
from gputui.tui.views.curves import points_of

FALLING = [(float(x), 2.0 / x) for x in range(1, 41)]


def text(chart: Chart, width: int = 60, height: int = 12) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in drawn(chart, width, height)]


def test_scales_have_whole_numbers_and_the_name_stands_at_the_end_of_its_line() -> None:
    lines = text(Chart([ChartCurve(FALLING, 0, "#48", (40.0, 0.05))]))
    assert lines[-1].split() == ["10", "20", "30", "40"]
    assert lines[-2].split()[0] == "0"
    assert lines[-2].endswith("#48")
    assert "●" in lines[-2]


def test_two_lines_that_end_together_both_keep_their_names() -> None:
    lines = text(Chart([ChartCurve(FALLING, number, f"#{number}") for number in range(6)]))
    assert sorted(line.split()[-1] for line in lines if "#" in line) == [f"#{number}" for number in range(6)]


def test_a_wild_beginning_does_not_press_the_rest_flat() -> None:
    wild = [(0.0, 1e6), *FALLING]
    lines = text(Chart([ChartCurve(wild, 0)], down=True))
    assert max(float(line.split()[0]) for line in lines[:-1] if line.strip()[:1].isdigit()) <= 2.5


def test_a_line_stands_where_the_silence_began() -> None:
    lines = text(Chart([ChartCurve(FALLING, 0)], upright=50.0, until=80.0))
    assert sum("┊" in line for line in lines) == len(lines) - 1


@pytest.mark.parametrize(
    ("value", "step", "told"),
    [(45000, 5000, "45k"), (0.25, 0.25, "0.25"), (2.5, 2.5, "2.5"), (1e-5, 1e-5, "1.0e-05"), (-0.0, 1, "0"),
     (12200, 100, "12.2k"), (1.5e6, 5e5, "1.5M"), (900, 100, "900")],
)  # fmt: skip
def test_numbers_of_a_scale(value: float, step: float, told: str) -> None:
    assert axis_number(value, step) == told


@given(st.floats(1e-12, 1e12))
def test_a_nice_step_is_not_less_and_not_much_more(least: float) -> None:
    assert least * 0.999 <= nice_step(least) <= least * 2.6


@given(
    st.lists(st.lists(st.floats(allow_infinity=True, allow_nan=True), min_size=1, max_size=9), min_size=1, max_size=3),
    st.integers(0, 70), st.integers(0, 20), st.booleans(),
)  # fmt: skip
def test_whatever_was_printed_is_drawn_within_its_room(
    values: list[list[float]], width: int, height: int, down: bool
) -> None:
    curves = [
        ChartCurve([(float(x), value) for x, value in enumerate(column) if math.isfinite(value)], number, f"#{number}")
        for number, column in enumerate(values)
    ]
    lines = drawn(Chart(curves, down), width, height)
    assert len(lines) in (0, height)
    assert all(sum(len(piece) for piece, _ in line) <= max(width, 22) for line in lines)


def test_many_values_within_an_epoch_are_a_curve_and_no_stairs() -> None:
    printed = [Point(float(epoch), 0.0, 4.0 - epoch - part / 4) for epoch in (1, 2, 3) for part in range(4)]
    points = points_of(printed[:-2], by_time=False)
    assert [x for x, _ in points] == [1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.25], "the last one is under way"
    assert [y for _, y in points] == [point.value for point in printed[:-2]]
    assert points_of([Point(5.0, 0.0, 1.0), Point(9.0, 0.0, 2.0)], by_time=False) == [(5.0, 1.0), (9.0, 2.0)]
    assert points_of([], by_time=False) == []
