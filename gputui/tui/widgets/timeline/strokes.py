"""The looks of a timeline by what they mean, and the style of each for a palette.

Where the terminal has no grounds to paint bars on, bars are lines and the signs alone must tell (`Palette.rules`).
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from rich.color import Color
from rich.style import Style

from gputui.tui.looks.palette import Palette, palette_of


class Stroke(StrEnum):
    TEXT = "text"
    BRIGHT = "bright"
    PAST = "past"
    LINE = "line"
    OK_EVEN = "ok even"
    OK_ODD = "ok odd"
    RUNNING = "running"
    CRASH = "crash"
    CURSOR = "cursor"
    OTHERS = "others"
    OTHERS_LOAD = "others' load"
    PAUSE = "pause"
    TROUBLE = "trouble"
    EXPECTED = "expected"
    ETA = "eta"
    NOW = "now"
    HEAD = "head"
    HEAD_PAST = "head past"
    SELECTED = "selected"
    SELECTED_BOLD = "selected bold"


class Inked(NamedTuple):
    """A piece of a line."""

    text: str
    stroke: Stroke = Stroke.TEXT


MarkedLine = tuple[Inked, ...]


@lru_cache
def strokes_of(theme: str) -> dict[Stroke, Style]:
    palette = palette_of(theme)
    bold = Style(bold=True)
    common = {
        Stroke.TEXT: palette.text,
        Stroke.BRIGHT: palette.text + bold,
        Stroke.PAST: palette.past,
        Stroke.LINE: palette.line,
        Stroke.OTHERS_LOAD: palette.others_load[2],
        Stroke.PAUSE: palette.warning,
        Stroke.TROUBLE: palette.failure + bold,
        Stroke.EXPECTED: palette.past,
        Stroke.ETA: palette.running + bold,
        Stroke.NOW: palette.text + bold,
        Stroke.HEAD: palette.on_band(palette.text + bold),
        Stroke.HEAD_PAST: palette.on_band(palette.past),
        Stroke.SELECTED: palette.on_cursor(palette.text),
        Stroke.SELECTED_BOLD: palette.on_cursor(palette.text) + bold,
    }
    return common | (_lines(palette) if palette.rules else _grounds(palette))


def _lines(palette: Palette) -> dict[Stroke, Style]:
    return {
        Stroke.OK_EVEN: palette.running,
        Stroke.OK_ODD: palette.running,
        Stroke.RUNNING: palette.running + Style(bold=True),
        Stroke.CRASH: palette.failure + Style(bold=True, reverse=True),
        Stroke.CURSOR: Style(bold=True, reverse=True),
        Stroke.OTHERS: palette.stranger,
    }


def _grounds(palette: Palette) -> dict[Stroke, Style]:
    page = palette.text.bgcolor
    dark = Style(color=page, bold=True)
    return {
        Stroke.OK_EVEN: palette.text + Style(bgcolor=palette.load[0].color),
        Stroke.OK_ODD: palette.text + Style(bgcolor=_between(palette.load[0].color, page)),
        Stroke.RUNNING: dark + Style(bgcolor=palette.running.color),
        Stroke.CRASH: dark + Style(bgcolor=palette.failure.color),
        Stroke.CURSOR: dark + Style(bgcolor=palette.focus.color),
        Stroke.OTHERS: palette.stranger + Style(bgcolor=_between(palette.others_load[0].color, page)),
    }


def _between(first_colour: Color | None, second_colour: Color | None) -> Color | None:
    """Halfway to the page."""
    if first_colour is None or second_colour is None or first_colour.triplet is None or second_colour.triplet is None:
        return first_colour
    mixed = [
        round(0.65 * first + 0.35 * second)
        for first, second in zip(first_colour.triplet, second_colour.triplet, strict=True)
    ]
    return Color.from_rgb(*mixed)
