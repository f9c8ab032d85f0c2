"""Lines of a log as strips: colours, wrapping and highlights; and long work in slices."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Generator
from functools import lru_cache
from itertools import pairwise
from re import Pattern
from typing import NamedTuple, TypeVar

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gputui.core.regex import lazy_regex
from gputui.logs.ansi import Colour, Line, Look, Run
from gputui.tui.theme import Palette
from gputui.views.format import fitting

SLICE = 0.015
"""Seconds of work before keys are handled and the screen is painted again."""

Result = TypeVar("Result")


async def run_in_slices(work: Generator[None, None, Result]) -> Result:
    """Run long work to its end, handling keys and painting in between."""
    deadline = time.monotonic() + SLICE
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Result = done.value
            return result
        if time.monotonic() > deadline:
            await asyncio.sleep(0)
            deadline = time.monotonic() + SLICE


# Lines as strips

CUT = "›"
"""The sign in the last column of a line that continues to the right."""
_MORE = Look(dim=True)


class HighlightedText(NamedTuple):
    """A range of characters with its own style."""

    start: int
    stop: int
    style: Style


def painted(line: Line) -> tuple[Run, ...]:
    """Return the runs of a line, followed by a note if some bytes are hidden."""
    return (*line.runs, Run(f" …+{line.hidden:,} bytes", _MORE)) if line.hidden else line.runs


def end_of_row(text: str, start: int, width: int) -> int:
    """Return the index after the last character that fits in the row. Every row has at least one character."""
    return max(fitting(text, max(1, width), start), min(len(text), start + 1))


def breaks(text: str, width: int) -> list[int]:
    """Return the index of the first character of each row of the wrapped text."""
    rows = [0]
    while (stop := end_of_row(text, rows[-1], width)) < len(text):
        rows.append(stop)
    return rows


def column_of(text: str, cells: int) -> int:
    """Return the index of the character at the given cell."""
    return 0 if cells <= 0 else min(len(text), cells) if text.isascii() else end_of_row(text, 0, cells)


def strip_of(
    runs: tuple[Run, ...], start: int, stop: int, marks: list[HighlightedText], width: int, base: Style
) -> Strip:
    """Return a row of the screen with the characters from `start` to `stop`. Plain text becomes a single segment."""
    segments = [Segment(text, style) for text, style in _pieces(runs, start, stop, marks, base)]
    return Strip(segments).adjust_cell_length(width, base).simplify()


def _pieces(
    runs: tuple[Run, ...], start: int, stop: int, marks: list[HighlightedText], base: Style
) -> list[tuple[str, Style]]:
    """Split the runs at the ends of the row and of the marked ranges."""
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


# Errors and numbers

LONGEST = 2000
"""Maximum number of characters of a line that are searched."""
_FAILURE = lazy_regex(
    r"""\s*(?:
        Traceback\ \(most\ recent\ call\ last\)
        | [\w.]{0,80}(?:Error|Exception|Interrupt|Exit|Failure)(?::\ |\s*$)
        | (?:\S+\s+){0,4}\[?(?:ERROR|FATAL|CRITICAL)\b
        | (?:Segmentation\ fault|Aborted|Bus\ error|Killed|Floating\ point\ exception)\b
        | (?:slurmstepd|srun):\ error
    )""",
    re.VERBOSE,
)
_FRAME = lazy_regex(r'\s+File "[^"]+", line \d+')
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def highlighted(text: str, palette: Palette, number: Pattern[str] | None) -> list[HighlightedText]:
    """Return the ranges to highlight: errors, stack frames and the value of the metric."""
    searched = text[:LONGEST]
    if _FAILURE.match(searched) is not None:
        return [HighlightedText(0, len(text), _bold(palette.failure))]
    if _FRAME.match(searched) is not None:
        return [HighlightedText(0, len(text), _foreground(palette.failure))]
    if number is None:
        return []
    return [HighlightedText(*match.span(1), _bold(palette.best)) for match in number.finditer(searched)]


@lru_cache(maxsize=8)
def number_after(name: str) -> Pattern[str]:
    """Return a pattern that finds the number in `val_loss 0.41`, `val_loss=0.41` or `"val_loss": 0.41`."""
    return re.compile(rf"(?<![\w/.-]){re.escape(name)}[\"']?\s*[:=]?\s*({_NUMBER})(?![\w.])", re.IGNORECASE)


@lru_cache(maxsize=8)
def _bold(style: Style) -> Style:
    return _foreground(style) + Style(bold=True)


@lru_cache(maxsize=8)
def _foreground(style: Style) -> Style:
    """Return the style without its background."""
    return Style(color=style.color, bold=style.bold, dim=style.dim)
