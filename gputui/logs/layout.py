"""Which lines stand on a screen of some height, and where a movement leads. Pure.

A line takes one row of the screen, or several when it is wrapped; only lines near the screen are ever asked how many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["LineLayout", "Top"]


class Top(NamedTuple):
    """What stands in the first row of the screen: a part (0, when it is not wrapped) of a line."""

    row: int
    part: int = 0


class LineLayout:
    """`rows` lines on a screen that is `height` high; `parts` tells how many rows a line takes there."""

    def __init__(self, rows: int, height: int, parts: Callable[[int], int]) -> None:
        self._rows = rows
        self._height = max(1, height)
        self._parts = parts

    def last_top(self) -> Top:
        """The last line stands at the bottom, or everything fits."""
        rows_left = self._height
        for row in range(self._rows - 1, -1, -1):
            rows_left -= self._parts(row)
            if rows_left <= 0:
                return Top(row, -rows_left)
        return Top(0)

    def visible(self, top: Top) -> Iterator[Top]:
        """What stands in each row of the screen from `top` on; it ends early when the lines do."""
        rows_left = self._height
        row, part = top
        while rows_left > 0 and row < self._rows:
            for shown_part in range(part, self._parts(row)):
                if rows_left == 0:
                    return
                yield Top(row, shown_part)
                rows_left -= 1
            row, part = row + 1, 0

    def moved(self, top: Top, by: int) -> Top:
        """Down by so many rows of the screen, or up, but not past either end."""
        place = self._down(top, by) if by > 0 else self._up(top, -by)
        return max(Top(0), min(place, self.last_top()))

    def _down(self, top: Top, by: int) -> Top:
        row, part = top
        while row < self._rows and part + by >= (parts := self._parts(row)):
            by -= parts - part
            row, part = row + 1, 0
        return Top(row, part + by)

    def _up(self, top: Top, by: int) -> Top:
        row, part = top
        while by > part and row > 0:
            by -= part + 1
            row -= 1
            part = self._parts(row) - 1
        return Top(row, max(0, part - by))
