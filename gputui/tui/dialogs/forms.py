"""Forms to add, edit or copy a job, and to add a sweep."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec.structs import replace
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from gputui.core.amounts import counted
from gputui.core.job import DEFAULT_PRIORITY, JobSpec
from gputui.core.parameters import find_values, with_updated_params
from gputui.logs.plain import plain
from gputui.sources.settings import SETTINGS
from gputui.sources.source import BadInput, changed_spec, settings_of
from gputui.sources.sweep import Sampling, Sweep, fields_of, range_values, values_of, with_field
from gputui.sources.values import BadValue

from .ask import Answer, Dialog

SHOWN = 6
VALUES_HINT = "lr 0.1 0.01\nbs 32 64\nseed 0..4        one parameter per line"
RANGE_SIGNS = ("log:", "lin:")
MODES = {"grid": "all combinations, in order", "shuffled": "all combinations, in random order"}


def field(label: str, widget: Widget, classes: str = "field") -> Horizontal:
    """Return a form row with a label and a widget."""
    return Horizontal(Static(Text(label), classes="label"), widget, classes=classes)


def text_input(value: str, placeholder: str, id: str) -> Input:
    return Input(value, placeholder, compact=True, id=id, select_on_focus=False)


class Form(Dialog[Answer]):
    """A dialog with input fields, an error message, a preview and a hint."""

    SHAPE = "form"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._error = Static(classes="complaint")
        self._preview = Static(id="preview")
        self._hint = Static(classes="hint")

    def show_error(self, message: str) -> None:
        self._error.update(Text(plain(message)), layout=False)

    def show_hint(self, enter: str) -> None:
        """Show the keys of the form. `enter` describes the key that submits it."""
        self._hint.update(Text(f"{enter} · Tab: next field · Esc: cancel"), layout=False)


class SweepForm(Form[Sweep | None]):
    AUTO_FOCUS = "#pattern"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "submit", show=False, priority=True),
        Binding("ctrl+g", "toggle_shuffle", show=False, priority=True),
        Binding("ctrl+t", "insert_fields", show=False, priority=True),
    ]

    def __init__(self, pattern: str = "") -> None:
        super().__init__("Add a sweep")
        self._pattern = text_input(pattern, "python train.py --lr {lr} --bs {bs}", "pattern")
        self._parameters = TextArea(
            "", id="parameters", compact=True, soft_wrap=False, tab_behavior="focus", placeholder=VALUES_HINT
        )
        self._samples = text_input("", "all · or a number to sample at random", "samples")
        self._shuffled = False
        self._submitted = False
        self._initial_texts = self._texts()
        self._sweep: Sweep | None = None

    def body(self) -> ComposeResult:
        yield field("command", self._pattern)
        yield field("values", self._parameters, "field parameters")
        yield field("samples", self._samples)
        yield from (self._error, self._preview, self._hint)

    def on_mount(self) -> None:
        self._check()

    def _texts(self) -> tuple[str, ...]:
        return self._pattern.value, self._parameters.text, self._samples.value

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _check(self) -> None:
        try:
            sweep = self._parse()
        except BadInput as error:
            touched = self._submitted or self._texts() != self._initial_texts
            self._show(None, str(error) if touched else "")
            return
        if sweep.unused:  # the jobs would be named after values that they do not use
            self._show(None, explain_unused(self._pattern.value, sweep.unused[0]))
        else:
            order = MODES["shuffled" if self._random() else "grid"]
            lines = [f"{counted(sweep.count, 'command', 'commands')}, {order}:"]
            lines += [f"  {draft.command}" for draft in sweep.first(SHOWN)]
            lines += ["  …"] if sweep.count > SHOWN else []
            self._show(sweep, "", "\n".join(map(plain, lines)))

    def _random(self) -> bool:
        return self._shuffled or bool(self._samples.value.strip())

    def _parse(self) -> Sweep:
        samples = self._samples.value.strip()
        if samples and not samples.isdecimal():
            raise BadInput(f"samples: {samples!r} is not a whole number")
        if samples and not int(samples):
            raise BadInput("samples: 0 would add no jobs; leave it empty for all")
        parameters = parameters_in(self._parameters.text)
        if not parameters:
            raise BadInput("values: one parameter per line, name first, e.g. lr 0.1 0.01")
        empty = next((name for name, values in parameters.items() if not values), None)
        if empty is not None:
            raise BadInput(f"values: none yet for {empty}")
        sampling = Sampling.SHUFFLED if self._random() else Sampling.GRID
        seed = 0 if self._random() else None
        return Sweep(self._pattern.value, parameters, sampling=sampling, seed=seed,
                     n_samples=int(samples) if samples else None)  # fmt: skip

    def _show(self, sweep: Sweep | None, error: str, preview: str = "") -> None:
        self._sweep = sweep
        self.show_error(error)
        self._preview.update(Text(preview, no_wrap=True, overflow="ellipsis"), layout=False)
        count = f"add {counted(sweep.count, 'job', 'jobs')}" if sweep is not None else "add"
        self.show_hint(f"^s: {count} · ^g: order")

    def action_toggle_shuffle(self) -> None:
        self._shuffled = not self._shuffled
        self._check()

    def action_insert_fields(self) -> None:
        """Replace the value of each parameter in the command with `{name}`, unless that field is already there."""
        with suppress(BadInput):
            for name in parameters_in(self._parameters.text):
                if name not in fields_of(self._pattern.value):
                    self._pattern.value = with_field(self._pattern.value, name) or self._pattern.value

    def action_submit(self) -> None:
        self._submitted = True
        self._check()
        if self._sweep is not None:
            self.dismiss(self._sweep)


def explain_unused(pattern: str, name: str) -> str:
    """Return an explanation of how to use a parameter that is not in the command."""
    places = find_values(pattern, name)
    if not places:
        return f"{name} is not in the command: write {{{name}}} where its value goes"
    written = places[0][0]
    return f"{name} is not in the command: ^t turns {written} into {with_field(written, name)}"


def parameters_in(text: str) -> dict[str, list[str]]:
    """Parse lines that each contain the name of a parameter and its values or ranges."""
    parameters: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise BadInput(f"line {number} of the values: {error}; close the quote") from None
        if not words:
            continue
        name, *values = words
        if name in parameters:
            raise BadInput(f"{name} is given twice: write its values on one line")
        parameters[name] = [value for word in values for value in _values(name, word)]
    return parameters


def _values(name: str, word: str) -> list[str]:
    """Expand a range, or return any other text as a single value. Raise BadInput for an invalid range."""
    if word.startswith(RANGE_SIGNS):
        return range_values(name, [word])
    try:
        return list(values_of(word))
    except BadValue:
        return [word]


# The fields of a job


class BadField(ValueError):
    """The error raised if the text of a field is invalid."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Field:
    name: str
    label: str
    hint: str


