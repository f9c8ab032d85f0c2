"""The band over a pane: number, title and facts in one line on a slightly lighter ground, instead of a box around it.

Where the terminal has no such ground, the blanks between its parts become a thin rule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputui.core.views.cells import cut
from gputui.tui.looks.palette import Palette, palette_of

from .divider import Dragging

__all__ = ["Band", "BandPart", "band_line"]

BandPart = tuple[str, Style]
"""A piece of text and how it looks; where a band stands, its ground is added."""
_BLANKS = re.compile(r" {3,}")
APART = "  "


class Band(Widget):
    """Shows what it is told; whoever owns the pane says whether it has the focus."""

    DEFAULT_CSS = "Band { height: 1; width: 100%; }"

    class BandClicked(Message):
        """`part`: which one of the left parts was under the mouse, if any."""

        def __init__(self, band: Band, part: int | None) -> None:
            super().__init__()
            self.band = band
            self.part = part

    def __init__(self, number: int | str, title: str, *, pulls: bool = False, id: str | None = None) -> None:
        """`pulls`: dragging it up or down moves the border between two panes."""
        super().__init__(id=id)
        self.number = number
        self.title = title
        self._pulls, self._held = pulls, False
        self.focused_pane = False
        self._parts: tuple[list[BandPart], list[BandPart]] = ([], [])
        self.places: list[tuple[int, int]] = []
        """First cell and cell after the last of each part on the left, as painted."""

    def show(self, left: Sequence[BandPart], right: Sequence[BandPart] = (), *, title: str | None = None) -> None:
        """What follows the title, and what ends the line; repainted when it is other than before."""
        parts = (list(left), list(right))
        if parts != self._parts or (title is not None and title != self.title):
            self._parts, self.title = parts, title if title is not None else self.title
            self.refresh()

    def head(self, number: int | str, title: str) -> None:
        """Another number and title than it began with."""
        if (number, title) != (self.number, self.title):
            self.number, self.title = number, title
            self.refresh()

    def focus_on(self, focused: bool) -> None:
        if focused != self.focused_pane:
            self.focused_pane = focused
            self.refresh()

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self.app.theme)
        left, right = self._parts
        head = band_head(self.number, self.title, palette, focused=self.focused_pane)
        self.places = _places(sum(cell_len(text) for text, _ in head), left)
        return band_line([*head, *left], right, self.size.width, palette)

    def on_click(self, event: events.Click) -> None:
        under = (number for number, (start, end) in enumerate(self.places) if start <= event.x < end)
        self.post_message(self.BandClicked(self, next(under, None)))

    def on_mouse_down(self) -> None:
        if self._pulls:
            self._held = True
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held and event.y:
            self.post_message(Dragging(rows=event.y))

    def on_mouse_up(self) -> None:
        if self._held:
            self._held = False
            self.release_mouse()


def band_head(number: int | str, title: str, palette: Palette, *, focused: bool) -> list[BandPart]:
    """`1 GPUs`, with the number in the focus colour and the title underlined where the keys go."""
    if focused:
        number_style, name = palette.focus + Style(bold=True), palette.text + Style(bold=True, underline=True)
    else:
        number_style, name = palette.past, palette.text
    blank = palette.text
    return [(" ", blank), (str(number), number_style), (" ", blank), (title, name)]


def band_line(
    left: Sequence[BandPart], right: Sequence[BandPart], width: int, palette: Palette, ground: Style | None = None
) -> Strip:
    """A whole band; what does not fit is cut from the left part. `ground`: another one than a band's."""
    room = width - sum(cell_len(text) for text, _ in right) - bool(right)
    if right and sum(cell_len(text) for text, _ in left) > room:
        left = [*_shortened(left, room - len(APART)), (APART, palette.text)]
    segments = _fitted(left, max(0, room), palette.text)
    segments += [Segment(text, style) for text, style in right]
    if right:
        segments.append(Segment(" ", palette.text))
    ground = palette.band if ground is None else ground
    if palette.rules:
        segments = _ruled(segments, palette.line)
    laid = [Segment(text, (style or palette.text) + ground) for text, style, _ in segments]
    return Strip(laid).simplify().adjust_cell_length(width, palette.text + ground)


def _shortened(parts: Sequence[BandPart], room: int) -> list[BandPart]:
    """With a sign that there is more, so that no word runs into what ends the line."""
    shortened_parts = []
    for text, style in parts:
        short = cut(text, max(0, room))
        room -= cell_len(short)
        shortened_parts.append((short, style))
        if short != text:
            break
    return shortened_parts


def _fitted(parts: Sequence[BandPart], room: int, blank: Style) -> list[Segment]:
    fitted = []
    for text, style in parts:
        cells = min(cell_len(text), room)
        if cells:
            fitted.append(Segment(set_cell_size(text, cells), style))
        room -= cells
    if room:
        fitted.append(Segment(" " * room, blank))
    return fitted


def _ruled(segments: list[Segment], line: Style) -> list[Segment]:
    """Three blanks and more become a rule with a blank at either end."""
    ruled: list[Segment] = []
    text = "".join(segment.text for segment in segments)
    rules = [(match.start() + 1, match.end() - (match.end() < len(text))) for match in _BLANKS.finditer(text)]
    place = 0
    for segment in segments:
        end = place + len(segment.text)
        cursor = place
        for start, stop in rules:
            first, last = max(start, place), min(stop, end)
            if first < last:
                ruled.append(Segment(text[cursor:first], segment.style))
                ruled.append(Segment("─" * (last - first), line))
                cursor = last
        ruled.append(Segment(text[cursor:end], segment.style))
        place = end
    return [segment for segment in ruled if segment.text]


def _places(start: int, parts: Sequence[BandPart]) -> list[tuple[int, int]]:
    places = []
    for text, _ in parts:
        places.append((start, start + cell_len(text)))
        start += cell_len(text)
    return places
