"""The fields of one job: to add it, to change it, or to add one like it. Says what is wrong while one types."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gputui.core.job import JobSpec
from gputui.core.views.parameters import following
from gputui.logs.plain import plain
from gputui.tui.model.job_fields import FIELDS, BadField, spec_of, texts_of


class CommandInput(Input):
    """Goes through earlier commands with the arrow keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "earlier(1)", show=False),
        Binding("down", "earlier(-1)", show=False),
    ]

    def __init__(self, value: str, history: list[str], placeholder: str) -> None:
        super().__init__(value, placeholder, compact=True, id="field-command", select_on_focus=False)
        self._history = [value, *history]
        self._at = 0

    def action_earlier(self, by: int) -> None:
        if self._at == 0:
            self._history[0] = self.value
        self._at = max(0, min(self._at + by, len(self._history) - 1))
        self.value = self._history[self._at]
        self.cursor_position = len(self.value)


def _inputs(texts: dict[str, str], history: list[str]) -> dict[str, Input]:
    inputs: dict[str, Input] = {"command": CommandInput(texts["command"], history, FIELDS[0].hint)}
    for field in FIELDS[1:]:
        written, name = texts[field.name], f"field-{field.name}"
        inputs[field.name] = Input(written, field.hint, compact=True, id=name, select_on_focus=False)
    return inputs


class JobForm(ModalScreen[JobSpec | None]):
    AUTO_FOCUS = "#field-command"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(
        self, title: str, before: JobSpec, history: list[str], *, go: str, priority: int | None = None
    ) -> None:
        """`go`: what Enter does, in words."""
        super().__init__()
        self._title = title
        self._before = before
        self._go = go
        self._inputs = _inputs(texts_of(before, priority), history)
        self._named = self._inputs["name"].value
        """The name as nobody has typed it."""
        self._opened_with = self._texts()
        self._complaint = Static("", markup=False, classes="complaint")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog form") as frame:
            frame.border_title = Text(plain(self._title))
            for field in FIELDS:
                with Horizontal(classes="field"):
                    yield Static(Text(field.label), markup=False, classes="label")
                    yield self._inputs[field.name]
            yield self._complaint
            yield Static(Text(f"enter {self._go} · tab next field · esc goes back"), markup=False, classes="hint")

    def _texts(self) -> dict[str, str]:
        return {name: field.value for name, field in self._inputs.items()}

    def _spec(self) -> JobSpec | None:
        """None, and a complaint, while a field is wrong."""
        try:
            spec = spec_of(self._texts(), self._before)
        except BadField as bad:
            label = next(field.label for field in FIELDS if field.name == bad.field)
            self._complain(f"{label}: {bad}")
            return None
        self._complain("")
        return spec

    def _complain(self, sentence: str) -> None:
        self._complaint.update(Text(plain(sentence)), layout=False)

    @on(Input.Changed)
    def _check(self) -> None:
        """What nobody has touched yet is not complained of."""
        if self._texts() == self._opened_with:
            self._complain("")
        else:
            self._spec()

    @on(Input.Changed, "#field-command")
    def _rename(self) -> None:
        """A name that tells parameters goes when the command no longer has them, and comes back with them."""
        name = self._inputs["name"]
        if name.value == self._named:
            changed = replace(self._before, command=self._inputs["command"].value.strip())
            name.value = self._named = following(changed, self._before).name or ""

    @on(Input.Submitted)
    def _take(self) -> None:
        spec = self._spec()
        if spec is not None:
            self.dismiss(spec)

    def action_cancel(self) -> None:
        self.dismiss(None)
