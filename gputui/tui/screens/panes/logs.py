"""Shows the log of the job under the cursor; of one that has not run, why it waits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gputui.core.job import Job, Succeeded
from gputui.logs.plain import plain
from gputui.tui.model.words import cut
from gputui.tui.widgets.logs.job_log import AttemptLog, JobLog

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen


LEAST_NAME = 8
BESIDE_NAME, ATTEMPT = len("- 3 Log  #123  · OUT · following -"), len(" · attempt 1/2")
"""What the title says besides the job's name, and must not be cut off for it."""


class LogPresenter:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._shown: JobLog | None = None

    def show(self) -> None:
        """Cheap when nothing about the job changed."""
        pane, table = self._main.log_pane, self._main.table
        if table.cursor is None or table.cursor not in table.snapshot:
            self._shown = None
            pane.show(None)
            pane.note("")
            return
        job = table.snapshot[table.cursor]
        attempts = self._attempts(job)
        beside = BESIDE_NAME + (ATTEMPT if len(attempts) > 1 else 0)
        name = cut(plain(self._main.names.of(job)), max(LEAST_NAME, pane.size.width - beside))
        log = JobLog(job.id, name, attempts)
        if log != self._shown:
            self._shown = log
            pane.show(log)
        if not log.attempts:
            pane.note(table.told.whys.get(job.id) or "it has not started yet")

    def _attempts(self, job: Job) -> tuple[AttemptLog, ...]:
        made = [
            self._log(job, attempt.number, failed=not isinstance(attempt.end, Succeeded)) for attempt in job.attempts
        ]
        if job.active is not None:
            made.append(self._log(job, job.active.attempt, live=True))
        return tuple(log for log in made if log is not None)

    def _log(self, job: Job, number: int, *, live: bool = False, failed: bool = False) -> AttemptLog | None:
        files = self._main.bridge.files(job, number)
        if files is None:
            return None
        return AttemptLog(number, Path(files.out), Path(files.err) if files.err else None, live, failed)
