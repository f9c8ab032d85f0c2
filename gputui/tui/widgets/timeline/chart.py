"""The widget of a timeline: lines that were made elsewhere, repainted where they changed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputui.tui.looks.palette import palette_of

from .strokes import MarkedLine, strokes_of


class TimelineChart(Widget, can_focus=True):
    DEFAULT_CSS = "TimelineChart { height: 1fr; width: 100%; }"

    class ChartClicked(Message):
        def __init__(self, x: int, y: int) -> None:
            super().__init__()
            self.x, self.y = x, y

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[MarkedLine] = ()

    def show(self, lines: Sequence[MarkedLine]) -> None:
        before, self._lines = self._lines, lines
        if len(before) != len(lines):
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, lines, strict=True)):
            if old != new:
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        styles = strokes_of(self.app.theme)
        line = self._lines[y] if y < len(self._lines) else ()
        strip = Strip([Segment(mark.text, styles[mark.stroke]) for mark in line])
        return strip.extend_cell_length(self.size.width, palette_of(self.app.theme).text).crop(0, self.size.width)

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.ChartClicked(event.x, event.y))
