"""A list of things of which some are picked; the likely ones are picked already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import OptionList, SelectionList, Static
from textual.widgets.selection_list import Selection

from gputui.logs.plain import plain


@dataclass(frozen=True)
class Item:
    value: str
    label: str
    picked: bool = False


class Boxes(SelectionList[str]):
    """`[x]` or `[ ]` before each: told by a letter, for a colour alone tells nothing on some screens."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "first", show=False),
        Binding("G", "last", show=False),
    ]

    def render_line(self, y: int) -> Strip:
        line = OptionList.render_line(self, y)
        index = self.scroll_offset.y + y  # each has one line: what is too long is cut
        if index >= self.option_count:
            return line
        picked = self.get_option_at_index(index).value in self.selected
        style = next(iter(line)).style
        return Strip([Segment("[x] " if picked else "[ ] ", style), *line])


class Pick(ModalScreen[list[str] | None]):
    """Answers with the values that were picked, or None."""

    AUTO_FOCUS = "SelectionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("enter", "take", show=False, priority=True),
        Binding("a,*", "all", show=False),
    ]

    def __init__(
        self, title: str, body: str, items: Sequence[Item], *, go: str, twice: tuple[str, str] | None = None
    ) -> None:
        """`go`: what Enter does with the picked, in words; `twice`: the key that does it otherwise, and how."""
        super().__init__()
        self._title = title
        self._body = body
        self._items = items
        self._go = go
        self.twice = False
        """It was answered by that other key."""
        self._twice = twice
        selections = [Selection(Text(plain(item.label)), item.value, item.picked) for item in items]
        self._list = Boxes(*selections, compact=True)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as frame:
            frame.border_title = Text(plain(self._title))
            yield Static(Text("\n".join(map(plain, self._body.split("\n")))), markup=False, classes="body")
            yield self._list
            other = f" · {self._twice[0]} {self._twice[1]}" if self._twice is not None else ""
            yield Static(Text(f"space picks · a all · enter {self._go}{other} · esc back"), classes="hint")

    def on_key(self, event: Key) -> None:
        if self._twice is not None and event.character == self._twice[0]:
            event.stop()
            self.twice = True
            self.action_take()

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
