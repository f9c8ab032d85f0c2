"""A strip of styled text as terminal cells, and the shortest words for a change of style. Knows Rich, not Textual."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from rich.cells import split_graphemes
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

__all__ = ["PLAIN", "Cell", "Pen", "cells_of", "pen_change"]

_ATTRIBUTES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "blink": "5",
    "blink2": "6",
    "reverse": "7",
    "conceal": "8",
    "strike": "9",
    "underline2": "21",
    "frame": "51",
    "encircle": "52",
    "overline": "53",
}
_UNSEEN_ON_BLANKS = {"", "1", "2", "3"}


class Pen(NamedTuple):
    """How the terminal draws: SGR codes; an empty colour is the terminal's own."""

    attributes: str
    colour: str
    background: str


PLAIN = Pen("", "", "")

Cell = tuple[str, Pen]
"""What one column shows. The right half of a wide character is the empty text."""


def cells_of(segments: Iterable[Segment], colours: ColorSystem) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, control in segments:
        if not control:
            pen = PLAIN if style is None else _pen_of(style, colours)
            cells.extend(zip(text if text.isascii() else _columns(text), repeat(pen), strict=False))
    return cells


def pen_change(old: Pen | None, new: Pen, text: str) -> str:
    """The SGR sequence after which the text looks as it should; empty when none is needed."""
    if old is None or old.attributes != new.attributes:
        if old is not None and text == " " and _alike_on_blanks(old, new):
            return ""
        return "\x1b[" + ";".join(("0", *filter(None, new))) + "m"
    codes = []
    if old.colour != new.colour and not (text == " " and _alike_on_blanks(old, new)):
        codes.append(new.colour or "39")
    if old.background != new.background:
        codes.append(new.background or "49")
    return f"\x1b[{';'.join(codes)}m" if codes else ""


def _alike_on_blanks(old: Pen, new: Pen) -> bool:
    return (
        old.background == new.background and old.attributes in _UNSEEN_ON_BLANKS and new.attributes in _UNSEEN_ON_BLANKS
    )


@lru_cache(4096)
def _pen_of(style: Style, colours: ColorSystem) -> Pen:
    attributes = ";".join(code for name, code in _ATTRIBUTES.items() if getattr(style, name))
    colour = "" if style.color is None else ";".join(style.color.downgrade(colours).get_ansi_codes())
    background = (
        "" if style.bgcolor is None else ";".join(style.bgcolor.downgrade(colours).get_ansi_codes(foreground=False))
    )
    return Pen(attributes, "" if colour == "39" else colour, "" if background == "49" else background)


@lru_cache(4096)
def _columns(text: str) -> tuple[str, ...]:
    columns: list[str] = []
    for start, end, width in split_graphemes(text)[0]:
        if width:
            columns.append(text[start:end])
            columns.extend(repeat("", width - 1))
    return tuple(columns)
