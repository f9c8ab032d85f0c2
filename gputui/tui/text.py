"""Lines of styled text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, zip_longest
from textwrap import wrap

from msgspec import Struct
from rich.segment import Segment
from textual.strip import Strip

from gputui.core.regex import lazy_regex
from gputui.views.format import cut, width

from .theme import Ground, Look, Palette

Piece = tuple[str, Look]
Pieces = Sequence[Piece]

BAR = "▌"
"""The sign at the left end of selected and marked lines."""
APART = 2
"""Minimum gap in cells between the left and the right part of a band."""
_BLANKS = lazy_regex(r" {3,}")


class Line(Struct, frozen=True):
    """A line of styled text, or a section of one with its own width."""

    pieces: Pieces = ()
    ground: Ground = Ground.PAGE
    right: Pieces = ()
    """The text at the right end of the line."""
    marked: bool = False
    """Whether to show a bar instead of a blank at the left end."""
    value: object = None
    """The value reported when the line is clicked."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)

    def strip(self, cells: int, palette: Palette) -> Strip:
        """Render the line in `cells` cells. The left part is cut if it does not fit."""
        is_band = self.ground in (Ground.BAND, Ground.HEADER)
        pieces = with_bar(self.pieces) if self.marked else self.pieces
        if self.right:
            end = [*self.right, blank(1)] if is_band else [blank(1), *self.right]
            room = max(0, cells - width_of(end))
            apart = APART if is_band else 0
            if width_of(pieces) > room - apart:
                pieces = [*fit(pieces, room - apart), blank(apart)]
            pieces = [*fit(pieces, room), *end]
        pieces = fit(pieces, max(cells, width_of(pieces)) if is_band else cells)
        if is_band and palette.rules:
            pieces = _ruled(pieces)
        return Strip([Segment(text, palette.on(self.ground, look)) for text, look in pieces]).simplify().crop(0, cells)


def heading(*pieces: Piece, right: Pieces = ()) -> Line:
    return Line(pieces, Ground.BAND, right)


def with_bar(pieces: Pieces) -> list[Piece]:
    """Replace the blank at the start of a line with a bar."""
    (text, look), *rest = pieces
    return [(BAR, Look.MARK), (text.removeprefix(" "), look), *rest]


def _ruled(pieces: Pieces) -> list[Piece]:
    """Replace sequences of three or more blanks with a horizontal rule."""
    text = "".join(text for text, _ in pieces)
    rules = {
        at
        for match in _BLANKS.finditer(text)
        for at in range(match.start() + 1, match.end() - (match.end() < len(text)))
    }
    cells = [(sign, look) for text, look in pieces for sign in text]
    return merged(("─", Look.LINE) if at in rules else cell for at, cell in enumerate(cells))


def width_of(pieces: Pieces) -> int:
    return sum(width(text) for text, _ in pieces)


def blank(cells: int) -> Piece:
    return " " * max(0, cells), Look.TEXT


def ljust(text: str, cells: int) -> str:
    """Cut or pad a text to a width in cells."""
    text = cut(text, cells)
    return text + " " * (cells - width(text))


def rjust(text: str, cells: int) -> str:
    text = cut(text, cells)
    return " " * (cells - width(text)) + text


def bar(share: float, cells: int, look: Look) -> list[Piece]:
    """Return a progress bar for a share from 0 to 1."""
    full = round(share * cells)
    return [("━" * full, look), ("─" * (cells - full), Look.LINE)]


def fit(pieces: Pieces, cells: int) -> list[Piece]:
    """Cut or pad pieces to a width. An ellipsis is shown if anything except blanks was cut off."""
    fitted: list[Piece] = []
    for at, (text, look) in enumerate(pieces):
        used = width(text)
        if used > cells:
            is_last = not any(rest.strip() for rest, _ in pieces[at + 1 :])
            return [*fitted, (ljust(text.rstrip() if is_last else text, cells), look)]
        fitted.append((text, look))
        cells -= used
    return [*fitted, blank(cells)] if cells > 0 else fitted


def join(parts: Iterable[Pieces], between: Piece) -> list[Piece]:
    joined: list[Piece] = []
    for part in parts:
        joined += [between, *part] if joined else part
    return joined


def merged(cells: Iterable[Piece]) -> list[Piece]:
    """Merge adjacent pieces with the same look."""
    return [("".join(text for text, _ in run), look) for look, run in groupby(cells, key=lambda cell: cell[1])]


def beside(columns: Sequence[Sequence[Pieces]], cells: int) -> list[list[Piece]]:
    """Place columns side by side. All columns except the last are `cells` wide."""
    lines = []
    for parts in zip_longest(*columns, fillvalue=()):
        lines.append([piece for part in parts[:-1] for piece in fit(part, cells)] + list(parts[-1]))
    return lines


def wrapped(text: str, cells: int, look: Look, indent: str = " ") -> list[Line]:
    return [Line([(f"{indent}{line}", look)]) for line in wrap(text, cells, break_on_hyphens=False) or [""]]


# Tables

COLUMN_GAP = "  "


@dataclass(frozen=True)
class Column:
    """A column of a table, with one cell for each row."""

    title: str
    cells: Sequence[Piece]
    to_right: bool = False
    rank: int = 0
    """If a table is too wide, the columns with the highest rank are dropped first. Columns of rank 0 always stay."""
    fixed_width: int | None = None
    """The width, or None to use the width of the longest text."""
    most: int = 1000
    """Maximum width."""

    @cached_property
    def width(self) -> int:
        if self.fixed_width is not None:
            return self.fixed_width
        return min(self.most, max(width(text) for text in (self.title, *(text for text, _ in self.cells))))

    def padded(self, text: str) -> str:
        return (rjust if self.to_right else ljust)(text, self.width)


def fitting(columns: Sequence[Column], cells: int) -> list[Column]:
    """Return the columns without the least important ones that do not fit in the width."""
    remaining = list(columns)
    while table_width(remaining) > cells and (least := max(remaining, key=lambda column: column.rank)).rank:
        remaining.remove(least)
    return remaining


def table_width(columns: Sequence[Column]) -> int:
    return sum(column.width + len(COLUMN_GAP) for column in columns) - len(COLUMN_GAP)


def table(columns: Sequence[Column], cells: int) -> list[list[Piece]]:
    """Return the heading and the rows of a table with the columns that fit. The texts of the last column may exceed its
    width, because a `Line` cuts them.
    """
    *padded, last = fitting(columns, cells)
    heading = [(column.padded(column.title) + COLUMN_GAP, Look.PAST) for column in padded]
    rows = [[*heading, (last.padded(last.title).rstrip(), Look.PAST)]]
    for number, (text, look) in enumerate(last.cells):
        row = [(column.padded(column.cells[number][0]) + COLUMN_GAP, column.cells[number][1]) for column in padded]
        rows.append([*row, (last.padded(text) if last.to_right else text, look)])
    return rows
