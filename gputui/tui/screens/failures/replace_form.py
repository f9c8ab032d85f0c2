"""Search and replace over the commands of failed jobs, with a live preview of what would run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gputui.core.job import Job, JobId, JobSpec
from gputui.logs.plain import plain
from gputui.tui.model.replacing import BadReplacement, Replacement, begin_with, replaced, would_run

SHOWN = 6
BEFORE = 24
"""Characters shown before what changes."""


class ReplaceForm(ModalScreen[dict[JobId, JobSpec] | None]):
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
