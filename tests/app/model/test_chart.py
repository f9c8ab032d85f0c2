"""Charts: round numbers on the scales, labels at the ends of curves, nothing drawn outside, whatever the values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.core.results import Point
from gputui.tui.chart import EMPTY, Canvas, Chart, ChartCurve, axis_number, draw_chart, nice_step
from gputui.tui.views.curves import points_of

FALLING = [(float(x), 2.0 / x) for x in range(1, 41)]


def text(chart: Chart, width: int = 60, height: int = 12) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in draw_chart(chart, width, height)]


def test_scales_have_round_numbers_and_the_label_is_at_the_end_of_its_curve() -> None:
    lines = text(Chart([ChartCurve(FALLING, 0, "#48", (40.0, 0.05))]))
    assert lines[-1].split() == ["10", "20", "30", "40"]
    assert float(lines[-2].split()[0]) == 0
    (end,) = (line for line in lines if "●" in line)
    assert end.endswith("#48")


def test_outliers_at_the_start_do_not_flatten_the_rest() -> None:
    wild = [(0.0, 1e6), *FALLING]
    lines = text(Chart([ChartCurve(wild, 0)], down=True))
    assert max(float(line.split()[0]) for line in lines[:-1] if line.strip()[:1].isdigit()) <= 2.5


def test_a_vertical_line_marks_where_data_stopped() -> None:
    lines = text(Chart([ChartCurve(FALLING, 0)], marker_x=50.0, until=80.0))
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
def test_any_values_are_drawn_within_the_given_size(
    values: list[list[float]], width: int, height: int, down: bool
) -> None:
    curves = [
        ChartCurve([(float(x), value) for x, value in enumerate(column) if math.isfinite(value)], number, f"#{number}")
        for number, column in enumerate(values)
    ]
    lines = draw_chart(Chart(curves, down), width, height)
    assert len(lines) in (0, height)
    assert all(sum(len(piece) for piece, _ in line) <= max(width, 22) for line in lines)


def test_several_values_in_an_epoch_are_spread_over_it() -> None:
    printed = [Point(float(epoch), 0.0, 4.0 - epoch - part / 4) for epoch in (1, 2, 3) for part in range(4)]
    points = points_of(printed[:-2], by_time=False)
    assert [x for x, _ in points] == [1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.25], "the last one is under way"
    assert [y for _, y in points] == [point.value for point in printed[:-2]]
    assert points_of([Point(5.0, 0.0, 1.0), Point(9.0, 0.0, 2.0)], by_time=False) == [(5.0, 1.0), (9.0, 2.0)]
    assert points_of([], by_time=False) == []


# The canvas


def test_dots_are_braille_dots() -> None:
    signs = []
    for y in range(4):
        for x in range(2):
            canvas = Canvas(1, 1)
            canvas.dot(x, y)
            signs.append(canvas.row(0)[0][0])
    assert "".join(signs) == "⠁⠈⠂⠐⠄⠠⡀⢀"


def test_a_line_joins_its_ends() -> None:
    canvas = Canvas(2, 2)
    canvas.line(0, 0, 3, 7)
    assert canvas.row(0) == [("⢣", 0), (" ", EMPTY)]
    assert canvas.row(1) == [(" ", EMPTY), ("⢣", 0)]


def test_two_owners_in_one_cell_share_the_colour_of_the_better() -> None:
    canvas = Canvas(2, 1)
    canvas.dot(0, 0, owner=2)
    canvas.dot(1, 3, owner=1)
    canvas.dot(2, 0, owner=2)
    assert canvas.row(0) == [("⢁", 1), ("⠁", 2)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(4, 30))
def test_labels_are_in_the_order_of_the_ends_of_their_curves(ends: list[float], height: int) -> None:
    curves = [ChartCurve([(0, 0.5), (1, end)], number, f"#{number}") for number, end in enumerate(ends)]
    lines = draw_chart(Chart(curves), 60, height)
    shown = [int(text[1:]) for line in lines for text, _ in line if text.startswith("#")]
    assert len(shown) == min(len(ends), height - 1)
    assert shown == sorted(shown, key=lambda number: (-ends[number], number))


@given(st.integers(0, 4), st.integers(0, 3), st.lists(st.tuples(*[st.integers(-9, 20)] * 4), max_size=6))
def test_nothing_is_drawn_outside(columns: int, rows: int, lines: list[tuple[int, int, int, int]]) -> None:
    canvas = Canvas(columns, rows)
    for owner, line in enumerate(lines):
        canvas.line(*line, owner)
    for row in range(rows):
        assert sum(len(text) for text, _ in canvas.row(row)) == columns


def test_a_steep_start_does_not_take_the_rows_of_the_rest() -> None:
    steep = [(float(x), 100.0 / x**3) for x in range(1, 101)]
    highest = max(float(line.split()[0]) for line in text(Chart([ChartCurve(steep, 0)]))[:-1] if line[:5].strip())
    assert highest < 1


def test_a_logarithmic_scale_has_round_numbers_and_equal_factors_take_equal_rows() -> None:
    falling = [(float(x), 10.0 ** (3 - x / 10)) for x in range(41)]
    lines = text(Chart([ChartCurve(falling, 0)], log=True), 60, 20)
    labels = {row: float(line[:5].replace("k", "e3")) for row, line in enumerate(lines[:-1]) if line[:5].strip()}
    assert {100.0, 10.0, 1.0} <= set(labels.values())
    (hundred,), (ten,), (one,) = ([row for row, label in labels.items() if label == value] for value in (100, 10, 1))
    assert abs((ten - hundred) - (one - ten)) <= 1
    assert text(Chart([ChartCurve([(0.0, -1.0), (1.0, 2.0)], 0)], log=True)), "values below zero are drawn all the same"


def test_a_filled_chart_shows_gaps_as_gaps() -> None:
    used = [(float(x), 50.0) for x in (*range(20), *range(60, 80))]
    chart = Chart([ChartCurve(used, 0)], since=0, until=80, shows=(0, 100), filled=True, has_x_scale=False)
    bottom = text(chart, 60, 5)[-1]
    assert bottom.count("⣿") == pytest.approx(len(bottom) / 2, abs=4)
    assert "    " in bottom.strip() or "┄┄┄┄" in bottom


def test_only_the_part_between_the_ends_of_the_axis_is_drawn() -> None:
    lines = text(Chart([ChartCurve(FALLING, 0)], since=10, until=20))
    assert lines[-1].split() == ["12", "15", "18"]


def test_in_a_small_chart_the_curve_takes_all_rows() -> None:
    falling = [ChartCurve([(0.0, 9.0), (1.0, 2.5), (10.0, 0.36)], 0)]
    lines = text(Chart(falling, is_small=True, has_x_scale=False), 40, 4)
    assert [line[:5].strip() for line in lines][1:3] == ["", ""]
    assert "0.36" in lines[-1]
    assert all(any("\u2800" < sign < "\u2900" for sign in line) for line in lines)
