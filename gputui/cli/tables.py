"""Tables that fit the terminal, and how states are grouped and marked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from gputui.core.job import ACTIVE, BAD_ENDS, ENDS, FAILURES, WAITING, EngineName, StateName, by_word
from gputui.logs.plain import plain
from gputui.views import format
from gputui.views.format import cut, width

# ---- Rows of text that fit the terminal ----


GAP = "  "
WIDEST = 160
"""Columns; to no more is a cell padded where nothing is cut."""


class Column:
    """`least`: it may be cut down to so many characters on a narrow terminal; None: it is never cut."""

    def __init__(self, title: str, *, right: bool = False, least: int | None = None) -> None:
        self.title = title
        self.right = right
        self.least = least


class Paper:
    """What is written on: how wide it is, and whether it takes colour."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        # A terminal that was never told its size says 0.
        size = os.get_terminal_size(sys.stdout.fileno()) if terminal else os.terminal_size((0, 0))
        self.width: int | None = size.columns or None
        self.height: int | None = size.lines or None
        self.colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def cut(self, text: str) -> str:
        return cut(text, self.width) if self.width is not None else text

    def painted(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if code and self.colour else text


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], paper: Paper, colours: Sequence[str]) -> list[str]:
    """The title line and one line per row; `colours` has one code per row."""
    titles = tuple(column.title for column in columns)
    # Column by column: a hundred thousand rows are many calls, a column's cells are mostly alike.
    cells = [_plain_cells(column) for column in zip(titles, *rows, strict=True)]
    if paper.width is None:
        widths = [_usual_width(column) for column in cells]
    else:
        widths = _fitted(columns, [_widest(column) for column in cells], paper.width)
        cells = [_cut_cells(column, size) for column, size in zip(cells, widths, strict=True)]
    shaped = map(_shaped_cells, cells, widths, (column.right for column in columns))
    lines = (paper.cut(GAP.join(line).rstrip()) for line in zip(*shaped, strict=True))
    return [paper.painted(line, code) for line, code in zip(lines, ("1", *colours), strict=True)]


def _plain_cells(cells: Sequence[str]) -> Sequence[str]:
    return cells if "".join(cells).isprintable() else [plain(cell) for cell in cells]


def _usual_width(cells: Sequence[str]) -> int:
    """Where nothing is cut: a few very long cells go beyond the column instead of widening every row."""
    widest = _widest(cells)
    return widest if widest <= WIDEST else max((size for size in map(width, cells) if size <= WIDEST), default=WIDEST)


def _fitted(columns: Sequence[Column], wanted: list[int], available: int) -> list[int]:
    """Takes from the widest of those that may be cut until all fit."""
    widths = [
        min(size, available) if column.least is not None else size for column, size in zip(columns, wanted, strict=True)
    ]
    surplus = sum(widths) + len(GAP) * (len(widths) - 1) - available
    while surplus > 0:
        spare = [(widths[at] - column.least, at) for at, column in enumerate(columns) if column.least is not None]
        most, widest = max(spare, default=(0, 0))
        if most <= 0:
            break
        widths[widest] -= 1
        surplus -= 1
    return widths


def _cut_cells(cells: Sequence[str], size: int) -> Sequence[str]:
    if _widest(cells) <= size:
        return cells
    shapes = {cell: cut(cell, size) for cell in set(cells)}
    return [shapes[cell] for cell in cells]


def _shaped_cells(cells: Sequence[str], size: int, right: bool) -> list[str]:
    if _is_ascii(cells):
        return [cell.rjust(size) for cell in cells] if right else [cell.ljust(size) for cell in cells]
    shapes = {cell: _shaped(cell, size, right) for cell in set(cells)}
    return [shapes[cell] for cell in cells]


def _widest(cells: Sequence[str]) -> int:
    return max(map(len, cells)) if _is_ascii(cells) else max(map(width, set(cells)))


def _is_ascii(cells: Sequence[str]) -> bool:
    return "".join(cells).isascii()


def _shaped(cell: str, size: int, right: bool) -> str:
    blanks = " " * (size - width(cell))
    return blanks + cell if right else cell + blanks


# ---- The states' words as the command line groups and marks them ----


GROUPS = {
    "waiting": WAITING,
    "active": ACTIVE,
    "failed": FAILURES,
    "ended": ENDS,
}
"""Words that stand for several states; `failed` is what --all-failed means."""

_COLOURS = {"running": "32", "suspended": "33", "stopping": "33", "held": "33", "succeeded": "36", "killed": "35"}


def colour(state: str) -> str:
    """The SGR code; empty: the terminal's own colour."""
    return "31" if state in BAD_ENDS else _COLOURS.get(state, "")


def meant(words: Iterable[str]) -> list[StateName]:
    """The states that these words stand for."""
    return [state for word in words for state in GROUPS.get(word) or (StateName(word),)]


def told(counts: Mapping[StateName, int], engine: EngineName = EngineName.LOCAL) -> str:
    """`2 running · 5 queued`, in the order of a job's life; what a cluster has not begun is `submitted`."""
    words = by_word(counts)
    if engine is not EngineName.LOCAL:
        words = {format.WORD if word == StateName.STARTING else word: number for word, number in words.items()}
    return " · ".join(f"{number} {word}" for word, number in words.items())


def counted(states: Iterable[StateName]) -> dict[StateName, int]:
    counts: dict[StateName, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return counts
