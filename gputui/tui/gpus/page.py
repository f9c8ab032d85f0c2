"""Lines of styled pieces that show devices: graphs, bars and inks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple, Protocol

from msgspec import Struct
from rich.style import Style

from gputui.gpus.history import HistoryColumn, LoadOwner
from gputui.gpus.picture import DevicesPicture
from gputui.tui.theme import STEPS, Palette
from gputui.views.format import cut, width

from .occupants import View

# ---- What a drawing of devices gives the pane ----


class Ink(StrEnum):
    """What a piece means."""

    TEXT = "text"
    PAST = "past"
    LINE = "line"
    RUNNING = "running"
    WARNING = "warning"
    FAILURE = "failure"
    STRANGER = "stranger"
    MEMORY = "memory"
    LOAD_0 = "load 0"
    LOAD_1 = "load 1"
    LOAD_2 = "load 2"
    LOAD_3 = "load 3"
    OTHERS_0 = "others 0"
    OTHERS_1 = "others 1"
    OTHERS_2 = "others 2"
    OTHERS_3 = "others 3"


LOADS = (Ink.LOAD_0, Ink.LOAD_1, Ink.LOAD_2, Ink.LOAD_3)
OTHERS = (Ink.OTHERS_0, Ink.OTHERS_1, Ink.OTHERS_2, Ink.OTHERS_3)


class InkPiece(NamedTuple):
    text: str
    ink: Ink = Ink.TEXT
    bold: bool = False


class Spot(Struct, frozen=True):
    """A part of a line, filled to its width."""

    pieces: tuple[InkPiece, ...]
    width: int
    key: str | None = None
    """The device under it; None: none that the cursor could go to."""
    band: bool = False
    """On the ground of a band."""


PageLine = tuple[Spot, ...]
BandPieces = tuple[InkPiece, ...]


class Page(Struct, frozen=True):
    lines: tuple[PageLine, ...]
    head: BandPieces = ()
    """What follows the title in the pane's band: the names of the columns, at their places."""
    tail: BandPieces = ()
    """What ends the band."""
    barred: bool = False
    """The device under the cursor has a bar at its left, and is not covered."""

    def keys(self) -> list[str]:
        """The devices, in the order in which the cursor goes over them."""
        spots = sorted(
            ((column, row, spot.key) for row, line in enumerate(self.lines) for column, spot in enumerate(line)
             if spot.key is not None), key=lambda place: place[:2]
        )  # fmt: skip
        return list(dict.fromkeys(key for _, _, key in spots))


class Room(Struct, frozen=True):
    """What there is for a page."""

    width: int
    height: int
    full: bool = False
    """The pane has the whole screen: history, processes, users and the machine."""
    screen_height: int = 0
    """Of the terminal: the look depends on it, so that nothing jumps when panes change."""
    title: int = 0
    """Cells that the band's number and title take."""


class Drawing(Protocol):
    """How one kind of machine is drawn."""

    def rows_wanted(self, picture: DevicesPicture, width: int, height: int, *, unfolded: bool) -> int:
        """Lines for the pane on a screen of this size; `unfolded`: it has the focus."""

    def page(self, view: View, room: Room) -> Page: ...


def spot(pieces: Sequence[InkPiece], columns: int, key: str | None = None, *, band: bool = False) -> Spot:
    """Joined where the ink is the same, cut and filled to exactly so many columns."""
    fitted: list[InkPiece] = []
    room = columns
    for piece in pieces:
        text = cut(piece.text, room)
        room -= width(text)
        if fitted and (fitted[-1][1:] == piece[1:] or not text.strip()):
            fitted[-1] = InkPiece(fitted[-1].text + text, *fitted[-1][1:])
        elif text:
            fitted.append(InkPiece(text, *piece[1:]))
    if room > 0:
        fitted.append(InkPiece(" " * room))
    return Spot(tuple(fitted), columns, key, band)


def left(text: str, columns: int, ink: Ink = Ink.TEXT, *, bold: bool = False) -> InkPiece:
    text = cut(text, columns)
    return InkPiece(text + " " * (columns - width(text)), ink, bold)


def right(text: str, columns: int, ink: Ink = Ink.TEXT, *, bold: bool = False) -> InkPiece:
    text = cut(text, columns)
    return InkPiece(" " * (columns - width(text)) + text, ink, bold)


def gap(columns: int) -> InkPiece:
    return InkPiece(" " * max(0, columns))


# ---- The style of every ink, by the palette of the app's theme ----


_BOLD = Style(bold=True)


def style_of(palette: Palette, piece: InkPiece) -> Style:
    style = _plain(palette, piece.ink)
    return style + _BOLD if piece.bold else style


def _plain(palette: Palette, ink: Ink) -> Style:
    if ink in LOADS:
        return palette.load[LOADS.index(ink)]
    if ink in OTHERS:
        return palette.others_load[OTHERS.index(ink)]
    style: Style = getattr(palette, ink.value)
    return style


# ---- Load and memory over time, and bars of memory, as pieces of text ----


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
