"""Forms: one job (to add, change or copy it), and a sweep."""

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
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static, TextArea

from gputui.core.amounts import counted
from gputui.core.job import DEFAULT_PRIORITY, JobSpec
from gputui.core.parameters import following, given
from gputui.logs.plain import plain
from gputui.sources.settings import SETTINGS, Setting
from gputui.sources.source import BadInput, changed_spec, settings_of
from gputui.sources.sweep import Sampling, Sweep, fields_of, range_values, values_of, with_field
from gputui.sources.values import BadValue

from .ask import Dialog

# ---- A sweep from the screen ----


SHOWN = 6
VALUES_HINT = "lr 0.1 0.01\nbs 32 64\nseed 0..4        one parameter per line"
RANGE_SIGNS = ("log:", "lin:")
MODES = {"grid": "all combinations, in order", "shuffled": "all combinations, in random order"}


class SweepForm(Dialog[Sweep | None]):
    AUTO_FOCUS = "#pattern"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("ctrl+s,f2", "take", show=False, priority=True),
        Binding("ctrl+g", "turn", show=False, priority=True),
        Binding("ctrl+t", "put_in", show=False, priority=True),
    ]

    def __init__(self, pattern: str = "") -> None:
        super().__init__()
        hint = "python train.py --lr {lr} --bs {bs}"
        self._pattern = Input(pattern, hint, compact=True, id="pattern", select_on_focus=False)
        self._parameters = TextArea(
            "", id="parameters", compact=True, soft_wrap=False, tab_behavior="focus", placeholder=VALUES_HINT
        )
        self._samples = Input("", "all · a number draws so many at random", compact=True, id="samples")
        self._complaint = Static("", markup=False, classes="complaint")
        self._preview = Static("", markup=False, id="preview")
        self._hint = Static("", markup=False, classes="hint")
        self._shuffled = False
        self._asked_to_add = False
        self._opened_with = self._texts()
        self._sweep: Sweep | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog form") as frame:
            frame.border_title = Text("Add a sweep")
            with Horizontal(classes="field"):
                yield Static(Text("command"), markup=False, classes="label")
                yield self._pattern
            with Horizontal(classes="field parameters"):
                yield Static(Text("values"), markup=False, classes="label")
                yield self._parameters
            with Horizontal(classes="field"):
                yield Static(Text("samples"), markup=False, classes="label")
                yield self._samples
            yield self._complaint
            yield self._preview
            yield self._hint

    def on_mount(self) -> None:
        self._check()

    def _texts(self) -> tuple[str, ...]:
        return self._pattern.value, self._parameters.text, self._samples.value

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _check(self) -> None:
        try:
            sweep = self._written()
        except BadInput as bad:
            touched = self._asked_to_add or self._texts() != self._opened_with
            self._show(None, str(bad) if touched else "")
            return
        if sweep.unused:  # its jobs would be called by values that none of them gets
            self._show(None, way_in(self._pattern.value, sweep.unused[0]))
        else:
            self._show(sweep, "", "\n".join(map(plain, self._lines(sweep))))

    def _lines(self, sweep: Sweep) -> list[str]:
        lines = [f"{counted(sweep.count, 'command', 'commands')}, {MODES['shuffled' if self._random() else 'grid']}:"]
        lines += [f"  {draft.command}" for draft in sweep.first(SHOWN)]
        return lines + (["  …"] if sweep.count > SHOWN else [])

    def _random(self) -> bool:
        return self._shuffled or bool(self._samples.value.strip())

    def _written(self) -> Sweep:
        samples = self._samples.value.strip()
        if samples and not samples.isdecimal():
            raise BadInput(f"samples: {samples!r} is not a whole number")
        if samples and not int(samples):
            raise BadInput("samples: 0 would add no jobs; leave it empty for all")
        parameters = parameters_in(self._parameters.text)
        if not parameters:
            raise BadInput("values: one parameter per line, its name first, such as lr 0.1 0.01")
        empty = next((name for name, values in parameters.items() if not values), None)
        if empty is not None:
            raise BadInput(f"values: {empty} has none yet")
        sampling = Sampling.SHUFFLED if self._random() else Sampling.GRID
        seed = 0 if self._random() else None
        return Sweep(self._pattern.value, parameters, sampling=sampling, seed=seed,
                     n_samples=int(samples) if samples else None)  # fmt: skip

    def _show(self, sweep: Sweep | None, complaint: str, preview: str = "") -> None:
        self._sweep = sweep
        self._complaint.update(Text(plain(complaint)), layout=False)
        self._preview.update(Text(preview, no_wrap=True, overflow="ellipsis"), layout=False)
        count = f"adds {counted(self._sweep.count, 'job', 'jobs')}" if self._sweep is not None else "adds them"
        hint = f"^s {count} · tab next field · ^g order · esc goes back"
        self._hint.update(Text(hint), layout=False)

    def action_turn(self) -> None:
        self._shuffled = not self._shuffled
        self._check()

    def action_put_in(self) -> None:
        """Each parameter that is not in the command takes the place of the value it has there."""
        with suppress(BadInput):
            for name in parameters_in(self._parameters.text):
                if name not in fields_of(self._pattern.value):
                    self._pattern.value = with_field(self._pattern.value, name) or self._pattern.value

    def action_take(self) -> None:
        self._asked_to_add = True
        self._check()
        if self._sweep is not None:
            self.dismiss(self._sweep)

    def action_cancel(self) -> None:
        self.dismiss(None)


