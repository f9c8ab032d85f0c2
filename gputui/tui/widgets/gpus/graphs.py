"""Load and memory over time, and bars of memory, as pieces of text. Pure.

Columns of dots come from `gpus.history.columns`, two in a cell. Load is one hue, darker below and brighter above; the
topmost dot stays empty, so that graphs below each other never run together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from gputui.gpus.history.columns import HistoryColumn
from gputui.gpus.history.shares import LoadOwner
from gputui.tui.looks.glyphs import STEPS

from .page import LOADS, OTHERS, Ink, InkPiece

_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
"""Dots of a cell's half, from the bottom up."""
_DOWN = 4

Column = HistoryColumn
_Inked = tuple[str, Ink]


def sparkline(columns: Sequence[Column]) -> list[InkPiece]:
    """One cell for each column."""
    return _joined([_spark(column) for column in columns])


def _spark(column: Column) -> _Inked:
    if column.load is None:
        return " ", Ink.LINE
    if column.load <= 0.005:
        return STEPS[0], Ink.LINE
    step = STEPS[min(len(STEPS) - 1, int(column.load * len(STEPS)))]
    shades = OTHERS if column.owner is LoadOwner.OTHERS else LOADS
    return step, shades[min(3, int(column.load * 4))]


def load_graph(columns: Sequence[Column], rows: int, *, dead: bool = False) -> list[list[InkPiece]]:
    """From the top row down; coloured by whose load it was. `dead`: of a card that is gone, in grey."""

    def ink(pair: Sequence[Column], row: int) -> Ink:
        if dead:
            return Ink.PAST
        if not any(column.load for column in pair):
            return Ink.LINE
        shade = 3 if rows == 1 else min(3, round((row + 1) * 3 / rows))
        strongest = max(pair, key=lambda column: column.load or 0.0)
        return (OTHERS if strongest.owner is LoadOwner.OTHERS else LOADS)[shade]

    return _graph([_dots(column.load, rows) for column in columns], columns, rows, ink)


def memory_graph(columns: Sequence[Column], rows: int, *, dead: bool = False) -> list[list[InkPiece]]:
    """Ours below, others' above."""
    heights = [None if column.load is None else _dots(column.ours + column.others, rows) for column in columns]

    def ink(pair: Sequence[Column], row: int) -> Ink:
        if dead:
            return Ink.PAST
        fullest = max(pair, key=lambda column: column.ours + column.others)
        if fullest.ours + fullest.others <= 0.005:
            return Ink.LINE
        own = fullest.ours * (rows * _DOWN - 1)
        return Ink.STRANGER if row * _DOWN + 1 > own and fullest.others > 0.005 else Ink.MEMORY

    return _graph(heights, columns, rows, ink)


def _dots(share: float | None, rows: int) -> int | None:
    """Nothing at all is one dot too: it is known to be nothing."""
    return None if share is None else max(1, round(min(1.0, share) * (rows * _DOWN - 1)))


def _graph(
    heights: Sequence[int | None], columns: Sequence[Column], rows: int, ink: Callable[[Sequence[Column], int], Ink]
) -> list[list[InkPiece]]:
    drawn = []
    for row in reversed(range(rows)):
        cells: list[_Inked] = []
        for at in range(0, len(heights) - 1, 2):
            one, two = (min(_DOWN, max(0, (height or 0) - row * _DOWN)) for height in heights[at : at + 2])
            dots = _LEFT[one] | _RIGHT[two]
            cells.append((chr(0x2800 + dots), ink(columns[at : at + 2], row)) if dots else (" ", Ink.LINE))
        drawn.append(_joined(cells))
    return drawn


def _joined(cells: Sequence[_Inked]) -> list[InkPiece]:
    return [InkPiece("".join(text for text, _ in some), ink) for ink, some in groupby(cells, key=lambda cell: cell[1])]


def memory_bar(ours: int, others: int, used: int | None, total: int | None, cells: int) -> list[InkPiece]:
    """What ours have, what others have, what the driver has, and the rest; each that is there is seen."""
    if used is None or not total:
        return [InkPiece(" " * cells)]
    own = _cells(ours, total, cells)
    theirs = min(cells - own, _cells(others, total, cells))
    rest = min(cells - own - theirs, max(0, round(cells * used / total) - own - theirs))
    pieces = [InkPiece("━" * own, Ink.MEMORY), InkPiece("━" * theirs, Ink.STRANGER), InkPiece("━" * rest, Ink.PAST),
            InkPiece("─" * (cells - own - theirs - rest), Ink.LINE)]  # fmt: skip
    return [piece for piece in pieces if piece.text]


def _cells(part: int, total: int, cells: int) -> int:
    return min(cells, max(part * 50 > total, round(cells * part / total)))


def scale(minutes: int, cells: int) -> str:
    """`-30 min   -20   -10   now`, each at its place."""
    first, last = f"-{minutes} min", "now"
    text = list(first.ljust(cells))
    for back in (minutes * 2 // 3, minutes // 3):
        label, at = f"-{back}", round(cells * (1 - back / minutes))
        if at > len(first) + 1 and at + len(label) < cells - len(last):
            text[at : at + len(label)] = label
    if cells > len(first) + len(last):
        text[cells - len(last) :] = last
    return "".join(text)[:cells]
