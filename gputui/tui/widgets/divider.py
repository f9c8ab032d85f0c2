"""The line between two panes that stand side by side; dragging it gives one of them more room."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputui.tui.looks.palette import palette_of

__all__ = ["Divider", "Dragging"]


class Dragging(Message):
    """The border between queue and log is pulled: by so many columns to the right, or rows down."""

    def __init__(self, *, columns: int = 0, rows: int = 0) -> None:
        super().__init__()
        self.columns = columns
        self.rows = rows


class Divider(Widget):
    DEFAULT_CSS = "Divider { width: 1; height: 100%; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._held = False

    def render_line(self, y: int) -> Strip:
        return Strip([Segment("│", palette_of(self.app.theme).line)])

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._held = True
        self.capture_mouse()
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held and event.x:
            self.post_message(Dragging(columns=event.x))

    def on_mouse_up(self) -> None:
        self._held = False
        self.release_mouse()
