"""The table of the queue: its cursor, marks, sorting and band, and the input line for filters and searches."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from math import inf
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from gputui.core.events import Seen
from gputui.core.job import Job, JobId
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.tui.chrome import Band, BandPart
from gputui.tui.theme import palette_of
from gputui.views.format import cut
from gputui.views.parameters import Parameters

from .painted import HEADER, PaintedRows
from .row_facts import best_result
from .rows import QUEUE_ORDER, SHOWN_STATES, Filter, Keys, Tab

KeyGenerator = Generator[None, None, Keys]
LONG = 4000
"""Number of jobs above which a queue is sorted in slices."""
SLICE = 0.012
"""Seconds that one slice of sorting may take."""


class Sorter:
    """The sorting of the queue. A long queue is sorted in slices so that keys are handled in between, and a new sort
    replaces an unfinished one.
    """

    def __init__(self, table: QueueTable) -> None:
        self._table = table
        self._keys: KeyGenerator | None = None
        self._then: list[Callable[[], None]] = []

    def sort(self, sort: str, *, reverse: bool, then: Callable[[], None]) -> None:
        """Sort the rows, then call `then`. For a short queue, this happens before the method returns."""
        snapshot, rows = self._table.snapshot, self._table.rows
        self._then = [then]
        self._keys = keys = rows.compute_keys(snapshot, sort)
        if len(snapshot.jobs) > LONG:
            rows.restrict(snapshot)  # the tab and the filter are applied at once
            self._run(sort, reverse, snapshot.jobs, keys, SLICE)
        else:
            self._run(sort, reverse, snapshot.jobs, keys, inf)

    def when_sorted(self, call: Callable[[], None]) -> None:
        """Call a function after the current sort, or immediately if there is none."""
        if self._keys is None:
            call()
        else:
            self._then.append(call)

    def stop(self) -> None:
        self._keys = None

    def _run(self, sort: str, reverse: bool, jobs: tuple[Job, ...], keys: KeyGenerator, seconds: float) -> None:
        if self._keys is not keys:
            return
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                next(keys)
        except StopIteration as ended:
            self._keys = None
            rows = self._table.rows
            rows.reverse = reverse
            rows.take_order(self._table.snapshot, sort, ended.value, jobs)
            for call in self._then:
                call()
        else:
            self._table.set_timer(0.001, lambda: self._run(sort, reverse, jobs, keys, seconds))


LEAST_FILTER = 4
"""Minimum width of the filter in the band."""
MANY = 2_000
"""Number of changed jobs above which rebuilding all rows is faster."""


class QueueTable(PaintedRows):
    """The table of the queue. The cursor stays on its job when the rows around it change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("ctrl+d", "page(0.5)", show=False),
        Binding("ctrl+u", "page(-0.5)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home,g", "edge(False)", show=False),
        Binding("end,G", "edge(True)", show=False),
    ]

    class Highlighted(Message):
        """The message sent when the cursor has moved to another job."""

    class JobOpened(Message):
        """The message sent when a job was double-clicked."""

    class ViewChanged(Message):
        """The message sent when the user has changed the tab, filter, order or marks."""

    def __init__(self, snapshot: Snapshot, parameters: Parameters, *, id: str | None = None) -> None:
        super().__init__(snapshot, parameters, id=id)
        self.cursor: JobId | None = None
        """The job under the cursor, or None if there is none or the cursor is on the line of the fold."""
        self.on_fold = False
        self._range_from: JobId | None = None
        self._columns = 0
        """The table width for which the columns were chosen."""
        self._sorter = Sorter(self)
        self.band = Band(2, "Queue")

    def on_mount(self) -> None:
        self._settle_cursor()

    def chosen(self) -> list[Job]:
        """Return the jobs that an action applies to: the marked jobs, or else the job under the cursor."""
        ids = sorted(self.marks) if self.marks else [self.cursor] if self.cursor is not None else []
        return [self.snapshot[job] for job in ids if job in self.snapshot and not self.snapshot[job].archived]

    def seen(self, job: Job) -> Seen:
        """Return the attempt and state of a job as painted. They are checked when a command is carried out."""
        return Seen(job.issued, job.state.name)

    def paint_band(self) -> None:
        """Show the tabs with counts, the marks and filter (or what all jobs have in common), and the best job."""
        palette, rows = palette_of(self.app.theme), self.rows
        gap = ("  ", palette.text)
        parts: list[BandPart] = [("   ", palette.text)]
        for tab in Tab:
            chosen = tab is rows.tab
            count = self.snapshot.count(*SHOWN_STATES[tab])
            alarm = palette.failure if tab is Tab.FAILED and count else palette.best if chosen else palette.past
            parts += [(f"{tab} ", palette.best if chosen else palette.past), (f"{count:,}", alarm), gap]
        best = best_result(self.snapshot)
        right = [(f"★ #{best.job} {best.text}", palette.best)] if best is not None else []
        used = sum(cell_len(text) for text, _ in (*parts, gap, *right)) + len("2 Queue ")
        if words := self._restrictions(self.band.size.width - used):
            text = (words, palette.focus + Style(bold=True))
        else:
            text = (plain(self.parameters.common()), palette.past)
        self.band.show([*parts, gap, text], right)

    def _restrictions(self, room: int) -> str:
        """Describe the marks and the filter."""
        hidden = sum(job not in self.rows for job in self.marks)
        marked = f"{len(self.marks):,} marked" if self.marks else ""
        marked += f", {hidden:,} not shown" if hidden else ""
        count = f": {len(self.rows):,} shown"
        written = cut(plain(self.rows.filter.written), max(LEAST_FILTER, room - len(marked) - len(count) - 4))
        return " · ".join(filter(None, (marked, f"/{written}{count}" if self.rows.filter else "")))

    def band_clicked(self, part: int | None) -> None:
        """Switch to the tab that was clicked. At the start of the band, each tab consists of three parts."""
        if part is not None and 0 <= (number := (part - 1) // 3) < len(Tab):
            self.set_view(tab=list(Tab)[number])

    # Updates

    def show(self, snapshot: Snapshot, changed: Iterable[JobId]) -> None:
        """Show a newer snapshot in which the jobs in `changed` differ."""
        before, count = self.snapshot, len(self.rows)
        was_visible = self._is_visible(self._row)
        self.snapshot = snapshot
        changed = [job for job in changed if job in snapshot]
        self._take_results(snapshot)
        self.context.forget(changed)
        if snapshot.first_id != before.first_id or len(changed) > MANY:
            self._rebuild(snapshot)
            moved = True
        else:
            self._learn(snapshot[job] for job in changed)
            moved = self.rows.update(snapshot, changed)
        self.marks = {job for job in self.marks if job in snapshot and not snapshot[job].archived}
        if len(snapshot.jobs) != len(before.jobs) and self.is_attached:
            self.choose_columns()
        if moved:
            self._rows_moved(count)
            if was_visible:
                self._scroll_to_cursor()
        else:
            self.repaint_jobs(changed)

    def _pass_time(self, now: float) -> None:
        if self.rows.pass_time(self.snapshot, now):
            self._rows_moved(len(self.rows))

    def reset(self, snapshot: Snapshot) -> None:
        """Start again with the snapshot of another scheduler."""
        self.snapshot = snapshot
        self._rebuild(snapshot)
        self.marks.clear()
        self._resize_rows()
        self._settle_cursor()
        self.refresh()

    def _rows_moved(self, count: int) -> None:
        if len(self.rows) != count:
            self._resize_rows()
        self._settle_cursor()
        self.refresh()

    def set_view(
        self,
        *,
        tab: Tab | None = None,
        filter: Filter | None = None,
        sort: str | None = None,
        reverse: bool | None = None,
    ) -> None:
        rows = self.rows
        rows.tab = tab if tab is not None else rows.tab
        rows.filter = filter if filter is not None else rows.filter
        turned = reverse if reverse is not None else rows.reverse
        self._sorter.stop()
        if sort is None or sort == rows.sort:
            rows.reverse = turned
            rows.restrict(self.snapshot)
            self._update_view()
        else:
            self._sorter.sort(sort, reverse=turned, then=self._update_view)

    def _update_view(self) -> None:
        self._resize_rows()
        self._settle_cursor()
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.ViewChanged())

    def sort_by(self, column: str) -> None:
        """Sort by a column. Sorting by the same column again reverses the order."""
        reverse = column != QUEUE_ORDER and self.rows.sort == column and not self.rows.reverse
        self.set_view(sort=column, reverse=reverse)
        self._sorter.when_sorted(lambda: self.action_edge(False))

    # Marks

    def toggle_mark(self) -> None:
        if self.cursor is not None:
            self.marks ^= {self.cursor}
            self.repaint_jobs([self.cursor])
            self.action_move(1)
            self.post_message(self.ViewChanged())

    def toggle_range(self) -> None:
        """Start or end a range in which all rows that the cursor passes are marked."""
        self._range_from = None if self._range_from is not None else self.cursor
        self._mark_range()

    def mark_all(self) -> None:
        """Mark all jobs that are shown, or unmark them if all are marked."""
        shown = set(self.rows.jobs())
        self.marks = self.marks - shown if shown <= self.marks else self.marks | shown
        self._marks_changed()

    def clear_marks(self) -> bool:
        """Remove all marks. Return False if there were none."""
        had = bool(self.marks) or self._range_from is not None
        self.marks, self._range_from = set(), None
        if had:
            self._marks_changed()
        return had

    def _mark_range(self) -> None:
        if self._range_from is None or self.cursor is None:
            return
        start = self.rows.row_of(self._range_from)
        if start is None:
            self._range_from = None
            return
        first, last = sorted((start, self._row))
        self.marks |= set(self.rows.between(first, last))
        self._marks_changed()

    def _marks_changed(self) -> None:
        self.refresh()
        self.post_message(self.ViewChanged())

    # The cursor

    def move_to(self, job: JobId) -> bool:
        """Move the cursor to a job, unfolding the job if necessary. Return False if it is not in this view."""
        if job not in self.rows:
            return False
        if self.rows.row_of(job) is None and self.rows.pin(job, self.snapshot):
            self._resize_rows()
            self.refresh()
        self._go(self._row_of(job))
        return True

    def action_move(self, by: int) -> None:
        self._go(self._row + by)

    def action_page(self, pages: float) -> None:
        self._go(self._row + int(pages * max(1, self._room())))

    def action_edge(self, end: bool) -> None:
        self._go(len(self.rows) - 1 if end else 0)

    def _go(self, row: int) -> None:
        if not len(self.rows):
            return
        before, self._row = self._row, max(0, min(row, len(self.rows) - 1))
        job = self.rows.job_at(self._row)
        if self.rows.pin(job, self.snapshot):  # rows were moved or unfolded
            self._row = self._row_of(job)
            self._resize_rows()
            self.refresh()
        self._repaint_row(before)
        self._repaint_row(self._row)
        self._set_job(job)
        self._scroll_to_cursor()
        self._mark_range()

    def _settle_cursor(self) -> None:
        """After the rows have changed, keep the cursor on its job, or on its row if the job has left the view."""
        on_fold = self.cursor is None and self.on_fold and self.rows.fold.hidden
        row = self.rows.fold.at if on_fold else self.rows.row_of(self.cursor) if self.cursor is not None else None
        self._row = row if row is not None else max(0, min(self._row, len(self.rows) - 1))
        job = self.rows.job_at(self._row) if len(self.rows) else None
        if self.rows.pin(job, self.snapshot):
            self._row = self._row_of(job)
            self._resize_rows()
        self._set_job(job)

    def _row_of(self, job: JobId | None) -> int:
        row = self.rows.fold.at if job is None else self.rows.row_of(job)
        return row if row is not None and row >= 0 else max(0, min(self._row, len(self.rows) - 1))

    def _set_job(self, job: JobId | None) -> None:
        self.on_fold = job is None and bool(self.rows.fold.hidden)
        if job != self.cursor:
            self.cursor = job
            self.post_message(self.Highlighted())

    def on_resize(self) -> None:
        """Keep the cursor's row in place when the number of folded rows changes."""
        before, columns = self._row, self.scrollable_content_region.width
        if columns != self._columns:
            self._columns = columns
            self.choose_columns()
        self.rows.room = self._room()
        self.rows.refold()
        self._settle_cursor()
        if self._row != before:
            self.moved_down(self._row - before)
        self._resize_rows()
        self._scroll_to_cursor()

    # Mouse

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0:
            column = self.current_layout().column_at(offset.x)
            if column is not None and column.sort is not None:
                self.sort_by(column.sort)
            return
        row = self.scroll_offset.y + offset.y - HEADER
        if row < len(self.rows):
            self._go(row)
            if event.chain == 2:
                self.post_message(self.JobOpened())


