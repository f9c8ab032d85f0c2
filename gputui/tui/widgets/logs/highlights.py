"""What stands out in a log by itself: errors with their tracebacks, and the number that was read as the result.

Looks at one line at a time, and only at those on the screen.
"""

from __future__ import annotations

import re
from functools import lru_cache
from re import Pattern

from rich.style import Style

from gputui.tui.looks.palette import Palette

from .strips import HighlightedText

__all__ = ["highlighted", "number_after"]

LONGEST = 2000
"""Letters of a line that are looked at."""
_FAILURE = re.compile(
    r"""\s*(?:
        Traceback\ \(most\ recent\ call\ last\)
        | [\w.]{0,80}(?:Error|Exception|Interrupt|Exit|Failure)(?::\ |\s*$)
        | (?:\S+\s+){0,4}\[?(?:ERROR|FATAL|CRITICAL)\b
        | (?:Segmentation\ fault|Aborted|Bus\ error|Killed|Floating\ point\ exception)\b
        | (?:slurmstepd|srun):\ error
    )""",
    re.VERBOSE,
)
_FRAME = re.compile(r'\s+File "[^"]+", line \d+')
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def highlighted(text: str, palette: Palette, number: Pattern[str] | None) -> list[HighlightedText]:
    looked_at = text[:LONGEST]
    if _FAILURE.match(looked_at) is not None:
        return [HighlightedText(0, len(text), _bold(palette.failure))]
    if _FRAME.match(looked_at) is not None:
        return [HighlightedText(0, len(text), _ink(palette.failure))]
    if number is None:
        return []
    return [HighlightedText(*match.span(1), _bold(palette.best)) for match in number.finditer(looked_at)]


@lru_cache(maxsize=8)
def number_after(name: str) -> Pattern[str]:
    """Of `val_loss`: the number in `val_loss 0.41`, `val_loss=0.41`, `"val_loss": 0.41`."""
    return re.compile(rf"(?<![\w/.-]){re.escape(name)}[\"']?\s*[:=]?\s*({_NUMBER})(?![\w.])", re.IGNORECASE)


@lru_cache(maxsize=8)
def _bold(style: Style) -> Style:
    return _ink(style) + Style(bold=True)


@lru_cache(maxsize=8)
def _ink(style: Style) -> Style:
    """Without the ground: a line keeps its own."""
    return Style(color=style.color, bold=style.bold, dim=style.dim)
