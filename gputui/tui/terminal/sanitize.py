"""The last line of defence: whatever a widget draws, nothing that a terminal would obey leaves the app.

The gate for outside text is `gputui.logs.plain.plain`; this filter is for the day somebody forgets it.
"""

from __future__ import annotations

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from gputui.logs.plain import FORBIDDEN

__all__ = ["Sanitize"]

# A column must stay a column: what has a width is replaced, what has none is dropped.
_CODES = [*FORBIDDEN, *range(0xD800, 0xE000)]
_TABLE = {code: "\ufffd" * get_character_cell_size(chr(code)) or None for code in _CODES}


class Sanitize(LineFilter):
    """No control character, no lone surrogate, no change of writing direction, no link."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(map(_is_harmless, segments)):
            return segments
        return [_harmless(segment) for segment in segments]


def _is_harmless(segment: Segment) -> bool:
    return segment.text.isprintable() and (segment.style is None or segment.style.link is None)


def _harmless(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link is not None:
        style = style.update_link(None)
    return Segment(segment.text.translate(_TABLE), style)
