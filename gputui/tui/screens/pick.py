"""A list of things of which some are picked; the likely ones are picked already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import SelectionList, Static
from textual.widgets.selection_list import Selection

from gputui.logs.plain import plain


@dataclass(frozen=True)
class Item:
    value: str
    label: str
    picked: bool = False


class Pick(ModalScreen[list[str] | None]):
    """Answers with the values that were picked, or None."""

    AUTO_FOCUS = "SelectionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("enter", "take", show=False, priority=True),
        Binding("a,*", "all", show=False),
    ]

    def __init__(self, title: str, body: str, items: Sequence[Item], *, go: str) -> None:
        """`go`: what Enter does with the picked, in words."""
        super().__init__()
        self._title = title
        self._body = body
        self._items = items
        self._go = go
        selections = [Selection(Text(plain(item.label)), item.value, item.picked) for item in items]
        self._list = SelectionList[str](*selections, compact=True)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as frame:
            frame.border_title = Text(plain(self._title))
            yield Static(Text("\n".join(map(plain, self._body.split("\n")))), markup=False, classes="body")
            yield self._list
            yield Static(Text(f"space picks · a all · enter {self._go} · esc back"), classes="hint")

    def action_take(self) -> None:
        self.dismiss(list(self._list.selected))

    def action_all(self) -> None:
        listed = self._list
        if len(listed.selected) == len(self._items):
            listed.deselect_all()
        else:
            listed.select_all()

    def action_cancel(self) -> None:
        self.dismiss(None)
