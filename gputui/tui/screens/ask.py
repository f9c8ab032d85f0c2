"""A question with a few answers, each with its key; what happens then is the asker's business."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gputui.logs.plain import plain


@dataclass(frozen=True)
class Choice:
    """`key` answers at once; the first choice is also Enter's."""

    value: str
    key: str
    label: str
    also: tuple[str, ...] = ()
    """Further keys with the same meaning."""


class Ask(ModalScreen[str | None]):
    """Answers with a choice's value, or None."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("ctrl+c", "interrupted", show=False),  # or the app's own would come first
    ]

    def __init__(
        self,
        title: str,
        body: str | Callable[[], str],
        choices: list[Choice],
        *,
        cancel: str = "go back",
        every: float | None = None,
    ) -> None:
        """`every`: the body changes with time and is asked for again so often."""
        super().__init__()
        self._title = title
        self._body = body
        self.choices = choices
        self._cancel = cancel
        self._every = every
        self._shown = Static(markup=False, classes="body")

    def compose(self) -> ComposeResult:
        options = [Option(Text(f" {choice.key:>3}  {choice.label}")) for choice in self.choices]
        options.append(Option(Text(f" esc  {self._cancel}")))
        with Vertical(classes="dialog") as frame:
            frame.border_title = Text(plain(self._title))
            frame.border_subtitle = Text("enter takes the line that is lit")
            self._shown.update(Text(self._text()))
            yield self._shown
            yield OptionList(*options, markup=False, compact=True)

    def on_mount(self) -> None:
        if self._every is not None:
            self.set_interval(self._every, self._again)

    def _text(self) -> str:
        written = self._body if isinstance(self._body, str) else self._body()
        return "\n".join(plain(line) for line in written.split("\n"))

    def _again(self) -> None:
        self._shown.update(Text(self._text()), layout=False)

    def on_key(self, event: events.Key) -> None:
        for choice in self.choices:
            if event.key in (choice.key, *choice.also) or event.character == choice.key:
                event.stop()
                self.dismiss(choice.value)
                return

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        chosen = event.option_index
        self.dismiss(self.choices[chosen].value if chosen < len(self.choices) else None)

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_interrupted(self) -> None:
        self.dismiss(next((choice.value for choice in self.choices if "ctrl+c" in choice.also), None))
