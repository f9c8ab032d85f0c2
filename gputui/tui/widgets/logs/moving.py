"""The keys and the wheel that move through a document. Nothing is animated: over a slow line that costs seconds."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp

from .view import SIDEWAYS, DocumentView

__all__ = ["MovableView"]

WHEEL_ROWS = 3


class MovableView(DocumentView):
    """Arrows, pages, home and end come with the scroll view; these are the letters for the same."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", show=False),
        Binding("j", "scroll_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
        Binding("ctrl+u", "half_page(-1)", show=False),
        Binding("ctrl+d", "half_page(1)", show=False),
    ]

    def action_scroll_up(self) -> None:
        self.move(-1)

    def action_scroll_down(self) -> None:
        self.move(1)

    def action_page_up(self) -> None:
        self.move(1 - max(2, self.size.height))

    def action_page_down(self) -> None:
        self.move(max(2, self.size.height) - 1)

    def action_half_page(self, direction: int) -> None:
        self.move(direction * max(1, self.size.height // 2))

    def action_scroll_left(self) -> None:
        self.move_sideways(-SIDEWAYS)

    def action_scroll_right(self) -> None:
        self.move_sideways(SIDEWAYS)

    def action_page_left(self) -> None:
        self.move_sideways(-self.width)

    def action_page_right(self) -> None:
        self.move_sideways(self.width)

    def action_scroll_home(self) -> None:
        self.move_home()

    def action_scroll_end(self) -> None:
        self.follow(True)

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -1)

    def _on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1)

    def _wheel(self, event: events.MouseScrollUp | events.MouseScrollDown, direction: int) -> None:
        event.prevent_default().stop()
        if event.shift or event.ctrl:
            self.move_sideways(direction * SIDEWAYS)
        else:
            self.move(direction * WHEEL_ROWS)

    def _on_scroll_to(self, message: ScrollTo) -> None:
        message.prevent_default().stop()
        if message.y is not None:
            self.scroll_y = message.y

    def _on_scroll_up(self, event: ScrollUp) -> None:
        event.prevent_default().stop()
        self.action_page_up()

    def _on_scroll_down(self, event: ScrollDown) -> None:
        event.prevent_default().stop()
        self.action_page_down()
