"""A dialog with a text that may be longer than its room: the keys that move in a pane move in it too."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

Answer = TypeVar("Answer")


class Paged(ModalScreen[Answer]):
    """`page` is what moves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
        Binding("g", "edge(False)", show=False),
        Binding("G", "edge(True)", show=False),
        Binding("ctrl+d,pagedown", "half(1)", show=False),
        Binding("ctrl+u,pageup", "half(-1)", show=False),
    ]
    page: VerticalScroll

    def action_scroll(self, by: int) -> None:
        self.page.scroll_relative(y=by, animate=False)

    def action_half(self, direction: int) -> None:
        self.action_scroll(direction * max(1, self.page.size.height // 2))

    def action_edge(self, end: bool) -> None:
        if end:
            self.page.scroll_end(animate=False)
        else:
            self.page.scroll_home(animate=False)
