"""The canvas of dots: where they stand, whose they are, and that nothing is drawn outside."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gputui.tui.chart import EMPTY, NOBODY, Canvas, Chart, ChartCurve, drawn, filled_columns


def test_each_dot_stands_where_braille_has_it() -> None:
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
    assert canvas.row(0) == [("⢣", 0), (" ", NOBODY)]
    assert canvas.row(1) == [(" ", NOBODY), ("⢣", 0)]


def test_two_owners_in_one_cell_share_the_colour_of_the_better() -> None:
    canvas = Canvas(2, 1)
    canvas.dot(0, 0, owner=2)
    canvas.dot(1, 3, owner=1)
    canvas.dot(2, 0, owner=2)
    assert canvas.row(0) == [("⢁", 1), ("⠁", 2)]


def test_a_sign_wins_over_dots_and_blanks_are_what_was_asked_for() -> None:
    canvas = Canvas(3, 1)
    canvas.dot(0, 0)
    canvas.sign(0, 0, "●", owner=5)
    assert canvas.row(0, EMPTY) == [("●", 5), (EMPTY * 2, NOBODY)]
    assert not canvas.is_free(0, 0)
    assert canvas.is_free(1, 0)


def test_load_stops_below_the_top_and_any_load_is_seen() -> None:
    canvas = Canvas(2, 1)
    filled_columns(canvas, [1.0, 0.001, None, 0.0])
    assert canvas.row(0) == [("⣆", 0), (" ", NOBODY)]


def test_newer_values_than_there_are_columns_push_the_oldest_out() -> None:
    canvas = Canvas(1, 1)
    filled_columns(canvas, [1.0, 1.0, 0.001, 1.0], [9, 9, 3, 4])
    assert canvas.row(0) == [("⣰", 3)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(4, 30))
def test_labels_stand_in_the_order_in_which_their_curves_end(ends: list[float], height: int) -> None:
    curves = [ChartCurve([(0, 0.5), (1, end)], number, f"#{number}") for number, end in enumerate(ends)]
    lines = drawn(Chart(curves), 60, height)
    shown = [int(text[1:]) for line in lines for text, _ in line if text.startswith("#")]
    assert len(shown) == min(len(ends), height - 1)
    assert shown == sorted(shown, key=lambda number: (-ends[number], number))


@given(st.integers(0, 4), st.integers(0, 3), st.lists(st.tuples(*[st.integers(-9, 20)] * 4), max_size=6))
def test_nothing_is_ever_drawn_outside(columns: int, rows: int, lines: list[tuple[int, int, int, int]]) -> None:
    canvas = Canvas(columns, rows)
    for owner, line in enumerate(lines):
        canvas.line(*line, owner)
    for row in range(rows):
        assert sum(len(text) for text, _ in canvas.row(row)) == columns
