"""What the queue pane says besides its rows: tabs, marks, filter; and what rows are told about running and waiting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style

from gputui.core.job import Active, Blocked, Delayed, Held, Job, JobId, Waiting
from gputui.core.mode import Mode
from gputui.core.views.cells import cut
from gputui.logs.plain import plain
from gputui.logs.progress_reader import ProgressReader
from gputui.session.control.json_shapes import pid_of
from gputui.session.files.looked import keep_order, kept_order
from gputui.tui.looks.palette import Palette, palette_of
from gputui.tui.model.result_cells import best_result
from gputui.tui.model.rows import SHOWN_STATES, Tab
from gputui.tui.model.sorting import METRIC, PARAMETER, QUEUE_ORDER, SECOND, SORTS, TIME
from gputui.tui.widgets.band import BandPart

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

MOST_PROGRESS = 24
"""Rows whose log is looked at for progress."""
LEAST_FILTER = 4
"""Cells of a filter in the band, however little room there is."""


class QueuePresenter:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._progress = ProgressReader()
        self._order = (QUEUE_ORDER, False)
        """As it is kept."""

    def restore_order(self) -> None:
        """As the queue was sorted when it was last looked at."""
        owner, table = self._main.bridge.owner, self._main.table
        if owner is not None and (stored_order := kept_order(owner.paths.private)) is not None:
            self._order = stored_order
            if stored_order[0] in (*SORTS, TIME, METRIC, SECOND) or stored_order[0].startswith(PARAMETER):
                table.set_view(sort=stored_order[0], reverse=stored_order[1])

    def keep_order(self) -> None:
        main, rows = self._main, self._main.table.rows
        order = (rows.sort, rows.reverse)
        if order != self._order and main.bridge.owner is not None and main.crash_visit is None and not main.read_only:
            self._order = order
            keep_order(main.bridge.owner.paths.private, rows.sort, reverse=rows.reverse)

    def paint_titles(self) -> None:
        """What stands in the band: tabs with their counts, what all jobs share, the best."""
        main, palette = self._main, palette_of(self._main.app.theme)
        rows, gap = main.table.rows, ("  ", palette.text)
        parts: list[BandPart] = [("   ", palette.text)]
        for tab in Tab:
            chosen = tab is rows.tab
            count = main.snapshot.count(*SHOWN_STATES[tab])
            alarm = palette.failure if tab is Tab.FAILED and count else palette.best if chosen else palette.past
            parts += [(f"{tab} ", palette.best if chosen else palette.past), (f"{count:,}", alarm), gap]
        best = self._best(palette)
        used = sum(cell_len(text) for text, _ in (*parts, gap, *best)) + len("2 Queue ")
        parts += [gap, *self._told(palette, main.queue_band.size.width - used)]
        main.queue_band.show(parts, best)

    def clicked(self, part: int | None) -> None:
        """On a part of the band; those of the tabs come first, three for each."""
        if part is not None and 0 <= (number := (part - 1) // 3) < len(Tab):
            self._main.table.set_view(tab=list(Tab)[number])

    def _told(self, palette: Palette, room: int) -> list[BandPart]:
        """Marks and the filter, while there are any, or else what all commands share."""
        table = self._main.table
        hidden = table.hidden_marks()
        marked = f"{len(table.marks):,} marked" if table.marks else ""
        marked += f", {hidden:,} of them not in this view" if hidden else ""
        count = f": {len(table.rows):,} shown"
        written = cut(plain(table.rows.filter.written), max(LEAST_FILTER, room - len(marked) - len(count) - 4))
        words = " · ".join(part for part in (marked, f"/{written}{count}" if table.rows.filter else "") if part)
        if words:
            return [(words, palette.focus + Style(bold=True))]
        return [(plain(table.parameters.common()), palette.past)]

    def _best(self, palette: Palette) -> list[BandPart]:
        """The answer is on the screen even when its row is not."""
        best = best_result(self._main.snapshot)
        return [(f"★ #{best.job} {best.text}", palette.best)] if best is not None else []

    def look(self) -> None:
        """Times, progress, and why jobs wait: of the rows in sight only."""
        table = self._main.table
        jobs = table.visible_jobs()
        running = [job for job in jobs if isinstance(job.state, Active)]
        progress = {job.id: far for job in running[:MOST_PROGRESS] if (far := self._progress_of(job)) is not None}
        pids = {job.id: pid for job in running if (pid := pid_of(job)) is not None} if table.shows_pids else {}
        table.tell(now=self._main.now(), progress=progress, pids=pids)
        explained = [job.id for job in jobs if isinstance(job.state, self._explained())]
        self._main.bridge.whys(explained, self._whys_came)

    def _explained(self) -> tuple[type, ...]:
        """While the scheduler is paused its banner says why the queue waits; a row need not repeat it."""
        if self._main.snapshot.mode is Mode.RUNNING:
            return Waiting, Active
        return Held, Blocked, Delayed, Active

    def _progress_of(self, job: Job) -> float | None:
        files = self._main.bridge.files(job, job.active.attempt) if job.active is not None else None
        if files is None:
            return None
        progress = self._progress.read(Path(files.out), Path(files.err) if files.err else None)
        return min(progress.fraction, 1.0) if progress is not None else None

    def _whys_came(self, whys: dict[JobId, str]) -> None:
        table = self._main.table
        before = table.told.whys
        table.tell(now=self._main.now(), whys={job: plain(words) for job, words in whys.items()})
        if table.cursor is not None and before.get(table.cursor) != table.told.whys.get(table.cursor):
            self._main.logs.show()