FILTER_HINT = "state:failed lr=0.1 text !not       Enter: keep · Esc: clear"
SEARCH_HINT = "search …       Enter, then n and N"


class FilterBar(Input):
    """An input line for a filter of the queue, applied while typing, or for a text to search for in the log."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", show=False)]

    class Typed(Message):
        """The message sent when the filter was edited."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Done(Message):
        """The message sent when the line was closed. `searches` means that the text is for the log. `kept` means that
        Enter was pressed instead of Escape.
        """

        def __init__(self, text: str, *, searches: bool, kept: bool) -> None:
            super().__init__()
            self.text = text
            self.searches = searches
            self.kept = kept

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(compact=True, id=id, select_on_focus=False)
        self.display = False
        self._searches = False

    def begin(self, text: str, *, search: bool) -> None:
        self._searches = search
        self.placeholder = SEARCH_HINT if search else FILTER_HINT
        self.display = True
        with self.prevent(Input.Changed):
            self.value = text
        self.cursor_position = len(text)
        self.focus()

    def _end(self, *, kept: bool) -> None:
        self.display = False
        self.post_message(self.Done(self.value, searches=self._searches, kept=kept))

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display and not self._searches:
            self.post_message(self.Typed(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._end(kept=True)

    def action_give_up(self) -> None:
        self._end(kept=False)
