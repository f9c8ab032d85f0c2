"""A sweep from the screen: the pattern, a line for each parameter, and what would be added, while one types."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from gputui.core.views.amounts import counted
from gputui.core.views.parameters import given
from gputui.logs.plain import plain
from gputui.sources.pattern import with_field
from gputui.sources.ranges import values_of
from gputui.sources.source import BadInput
from gputui.sources.sweep import Sampling, Sweep, range_values
from gputui.sources.values import BadValue

SHOWN = 6
VALUES_HINT = "lr 0.1 0.01\nbs 32 64\nseed 0..4        one parameter per line"
RANGE_SIGNS = ("log:", "lin:")
MODES = {"grid": "all combinations, in order", "shuffled": "all combinations, in random order"}


class SweepForm(ModalScreen[Sweep | None]):
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
            touched = self._texts() != self._opened_with
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
            raise BadInput(f"samples: {samples!r} is no whole number")
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
                if f"{{{name}" not in self._pattern.value:
                    self._pattern.value = with_field(self._pattern.value, name) or self._pattern.value

    def action_take(self) -> None:
        if self._sweep is not None and self._sweep.count:
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
