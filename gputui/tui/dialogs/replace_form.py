"""A form to search and replace text in the commands of failed jobs."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.widgets import Input

from gputui.core.job import CrashKind, Job, JobId, JobSpec
from gputui.core.parameters import find_values
from gputui.core.regex import lazy_regex
from gputui.logs.plain import plain

from .forms import Form, field, text_input

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


SHOWN = 6
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
