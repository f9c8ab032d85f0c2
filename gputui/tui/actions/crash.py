"""The key that goes to the crash, and back to where the user was: nothing else ever moves the cursor by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputui.core.job import JobId
from gputui.core.snapshot import Snapshot
from gputui.tui.model.arrangement import Pane
from gputui.tui.model.filtering import Filter
from gputui.tui.model.rows import BAD_ENDS, Tab
from gputui.tui.model.sorting import QUEUE_ORDER

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

__all__ = ["CrashVisit", "visit_crash"]


@dataclass(frozen=True)
class CrashVisit:
    """Where the user was before."""

    crash: JobId
    cursor: JobId | None
    tab: Tab
    filter: Filter
    sort: str
    reverse: bool
    focus: Pane


def visit_crash(main: MainScreen) -> None:
    """The last crash of the pause, or else the newest; the same key again goes back."""
    visit = main.crash_visit
    if visit is not None and main.table.cursor == visit.crash:
        _go_back(main, visit)
        return
    crash = _last_crash(main.snapshot)
    if crash is None:
        main.say("no job has failed")
        return
    rows = main.table.rows
    main.crash_visit = CrashVisit(crash, main.table.cursor, rows.tab, rows.filter, rows.sort, rows.reverse, main.pane)
    if not main.table.move_to(crash):
        main.table.set_view(tab=Tab.ALL, filter=Filter(), sort=QUEUE_ORDER, reverse=False)
        main.table.move_to(crash)


def _go_back(main: MainScreen, visit: CrashVisit) -> None:
    main.crash_visit = None
    main.table.set_view(tab=visit.tab, filter=visit.filter, sort=visit.sort, reverse=visit.reverse)
    if visit.cursor is not None:
        main.table.move_to(visit.cursor)


def _last_crash(snapshot: Snapshot) -> JobId | None:
    cause = snapshot.cause
    if cause is not None and cause.jobs and cause.jobs[-1] in snapshot:
        return cause.jobs[-1]
    failed = (
        [job for job in snapshot if job.state.name in BAD_ENDS and job.attempts] if snapshot.count(*BAD_ENDS) else []
    )
    return max(failed, key=lambda job: job.attempts[-1].ended).id if failed else None
