"""Shows the log of the job under the cursor; of one that has not run, why it waits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gputui.core.job import Job, Succeeded
from gputui.core.views.submission import is_submitted
from gputui.logs.plain import plain
from gputui.tui.looks.palette import palette_of
from gputui.tui.widgets.logs.highlights import number_after
from gputui.tui.widgets.logs.job_log import AttemptLog, JobLog
from gputui.tui.widgets.logs.submission import submission_note

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen


class LogPresenter:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._shown: JobLog | None = None

    def show(self) -> None:
        """Cheap when nothing about the job changed."""
        pane, table = self._main.log_pane, self._main.table
        metric = table.snapshot.metric
        pane.bold_number = number_after(metric.name) if metric is not None else None
        if table.cursor is None or table.cursor not in table.snapshot:
            self._shown = None
            pane.show(None)
            pane.note("enter shows those that wait" if table.on_fold else "")
            return
        job = table.snapshot[table.cursor]
        result = results.get(metric.name) if metric and (results := table.snapshot.results.get(job.id)) else None
        pane.metric_source = (result.name, result.log) if result is not None else ("", 0)
        attempts = () if is_submitted(job) and not job.attempts else self._attempts(job)
        log = JobLog(job.id, plain(self._main.short_name(job.id)), attempts)
        if log != self._shown:
            self._shown = log
            pane.show(log)
        if not log.attempts:
            pane.note(self._why_not(job))

    def _why_not(self, job: Job) -> str:
        main = self._main
        if is_submitted(job):
            return submission_note(job, main.table.snapshot, main.bridge.picture, main.now())
        return main.table.told.whys.get(job.id) or "it has not started yet"

    def paint_title(self) -> None:
        pane, palette = self._main.log_pane, palette_of(self._main.app.theme)
        head, facts = pane.heading
        self._main.log_band.show(
            [("   ", palette.text), (head, palette.text)], [(facts, palette.past)] if facts else []
        )

    def _attempts(self, job: Job) -> tuple[AttemptLog, ...]:
        logs = [
            self._log(job, attempt.number, failed=not isinstance(attempt.end, Succeeded)) for attempt in job.attempts
        ]
        if job.active is not None:
            logs.append(self._log(job, job.active.attempt, live=True))
        return tuple(log for log in logs if log is not None)

    def _log(self, job: Job, number: int, *, live: bool = False, failed: bool = False) -> AttemptLog | None:
        files = self._main.bridge.files(job, number)
        if files is None:
            return None
        return AttemptLog(number, Path(files.out), Path(files.err) if files.err else None, live, failed)
