"""The layout of lines on the screen, wrapped or not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gputui.logs.document import LineLayout, Top

PARTS = st.lists(st.integers(1, 5), max_size=12)


def all_rows(parts: list[int]) -> list[Top]:
    return [Top(row, part) for row, count in enumerate(parts) for part in range(count)]


@given(PARTS, st.integers(1, 8), st.integers(0, 60), st.integers(-70, 70))
def test_scrolling_moves_over_all_rows(parts: list[int], height: int, start: int, by: int) -> None:
    rows = all_rows(parts)
    layout = LineLayout(len(parts), height, parts.__getitem__)
    last = max(0, len(rows) - height)
    assert layout.last_top() == (rows[last] if rows else Top(0))
    place = min(start, last)
    top = rows[place] if rows else Top(0)
    assert list(layout.visible(top)) == rows[place : place + height]
    expected = max(0, min(last, place + by))
    assert layout.moved(top, by) == (rows[expected] if rows else Top(0))


def test_only_lines_near_the_screen_are_measured() -> None:
    asked = []

    def parts(row: int) -> int:
        asked.append(row)
        return 2

    layout = LineLayout(10_000_000, 40, parts)
    assert layout.last_top() == Top(9_999_980)
    layout.moved(Top(5_000_000), -39)
    list(layout.visible(Top(5_000_000)))
    assert len(asked) < 200