def way_in(pattern: str, name: str) -> str:
    """What to do about a parameter that is not in the command."""
    places = given(pattern, name)
    if not places:
        return f"{name} is not in the command: write {{{name}}} where its value goes"
    written = places[0][0]
    return f"{name} is not in the command: ^t makes {written} into {with_field(written, name)}"


def parameters_in(text: str) -> dict[str, list[str]]:
    """One parameter per line: its name, then values or ranges."""
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
    """A word that is no range is a value; one that was plainly meant to be a range is complained of."""
    if word.startswith(RANGE_SIGNS):
        return range_values(name, [word])
    try:
        return list(values_of(word))
    except BadValue:
        return [word]


# ---- A job as fields that a person fills in, and back ----


class BadField(ValueError):
    """What is wrong with one field, in words."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


@dataclass(frozen=True)
class Field:
    name: str
    label: str
    hint: str


COMMAND = "command"
_ASKED_FOR = {setting.field: setting for setting in SETTINGS.values() if setting.hint is not None}
FIELDS = (
    Field(COMMAND, COMMAND, "python train.py --lr 0.1      ↑ ↓ earlier ones"),
    *(Field(name, setting.label or setting.key, setting.hint or "") for name, setting in _ASKED_FOR.items()),
)


def texts_of(spec: JobSpec, priority_now: int | None = None) -> dict[str, str]:
    """What the fields say for a job that is there."""
    priority = spec.priority if priority_now is None else priority_now
    said = replace(settings_of(spec), priority=None if priority == DEFAULT_PRIORITY else priority)
    return {COMMAND: spec.command} | {
        name: "" if (value := getattr(said, name)) is None else setting.write(value)
        for name, setting in _ASKED_FOR.items()
    }


def spec_of(texts: dict[str, str], before: JobSpec) -> JobSpec:
    """The job that the fields describe; the first that is wrong raises BadField."""
    said = {name: _read(name, texts[name].strip(), _reader(setting)) for name, setting in _ASKED_FOR.items()}
    settings = replace(settings_of(before), **said)
    return changed_spec(before, _read(COMMAND, texts[COMMAND].strip(), _command, needed=True), settings)


def _reader(setting: Setting) -> Callable[[str], Any]:
    return _folder if setting.field == "cwd" else setting.read


def _read(name: str, written: str, reader: Callable[[str], Any], *, needed: bool = False) -> Any:
    if not written and not needed:
        return None
    try:
        return reader(written)
    except ValueError as error:
        raise BadField(name, str(error)) from None


def _command(written: str) -> str:
    if not written:
        raise ValueError("what is to run?")
    if "\0" in written:
        raise ValueError("a NUL byte can be in no command")
    return written


def _folder(written: str) -> str:
    path = os.path.abspath(os.path.expanduser(written))
    if not os.path.isdir(path):
        raise ValueError(f"there is no folder {path}")
    return path


# ---- The fields of one job ----


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


class JobForm(Dialog[JobSpec | None]):
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