COMMAND = "command"
_ASKED_FOR = {setting.field: setting for setting in SETTINGS.values() if setting.hint is not None}
FIELDS = (
    Field(COMMAND, COMMAND, "python train.py --lr 0.1      ↑ ↓ history"),
    *(Field(name, setting.label or setting.key, setting.hint or "") for name, setting in _ASKED_FOR.items()),
)


def texts_of(spec: JobSpec, priority_now: int | None = None) -> dict[str, str]:
    """Return the texts for the form's fields from a job's spec."""
    priority = spec.priority if priority_now is None else priority_now
    settings = replace(settings_of(spec), priority=None if priority == DEFAULT_PRIORITY else priority)
    return {COMMAND: spec.command} | {
        name: "" if (value := getattr(settings, name)) is None else setting.write(value)
        for name, setting in _ASKED_FOR.items()
    }


def spec_of(texts: dict[str, str], before: JobSpec) -> JobSpec:
    """Create a job's spec from the texts of the fields. Raise BadField for the first invalid field."""
    values = {
        name: _parse(name, text, _directory if setting.field == "cwd" else setting.read)
        for name, setting in _ASKED_FOR.items()
        if (text := texts[name].strip())
    }
    settings = replace(settings_of(before), **dict.fromkeys(_ASKED_FOR) | values)
    return changed_spec(before, _parse(COMMAND, texts[COMMAND].strip(), _command), settings)


def _parse(name: str, text: str, parser: Callable[[str], Any]) -> Any:
    try:
        return parser(text)
    except ValueError as error:
        raise BadField(name, str(error)) from None


def _command(written: str) -> str:
    if not written:
        raise ValueError("enter a command")
    if "\0" in written:
        raise ValueError("commands cannot contain NUL")
    return written


def _directory(written: str) -> str:
    path = os.path.abspath(os.path.expanduser(written))
    if not os.path.isdir(path):
        raise ValueError(f"no such directory: {path}")
    return path


class CommandInput(Input):
    """An input field in which the arrow keys recall earlier commands."""

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


class JobForm(Form[JobSpec | None]):
    AUTO_FOCUS = "#field-command"

    def __init__(
        self, title: str, before: JobSpec, history: list[str], *, go: str, priority: int | None = None
    ) -> None:
        """Create a form. `go` describes what Enter does."""
        super().__init__(title)
        self._before = before
        self._go = go
        texts = texts_of(before, priority)
        self._inputs = {each.name: text_input(texts[each.name], each.hint, f"field-{each.name}") for each in FIELDS}
        self._inputs[COMMAND] = CommandInput(texts[COMMAND], history, FIELDS[0].hint)
        self._derived_name = self._inputs["name"].value
        """The name derived from the command. It is used until the user types another name."""
        self._initial_texts = self._texts()

    def body(self) -> ComposeResult:
        for each in FIELDS:
            yield field(each.label, self._inputs[each.name])
        self.show_hint(f"Enter: {self._go}")
        yield from (self._error, self._hint)

    def _texts(self) -> dict[str, str]:
        return {name: widget.value for name, widget in self._inputs.items()}

    def _spec(self) -> JobSpec | None:
        """Return the job's spec. If a field is invalid, show an error and return None."""
        try:
            spec = spec_of(self._texts(), self._before)
        except BadField as error:
            label = next(form_field.label for form_field in FIELDS if form_field.name == error.field)
            self.show_error(f"{label}: {error}")
            return None
        self.show_error("")
        return spec

    @on(Input.Changed)
    def _check(self) -> None:
        if self._texts() == self._initial_texts:
            self.show_error("")
        else:
            self._spec()

    @on(Input.Changed, "#field-command")
    def _rename(self) -> None:
        """Update the derived name when the command changes, unless the user has typed another name."""
        name = self._inputs["name"]
        if name.value == self._derived_name:
            changed = replace(self._before, command=self._inputs[COMMAND].value.strip())
            name.value = self._derived_name = with_updated_params(changed, self._before).name or ""

    @on(Input.Submitted)
    def _submit(self) -> None:
        spec = self._spec()
        if spec is not None:
            self.dismiss(spec)
