"""A text to read, longer than the screen perhaps: details of a job, and the help."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from gputui.logs.plain import plain

from .paged import Paged


class Reading(Paged[str | None]):
    """Any of `keys` ends it with that key as the answer; `texts` are shown in turn with `v`."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "close", show=False),
        Binding("v", "turn", show=False),
    ]

    def __init__(self, title: str, texts: list[Callable[[], Text]], hint: str, *, wide: bool = False) -> None:
        super().__init__()
        self._title = title
        self._texts = texts
        self._hint = hint
        self._shown = 0
        self._wide = wide
        self.page = VerticalScroll(can_focus=True)
        self._text = Static(texts[0](), markup=False, id="text")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog reading -wide" if self._wide else "dialog reading") as frame:
            frame.border_title = Text(plain(self._title))
            with self.page:
                yield self._text
            yield Static(Text(f"{self._hint} · esc goes back"), markup=False, classes="hint")

    def action_close(self) -> None:
        self.dismiss(None)

    def action_turn(self) -> None:
        self._shown = (self._shown + 1) % len(self._texts)
        self._text.update(self._texts[self._shown]())
