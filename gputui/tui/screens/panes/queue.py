"""What the queue pane says besides its rows: tabs, marks, filter; and what rows are told about running and waiting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from gputui.core.job import Active, Blocked, Delayed, Held, Job, JobId, Waiting
from gputui.core.mode import Mode
from gputui.logs.plain import plain
from gputui.logs.progress_reader import ProgressReader
from gputui.tui.model.rows import Tab

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

MOST_PROGRESS = 24
"""Rows whose log is looked at for progress."""


class QueuePresenter:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._progress = ProgressReader()
        self._titles = (Text(), "")

    def paint_titles(self) -> None:
        """A border is painted whole, so only when its words or their looks changed."""
        title, below = self._title(), self._below()
        if (title, below) != self._titles:
            self._titles = (title, below)
            frame = self._main.queue_frame
            frame.border_title, frame.border_subtitle = title, Text(below)

    def _title(self) -> Text:
        rows = self._main.table.rows
        title = Text("2 Queue  ")
        for tab in Tab:
            title.append(f"{tab}", "bold reverse" if tab is rows.tab else "dim").append(" ")
        common = plain(self._main.names.common())
        return title.append(f" {common} …", "dim") if common else title

    def _below(self) -> str:
        table = self._main.table
        hidden = table.hidden_marks()
        marked = f"{len(table.marks):,} marked" if table.marks else ""
        marked += f", {hidden:,} of them not in this view" if hidden else ""
        found = f"/{plain(table.rows.filter.written)}: {len(table.rows):,} shown" if table.rows.filter else ""
        return " · ".join(part for part in (marked, found) if part)

    def look(self) -> None:
        """Times, progress, and why jobs wait: of the rows in sight only."""
        table = self._main.table
        jobs = table.visible_jobs()
        running = [job for job in jobs if isinstance(job.state, Active)]
        progress = {job.id: words for job in running[:MOST_PROGRESS] if (words := self._progress_of(job)) is not None}
        table.tell(now=self._main.now(), progress=progress)
        told = [job.id for job in jobs if isinstance(job.state, self._explained())]
        self._main.bridge.whys(told, self._whys_came)

    def _explained(self) -> tuple[type, ...]:
        """While the scheduler is paused its banner says why the queue waits; a row need not repeat it."""
        if self._main.snapshot.mode is Mode.RUNNING:
            return Waiting, Active
        return Held, Blocked, Delayed, Active

    def _progress_of(self, job: Job) -> str | None:
        files = self._main.bridge.files(job, job.active.attempt) if job.active is not None else None
        if files is None:
            return None
        found = self._progress.read(Path(files.out), Path(files.err) if files.err else None)
        return f"{min(found.fraction, 1.0):4.0%}".strip() if found is not None else None

    def _whys_came(self, whys: dict[JobId, str]) -> None:
        table = self._main.table
        before = table.told.whys
        table.tell(now=self._main.now(), whys={job: plain(words) for job, words in whys.items()})
        if table.cursor is not None and before.get(table.cursor) != table.told.whys.get(table.cursor):
            self._main.logs.show()
