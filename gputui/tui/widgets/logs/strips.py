"""Decoded lines as strips of the screen: cutting, wrapping, marking. Knows Textual's strips, not its widgets."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gputui.logs.ansi import Line, Run
from gputui.logs.sgr import Colour, Look

__all__ = ["HighlightedText", "breaks", "column_of", "fitting", "painted", "strip_of"]

CUT = "›"
"""In the last column: the line goes on to the right."""
_MORE = Look(dim=True)


class HighlightedText(NamedTuple):
    """Characters of a line that are to stand out."""

    start: int
    stop: int
    style: Style


def painted(line: Line) -> tuple[Run, ...]:
    """The runs of a line, with what is left out of it in words."""
    return (*line.runs, Run(f" …+{line.hidden:,} bytes", _MORE)) if line.hidden else line.runs


def fitting(text: str, start: int, width: int) -> int:
    """Up to which character the text fits in so many cells; at least one, so that wrapping ends."""
    if text.isascii():
        return min(len(text), start + max(1, width))
    cells, place = 0, start
    while place < len(text) and (cells := cells + get_character_cell_size(text[place])) <= width:
        place += 1
    return max(place, min(len(text), start + 1))


def breaks(text: str, width: int) -> list[int]:
    """At which character each row begins when the text is wrapped."""
    rows = [0]
    while (stop := fitting(text, rows[-1], width)) < len(text):
        rows.append(stop)
    return rows


def column_of(text: str, cells: int) -> int:
    """The character that stands so many cells to the right of the first."""
    return 0 if cells <= 0 else min(len(text), cells) if text.isascii() else fitting(text, 0, cells)


def strip_of(
    runs: tuple[Run, ...], start: int, stop: int, marks: list[HighlightedText], width: int, base: Style
) -> Strip:
    """The characters `start … stop - 1` of a line in a row of the screen; plain text is one segment."""
    segments: list[Segment] = []
    for text, style in _pieces(runs, start, stop, marks, base):
        if segments and segments[-1].style == style:
            segments[-1] = Segment(segments[-1].text + text, style)
        else:
            segments.append(Segment(text, style))
    blank = width - sum(cell_len(segment.text) for segment in segments)
    if blank > 0 and segments and segments[-1].style == base:
        segments[-1] = Segment(segments[-1].text + " " * blank, base)
    elif blank > 0:
        segments.append(Segment(" " * blank, base))
    strip = Strip(segments)
    return strip if blank >= 0 else strip.crop(0, width)


def _pieces(
    runs: tuple[Run, ...], start: int, stop: int, marks: list[HighlightedText], base: Style
) -> list[tuple[str, Style]]:
    """The runs cut at the ends of the row and of the marks."""
    edges = sorted({edge for mark in marks for edge in (mark.start, mark.stop)})
    pieces = []
    place = 0
    for text, look in runs:
        style = _style(base, look)
        begin, end = max(place, start), min(place + len(text), stop)
        cuts = [begin, *(edge for edge in edges if begin < edge < end), end]
        for left, right in pairwise(cuts):
            if left < right:
                over = [mark.style for mark in marks if mark.start <= left < mark.stop]
                pieces.append((text[left - place : right - place], Style.combine([style, *over]) if over else style))
        place += len(text)
    return pieces


@lru_cache(maxsize=512)
def _style(base: Style, look: Look) -> Style:
    if look == Look():
        return base
    own = Style(
        color=_colour(look.foreground),
        bgcolor=_colour(look.background),
        bold=look.bold or None,
        dim=look.dim or None,
        italic=look.italic or None,
        underline=look.underline or None,
        reverse=look.reverse or None,
        strike=look.strike or None,
    )
    return base + own


def _colour(colour: Colour | None) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)
