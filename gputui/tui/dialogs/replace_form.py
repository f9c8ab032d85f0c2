"""Search and replace over the commands of failed jobs."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from msgspec.structs import replace
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from gputui.core.job import CrashKind, Job, JobId, JobSpec
from gputui.core.parameters import given
from gputui.logs.plain import plain

from .ask import Dialog

# ---- Search and replace over the commands of several jobs ----


_BATCH = re.compile(r"batch|(?:^|[._-])m?bsz?$", re.IGNORECASE)
MOST_CHECKED = 40
"""Commands that bash is asked about; they are alike."""


class BadReplacement(ValueError):
    """Why nothing is run, in one sentence."""


class Replacement(NamedTuple):
    changed: dict[JobId, JobSpec]
    unchanged: int
    """Jobs whose commands do not hold what was sought."""


def likely_changed(names: Sequence[str], kind: CrashKind | None) -> list[str]:
    """The likeliest first: after a full card it is the size of a batch."""
    full = kind is CrashKind.OOM_GPU
    return sorted(names, key=lambda name: not (full and _BATCH.search(name)))


def begin_with(jobs: Sequence[Job], names: Sequence[str]) -> str:
    """What is likely to be changed: the first parameter that all share, as the first command writes it."""
    for name in names:
        for match in given(jobs[0].spec.command, name):
            if all(match[0] in job.spec.command for job in jobs):
                return match[0]
    return ""


def replaced(jobs: Sequence[Job], sought: str, instead: str) -> Replacement:
    """Raises BadReplacement."""
    if not sought:
        raise BadReplacement("what is to be replaced? A part of the commands, as they are written")
    if "\0" in instead:
        raise BadReplacement("a NUL byte can be in no command; remove it")
    holding = [job for job in jobs if sought in job.spec.command]
    if not holding:
        nowhere = "the command does not hold" if len(jobs) == 1 else f"none of the {len(jobs):,} commands holds"
        raise BadReplacement(f"{nowhere} {sought!r}")
    if sought == instead:
        raise BadReplacement("nothing changes yet: write what stands there instead")
    changed = {job.id: replace(job.spec, command=job.spec.command.replace(sought, instead)) for job in holding}
    for job in holding:
        _check(job, changed[job.id])
    return Replacement(changed, len(jobs) - len(holding))


def _check(job: Job, spec: JobSpec) -> None:
    if not spec.command.strip():
        raise BadReplacement(f"nothing would be left of the command of #{job.id}: leave a part of it")
    if not spec.task and _unclosed(spec.command) and not _unclosed(job.spec.command):
        raise BadReplacement(f"a quotation mark would be left open in #{job.id}: replace both, or none")


def _unclosed(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def would_run(jobs: Sequence[Job], replacement: Replacement) -> None:
    """Raises BadReplacement where a shell would refuse a command that it did not refuse before."""
    for job in [job for job in jobs if job.id in replacement.changed and _is_for_shell(job.spec)][:MOST_CHECKED]:
        trouble = _refused(replacement.changed[job.id].command, job.spec.shell)
        if trouble and not _refused(job.spec.command, job.spec.shell):
            raise BadReplacement(f"#{job.id} would be broken: {trouble}")


def _is_for_shell(spec: JobSpec) -> bool:
    return not spec.task and spec.shell in ("", "bash", "sh")


def _refused(command: str, shell: str) -> str:
    """What the shell has against it; empty: nothing, or there is no such shell to ask."""
    try:
        done = subprocess.run([shell or "bash", "-n", "-c", command], capture_output=True, timeout=5,
                              stdin=subprocess.DEVNULL, check=False)  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return lines[0].rpartition("-c: ")[2] if lines else f"exit {done.returncode}"


# ---- Search and replace over the commands of failed jobs, with a live preview of what would run ----


SHOWN = 6
BEFORE = 24
"""Characters shown before what changes."""


class ReplaceForm(Dialog[dict[JobId, JobSpec] | None]):
    """Answers with the jobs that change and what they become."""

    AUTO_FOCUS = "#instead"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, jobs: Sequence[Job], names: Sequence[str], manner: Callable[[list[Job]], str]) -> None:
        """`names`: the parameters that all share; the first is likely to be changed. `manner`: how some start again."""
        super().__init__()
        self._manner = manner
        self._jobs = jobs
        likely = begin_with(jobs, names)
        self._sought = Input(likely, "a part of the commands", compact=True, id="sought", select_on_focus=False)
        self._instead = Input(likely, "what stands there instead", compact=True, id="instead", select_on_focus=False)
        self._complaint = Static("", markup=False, classes="complaint")
        self._preview = Static("", markup=False, id="preview")
        self._hint = Static("", markup=False, classes="hint")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog form") as frame:
            frame.border_title = Text("Edit and rerun")
            for label, field in (("replace", self._sought), ("by", self._instead)):
                with Horizontal(classes="field"):
                    yield Static(Text(label), markup=False, classes="label")
                    yield field
            yield self._complaint
            yield self._preview
            yield self._hint

    def on_mount(self) -> None:
        if not self._sought.value:
            self._sought.focus()
        self._check()

    @on(Input.Changed)
    def _check(self) -> None:
        try:
            replacement = replaced(self._jobs, self._sought.value, self._instead.value)
        except BadReplacement as bad:
            self._show(None, str(bad))
        else:
            self._show(replacement, "")

    def _show(self, replacement: Replacement | None, complaint: str) -> None:
        self._complaint.update(Text(plain(complaint)), layout=False)
        self._preview.update(self._text(replacement), layout=False)
        changing = [job for job in self._jobs if replacement is not None and job.id in replacement.changed]
        go = f"enter reruns {len(changing):,}{self._manner(changing)}" if changing else "enter reruns them"
        self._hint.update(Text(f"{go} · tab next field · esc goes back"), layout=False)

    def _text(self, replacement: Replacement | None) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        if replacement is None:
            for job in self._jobs[:SHOWN]:
                text.append(f"#{job.id} ", "bold").append(f"{plain(job.spec.command)}\n")
            return text
        changing = [job for job in self._jobs if job.id in replacement.changed]
        left_out = f"; {replacement.unchanged:,} do not hold it and stay as they are" if replacement.unchanged else ""
        text.append(f"{len(changing):,} of {len(self._jobs):,} change{left_out}\n")
        for job in changing[:SHOWN]:
            self._line(text, job)
        if len(changing) > SHOWN:
            text.append(f"… and {len(changing) - SHOWN:,} more")
        return text

    def _line(self, text: Text, job: Job) -> None:
        """What goes struck, what comes bold: also told without colours."""
        command, sought = job.spec.command, self._sought.value
        first = command.index(sought)
        before = command[max(0, first - BEFORE) : first]
        text.append(f"#{job.id} ", "bold").append(("…" if first > BEFORE else "") + plain(before))
        text.append(plain(sought), "strike dim").append(plain(self._instead.value), "bold underline")
        text.append(plain(command[first + len(sought) :]) + "\n")

    @on(Input.Submitted)
    def _take(self) -> None:
        try:
            replacement = replaced(self._jobs, self._sought.value, self._instead.value)
            would_run(self._jobs, replacement)
        except BadReplacement as bad:
            self._show(None, str(bad))
        else:
            self.dismiss(replacement.changed)

    def action_cancel(self) -> None:
        self.dismiss(None)
