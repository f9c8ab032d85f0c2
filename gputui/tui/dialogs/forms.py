"""Forms to add, edit or copy a job, to add a sweep, and to replace text in the commands of failed jobs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import replace
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from gputui.core.amounts import counted
from gputui.core.job import DEFAULT_PRIORITY, CrashKind, Job, JobId, JobSpec
from gputui.core.parameters import find_values, with_updated_params
from gputui.core.regex import lazy_regex
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
        Binding("ctrl+t,f3", "insert_fields", show=False, priority=True),
    ]

    def __init__(self, pattern: str = "", values: str = "") -> None:
        super().__init__("Add a sweep")
        self._pattern = text_input(pattern, "python train.py --lr {lr} --bs {bs}", "pattern")
        self._parameters = TextArea(
            values, id="parameters", compact=True, soft_wrap=False, tab_behavior="focus", placeholder=VALUES_HINT
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
    """The error raised if the text of a field is invalid. The message begins with the label of the field."""


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
        label = next(each.label for each in FIELDS if each.name == name)
        raise BadField(f"{label}: {error}") from None


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
            self.show_error(str(error))
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


# Replacing text in the commands of failed jobs


_BATCH = lazy_regex(r"batch|(?:^|[._-])m?bsz?$", re.IGNORECASE)
MAX_CHECKED = 40
"""Maximum number of commands checked with `bash -n`. The commands are similar, so checking a few is enough."""


class BadReplacement(ValueError):
    """The error raised if the replacement is invalid."""


class Replacement(NamedTuple):
    changed: dict[JobId, JobSpec]
    unchanged: int
    """Number of jobs whose commands do not contain the text to replace."""


def likely_changed(names: Sequence[str], kind: CrashKind | None) -> list[str]:
    """Sort parameters by how likely the user is to change them. The batch size is first if a GPU ran out of memory."""
    out_of_memory = kind is CrashKind.OOM_GPU
    return sorted(names, key=lambda name: not (out_of_memory and _BATCH.search(name)))


def initial_text(jobs: Sequence[Job], names: Sequence[str]) -> str:
    """Return the first parameter that all commands contain, as written in the first command, or an empty text."""
    for name in names:
        for match in find_values(jobs[0].spec.command, name):
            if all(match[0] in job.spec.command for job in jobs):
                return match[0]
    return ""


def replace_in(jobs: Sequence[Job], sought: str, instead: str) -> Replacement:
    """Replace a text in the commands of the jobs. Raise BadReplacement if the replacement is invalid."""
    if not sought:
        raise BadReplacement("enter the part of the commands to replace")
    if "\0" in instead:
        raise BadReplacement("commands cannot contain NUL; remove it")
    matching = [job for job in jobs if sought in job.spec.command]
    if not matching:
        nowhere = "the command does not contain" if len(jobs) == 1 else f"none of the {len(jobs):,} commands contains"
        raise BadReplacement(f"{nowhere} {sought!r}")
    if sought == instead:
        raise BadReplacement("no change yet: enter a replacement")
    changed = {job.id: replace(job.spec, command=job.spec.command.replace(sought, instead)) for job in matching}
    for job in matching:
        spec = changed[job.id]
        if not spec.command.strip():
            raise BadReplacement(f"the command of #{job.id} would be empty")
        if not spec.task and _has_open_quote(spec.command) and not _has_open_quote(job.spec.command):
            raise BadReplacement(f"unclosed quote in #{job.id}: replace both quotes or none")
    return Replacement(changed, len(jobs) - len(matching))


def _has_open_quote(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def check_syntax(jobs: Sequence[Job], replacement: Replacement) -> None:
    """Raise BadReplacement if a new command has a syntax error that the old command did not have."""
    changed = [
        job for job in jobs
        if job.id in replacement.changed and not job.spec.task and job.spec.shell in ("", "bash", "sh")
    ]  # fmt: skip
    for job in changed[:MAX_CHECKED]:
        error = _syntax_error(replacement.changed[job.id].command, job.spec.shell)
        if error and not _syntax_error(job.spec.command, job.spec.shell):
            raise BadReplacement(f"#{job.id} would be invalid: {error}")


def _syntax_error(command: str, shell: str) -> str:
    """Return the shell's error message, or an empty text if the command is valid or the shell does not exist."""
    try:
        done = subprocess.run([shell or "bash", "-n", "-c", command], capture_output=True, timeout=5,
                              stdin=subprocess.DEVNULL, check=False)  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return lines[0].rpartition("-c: ")[2] if lines else f"exit {done.returncode}"


BEFORE = 24
"""Number of characters shown before the changed text."""


class ReplaceForm(Form[dict[JobId, JobSpec] | None]):
    """A form with a live preview. The result is the changed jobs with their new commands, or None."""

    AUTO_FOCUS = "#instead"

    def __init__(self, jobs: Sequence[Job], names: Sequence[str], manner: Callable[[list[Job]], str]) -> None:
        """Create a form. The text to replace is initially the first of `names` that all commands contain. `manner`
        describes how the jobs are rerun.
        """
        super().__init__("Edit and rerun")
        self._manner = manner
        self._jobs = jobs
        likely = initial_text(jobs, names)
        self._sought = text_input(likely, "part of the commands", "sought")
        self._instead = text_input(likely, "replacement", "instead")

    def body(self) -> ComposeResult:
        yield field("replace", self._sought)
        yield field("by", self._instead)
        yield from (self._error, self._preview, self._hint)

    def on_mount(self) -> None:
        if not self._sought.value:
            self._sought.focus()
        self._check()

    @on(Input.Changed)
    def _check(self) -> None:
        try:
            replacement = replace_in(self._jobs, self._sought.value, self._instead.value)
        except BadReplacement as error:
            self._show(None, str(error))
        else:
            self._show(replacement, "")

    def _show(self, replacement: Replacement | None, error: str) -> None:
        self.show_error(error)
        self._preview.update(self._text(replacement), layout=False)
        changing = [job for job in self._jobs if replacement is not None and job.id in replacement.changed]
        self.show_hint(f"Enter: rerun {len(changing):,}{self._manner(changing)}" if changing else "Enter: rerun")

    def _text(self, replacement: Replacement | None) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        if replacement is None:
            for job in self._jobs[:SHOWN]:
                text.append(f"#{job.id} ", "bold").append(f"{plain(job.spec.command)}\n")
            return text
        changing = [job for job in self._jobs if job.id in replacement.changed]
        left_out = f"; {replacement.unchanged:,} do not contain it (unchanged)" if replacement.unchanged else ""
        text.append(f"{len(changing):,} of {len(self._jobs):,} change{left_out}\n")
        for job in changing[:SHOWN]:
            self._line(text, job)
        if len(changing) > SHOWN:
            text.append(f"… and {len(changing) - SHOWN:,} more")
        return text

    def _line(self, text: Text, job: Job) -> None:
        """Show the removed text struck through and the new text underlined, so that no colours are needed."""
        command, sought = job.spec.command, self._sought.value
        first = command.index(sought)
        before = command[max(0, first - BEFORE) : first]
        text.append(f"#{job.id} ", "bold").append(("…" if first > BEFORE else "") + plain(before))
        text.append(plain(sought), "strike dim").append(plain(self._instead.value), "bold underline")
        text.append(plain(command[first + len(sought) :]) + "\n")

    @on(Input.Submitted)
    def _submit(self) -> None:
        try:
            replacement = replace_in(self._jobs, self._sought.value, self._instead.value)
            check_syntax(self._jobs, replacement)
        except BadReplacement as error:
            self._show(None, str(error))
        else:
            self.dismiss(replacement.changed)
