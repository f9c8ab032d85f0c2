"""What a drawing of devices gives the pane: lines of inked pieces, and which device each part of a line belongs to.

The seam for other kinds of machines: a drawing is chosen by the picture's kind (`drawings`), and neither the pane nor
the screen knows what is on the page. Pure; inks are names, the pane has a style for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from msgspec import Struct

from gputui.core.views.cells import cut, width
from gputui.gpus.picture import DevicesPicture

from .occupants import View


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
