"""The signs the screen is drawn with, and what stands for each where the terminal knows ASCII only.

Widgets draw the signs themselves; the last filter before the terminal translates them. One cell stays one cell.
"""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color as TextualColor
from textual.filter import LineFilter

__all__ = ["ASCII", "STEPS", "AsciiSigns"]

STEPS = "▁▂▃▄▅▆"
"""Load and trend in one row; they stop at six eighths, so that rows never run into each other."""
_BRAILLE = range(0x2801, 0x2900)
_PAIRS = {
    "●": "*", "·": ".", "✓": "+", "✗": "x", "‖": "=", "◷": "@", "■": "#", "○": "o", "◐": "%", "◌": "o", "▽": "v",
    "━": "=", "─": "-", "╸": "=", "╺": "-", "│": "|", "┃": "|", "├": "|", "┤": "|",
    "╭": "+", "╮": "+", "╰": "+", "╯": "+",
    "▁": "_", "▂": ".", "▃": "-", "▄": "=", "▅": "+", "▆": "#", "▇": "#", "█": "#",
    "★": "*", "▾": "v", "▴": "^", "≈": "~", "⋮": ":", "…": "~", "▌": ">", "┊": "|", "┄": ".", "▶": ">", "►": ">",
    "–": "-", "›": ">", "×": "x", "°": "'", "←": "<", "→": ">", "↑": "^", "↓": "v", "•": "*",
}  # fmt: skip
ASCII = {**{ord(sign): plain for sign, plain in _PAIRS.items()}, 0x2800: " ", **dict.fromkeys(_BRAILLE, "#"),
         **dict.fromkeys((0x2840, 0x2880, 0x28C0), "_")}  # fmt: skip


class AsciiSigns(LineFilter):
    """For terminals that would show three odd letters for every sign."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        return [segment if segment.text.isascii() else _translated(segment) for segment in segments]


def _translated(segment: Segment) -> Segment:
    return Segment(segment.text.translate(ASCII), segment.style, segment.control)
