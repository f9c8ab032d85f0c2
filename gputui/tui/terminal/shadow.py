"""What the terminal shows, cell by cell, and the fewest bytes that turn it into a new picture.

Knows nothing of Textual. Whoever writes to the terminal behind its back must call `forget`.
"""

from __future__ import annotations

from .cells import Cell, Pen, pen_change

__all__ = ["Shadow"]

_LONGEST_GAP = 4
"""Cells that are cheaper to write again than to jump over."""


class Shadow:
    def __init__(self) -> None:
        self.size = (0, 0)
        self._rows: list[list[Cell | None]] = []
        self._pen: Pen | None = None
        self._place: tuple[int, int] | None = None

    def forget(self) -> None:
        """Nothing is known: every cell painted from now on is sent."""
        self.size = (0, 0)

    def resize(self, width: int, height: int) -> None:
        """Takes note of the screen's size; another one than before means that nothing is known."""
        if self.size != (width, height):
            self.size = (width, height)
            self._rows = [[None] * width for _ in range(height)]
            self._pen = self._place = None

    def paint(self, x: int, y: int, cells: list[Cell]) -> str:
        """The bytes that make the terminal show these cells from column x of row y on."""
        if not 0 <= y < len(self._rows):
            return ""
        row = self._rows[y]
        cells = cells[: len(row) - x]
        end = x + len(cells)
        if row[x:end] == cells:
            return ""
        changed = [x + i for i, (old, new) in enumerate(zip(row[x:end], cells, strict=True)) if old != new]
        self._unknow_halves(row, changed[0], changed[-1])
        row[x:end] = cells
        return "".join([self._cell(row, column, y) for column in changed])

    def go(self, x: int, y: int) -> str:
        """The bytes that bring the cursor there; none when it is there."""
        if self._place == (x, y):
            return ""
        steps = x - self._place[0] if self._place is not None and self._place[1] == y else 0
        self._place = (x, y)
        if steps > 0:
            return f"\x1b[{steps}C" if steps > 1 else "\x1b[C"
        return f"\x1b[{y + 1};{x + 1}H"

    def _cell(self, row: list[Cell | None], x: int, y: int) -> str:
        cell = row[x]
        if cell is None or not cell[0]:
            return ""  # the right half came with the left one
        text, pen = cell
        sequence = self._reach(row, x, y)
        change = pen_change(self._pen, pen, text)
        if change:
            self._pen = pen
        after = x + (2 if row[x + 1 : x + 2] == [("", pen)] else 1)
        certain = len(text) == 1 and after < len(row)  # terminals disagree on clusters, and on what follows the edge
        self._place = (after, y) if certain else None
        return sequence + change + text

    def _reach(self, row: list[Cell | None], x: int, y: int) -> str:
        """A short gap of unchanged cells in the present style is written again; else the cursor jumps."""
        if self._place is not None and self._place[1] == y and 0 < x - self._place[0] <= _LONGEST_GAP:
            gap = row[self._place[0] : x]
            if all(cell is not None and len(cell[0]) == 1 and self._looks_right(cell) for cell in gap):
                return "".join([cell[0] for cell in gap if cell is not None])
        return self.go(x, y)

    def _looks_right(self, cell: Cell) -> bool:
        """Written as the terminal draws now."""
        text, pen = cell
        return pen == self._pen or not pen_change(self._pen, pen, text)

    @staticmethod
    def _unknow_halves(row: list[Cell | None], first: int, last: int) -> None:
        """A wide character loses both halves when one is written over; the other half may lie outside the paint."""
        if first > 0 and _is_right_half(row[first]):
            row[first - 1] = None
        if last + 1 < len(row) and _is_right_half(row[last + 1]):
            row[last + 1] = None


def _is_right_half(cell: Cell | None) -> bool:
    return cell is not None and cell[0] == ""
