"""A small canvas of braille dots, two across and four down in each cell: curves, and load over time. Pure.

Each dot belongs to somebody (a number); a cell has the colour of the lowest number in it. Knows no colours and no
widget: `row` gives runs of text with whose they are.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ACROSS", "DOWN", "EMPTY", "NOBODY", "Canvas", "DotRun", "filled_columns"]

ACROSS, DOWN = 2, 4
"""Dots of a cell."""
NOBODY = 1 << 30
EMPTY = "\u2800"
_FIRST = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""By row and column of a dot in its cell."""

DotRun = tuple[str, int]
"""Cells of one owner; NOBODY: nothing is drawn there."""


class Canvas:
    """Dots are counted from the upper left; those outside are left out."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = max(0, columns), max(0, rows)
        self.width, self.height = self.columns * ACROSS, self.rows * DOWN
        self._dots = bytearray(self.columns * self.rows)
        self._owners = [NOBODY] * (self.columns * self.rows)
        self._signs: dict[int, str] = {}

    def dot(self, x: int, y: int, owner: int = 0) -> None:
        if 0 <= x < self.width and 0 <= y < self.height:
            cell = y // DOWN * self.columns + x // ACROSS
            self._dots[cell] |= _BITS[y % DOWN][x % ACROSS]
            self._owners[cell] = min(owner, self._owners[cell])

    def line(self, x0: int, y0: int, x1: int, y1: int, owner: int = 0) -> None:
        """All dots between two, both included (Bresenham)."""
        dx, dy = abs(x1 - x0), -abs(y1 - y0)
        step_x, step_y = (1 if x0 < x1 else -1), (1 if y0 < y1 else -1)
        error = dx + dy
        while True:
            self.dot(x0, y0, owner)
            if (x0, y0) == (x1, y1):
                return
            twice = 2 * error
            if twice >= dy:
                error, x0 = error + dy, x0 + step_x
            if twice <= dx:
                error, y0 = error + dx, y0 + step_y

    def column(self, x: int, height: int, owner: int = 0) -> None:
        """So many dots from the bottom up."""
        for y in range(self.height - min(height, self.height), self.height):
            self.dot(x, y, owner)

    def sign(self, column: int, row: int, sign: str, owner: int = 0) -> None:
        """One character in the place of a cell's dots; it wins over them."""
        if 0 <= column < self.columns and 0 <= row < self.rows:
            cell = row * self.columns + column
            self._signs[cell], self._owners[cell] = sign, owner

    def is_free(self, column: int, row: int) -> bool:
        cell = row * self.columns + column
        return not self._dots[cell] and cell not in self._signs

    def row(self, row: int, ground: str = " ") -> list[DotRun]:
        """`ground`: what stands where nothing is drawn."""
        runs: list[DotRun] = []
        for cell in range(row * self.columns, (row + 1) * self.columns):
            dots, sign = self._dots[cell], self._signs.get(cell)
            text = sign or (chr(_FIRST + dots) if dots else ground)
            owner = self._owners[cell] if dots or sign else NOBODY
            if runs and runs[-1][1] == owner:
                runs[-1] = (runs[-1][0] + text, owner)
            else:
                runs.append((text, owner))
        return runs


def filled_columns(canvas: Canvas, values: Sequence[float | None], owners: Sequence[int] = ()) -> None:
    """Load over time, 0 to 1, one dot column for each value, the newest at the right; None: nobody knows.

    The topmost dot stays empty, so that rows below each other never run together; any load at all is one dot.
    """
    shown = values[-canvas.width :] if canvas.width else ()
    whose = owners[-len(shown) :] if owners and shown else ()
    left = canvas.width - len(shown)
    for place, value in enumerate(shown):
        if value is not None and value > 0:
            height = max(1, round(min(1.0, value) * (canvas.height - 1)))
            canvas.column(left + place, height, whose[place] if whose else 0)
