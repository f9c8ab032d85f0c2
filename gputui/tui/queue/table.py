"""The queue: a cursor that stays on its job, marks, sorting, and the filter line."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from math import inf
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from gputui.core.events import Seen
from gputui.core.job import Job, JobId
from gputui.core.parameter_columns import Parameters
from gputui.core.snapshot import Snapshot
from gputui.core.structures import Vector

from .painted import HEADER, PaintedRows
from .rows import QUEUE_ORDER, Filter, Key, Tab

# ---- Another order of a long queue, worked out between keys ----


KeysToCome = Generator[None, None, dict[JobId, Key]]
LONG = 4000
"""Jobs; fewer are sorted before anybody could press a key."""
SLICE = 0.012
"""Seconds at a time."""


class Resorting:
    """One order at a time: a newer wish takes the place of one that is under way."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table
        self._keys: KeysToCome | None = None
        self._then: list[Callable[[], None]] = []

    def sort(self, sort: str, *, reverse: bool, then: Callable[[], None]) -> None:
        """`then` is called when the rows are in the new order: at once where there are few."""
        snapshot, rows = self._table.snapshot, self._table.rows
        self._then = [then]
        self._keys = keys = rows.keys_in_turns(snapshot, sort)
        if len(snapshot.jobs) > LONG:
            rows.restrict(snapshot)  # by the tab and the filter that came with it
            self._go_on(sort, reverse, snapshot.jobs, keys, SLICE)
        else:
            self._go_on(sort, reverse, snapshot.jobs, keys, inf)

    def afterwards(self, act: Callable[[], None]) -> None:
        """When the order under way is there; at once if none is."""
        if self._keys is None:
            act()
        else:
            self._then.append(act)

    def stop(self) -> None:
        self._keys = None

    def _go_on(self, sort: str, reverse: bool, jobs: Vector[Job], keys: KeysToCome, seconds: float) -> None:
        if self._keys is not keys:
            return
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                next(keys)
        except StopIteration as ended:
            self._end(sort, reverse, jobs, ended.value)
        else:
            self._table.set_timer(0.001, lambda: self._go_on(sort, reverse, jobs, keys, seconds))

    def _end(self, sort: str, reverse: bool, jobs: Vector[Job], keys: dict[JobId, Key]) -> None:
        self._keys = None
        rows = self._table.rows
        rows.reverse = reverse
        rows.take_order(self._table.snapshot, sort, keys, jobs)
        for act in self._then:
            act()


# ---- The queue ----


MANY = 2_000
"""With more jobs changed at once, all rows anew cost less than each for itself."""


def hidden(action: str, *keys: str) -> list[BindingType]:
    return [Binding(",".join(keys), action, show=False)]


class QueueTable(PaintedRows):
    """Keeps its cursor on the job, whatever happens to the rows around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *hidden("move(1)", "down", "j"),
        *hidden("move(-1)", "up", "k"),
        *hidden("page(0.5)", "ctrl+d"),
        *hidden("page(-0.5)", "ctrl+u"),
        *hidden("page(1)", "pagedown"),
        *hidden("page(-1)", "pageup"),
        *hidden("edge(False)", "home", "g"),
        *hidden("edge(True)", "end", "G"),
    ]

    class Highlighted(Message):
        """The cursor came to another job."""

        def __init__(self, job: JobId | None) -> None:
            super().__init__()
            self.job = job

    class JobOpened(Message):
        """A job was chosen, by a double click."""

    class ViewChanged(Message):
        """Tab, filter, order, marks or the number of rows."""

    def __init__(self, snapshot: Snapshot, parameters: Parameters, *, id: str | None = None) -> None:
        super().__init__(snapshot, parameters, id=id)
        self._job: JobId | None = None
        self._range_from: JobId | None = None
        self._on_fold = False
        self._columns = 0
        """Cells across, for which its columns were chosen."""
        self._resorting = Resorting(self)

    def on_mount(self) -> None:
        self._settle_cursor()

    # What others ask

    @property
    def cursor(self) -> JobId | None:
        """None: there is no job, or it is on the line in the place of those that are folded."""
        return self._job

    @property
    def on_fold(self) -> bool:
        return self._on_fold

    def chosen(self) -> list[Job]:
        """What an action applies to: the marked jobs, or else the one under the cursor."""
        ids = sorted(self.marks) if self.marks else [self._job] if self._job is not None else []
        return [self.snapshot[job] for job in ids if job in self.snapshot and not self.snapshot[job].archived]

    def hidden_marks(self) -> int:
        """Marked, but not in this view."""
        return sum(job not in self.rows for job in self.marks)

    def seen(self, job: Job) -> Seen:
        """The job as it was painted."""
        return Seen(job.issued, job.state.name)

    # What changes it

    def show(self, snapshot: Snapshot, changed: Iterable[JobId]) -> None:
        """Takes the newest snapshot; `changed` are the jobs that differ from the one before."""
        before, count = self.snapshot, len(self.rows)
        in_sight = self._in_sight(self._row)
        self.snapshot = snapshot
        changed = [job for job in changed if job in snapshot]
        self._take_results(snapshot)
        self.told.forget(changed)
        if snapshot.first_id != before.first_id or len(changed) > MANY:
            self._begin_anew(snapshot)
            moved = True
        else:
            self._learn(snapshot[job] for job in changed)
            moved = self.rows.update(snapshot, changed)
        self.marks = {job for job in self.marks if job in snapshot and not snapshot[job].archived}
        if len(snapshot.jobs) != len(before.jobs) and self.is_attached:
            self.choose_columns()
        if moved:
            self._rows_moved(count)
            if in_sight:
                self._into_sight()
        else:
            self.repaint_jobs(changed)

    def _pass_time(self, now: float) -> None:
        if self.rows.pass_time(self.snapshot, now):
            self._rows_moved(len(self.rows))

    def reset(self, snapshot: Snapshot) -> None:
        """All anew, as when another owner has the session."""
        self.snapshot = snapshot
        self._begin_anew(snapshot)
        self.marks.clear()
        self._resize_rows()
        self._settle_cursor()
        self.refresh()

    def _rows_moved(self, count: int) -> None:
        if len(self.rows) != count:
            self._resize_rows()
            self.post_message(self.ViewChanged())
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
        self._resorting.stop()
        if sort is None or sort == rows.sort:
            rows.reverse = turned
            rows.restrict(self.snapshot)
            self._view_turned()
        else:
            self._resorting.sort(sort, reverse=turned, then=self._view_turned)

    def _view_turned(self) -> None:
        self._resize_rows()
        self._settle_cursor()
        self._into_sight()
        self.refresh()
        self.post_message(self.ViewChanged())

    def sort_by(self, column: str) -> None:
        """The same again turns it round."""
        if column == QUEUE_ORDER:
            self.set_view(sort=QUEUE_ORDER, reverse=False)
        else:
            self.set_view(sort=column, reverse=self.rows.sort == column and not self.rows.reverse)
        self._resorting.afterwards(lambda: self.action_edge(False))

    # Marks

    def toggle_mark(self) -> None:
        if self._job is not None:
            self.marks ^= {self._job}
            self.repaint_jobs([self._job])
            self.action_move(1)
            self.post_message(self.ViewChanged())

    def toggle_range(self) -> None:
        """From here to wherever the cursor goes, until asked again."""
        self._range_from = None if self._range_from is not None else self._job
        self._mark_range()

    def mark_all(self) -> None:
        """All that is shown; again: none."""
        shown = set(self.rows.jobs())
        self.marks = self.marks - shown if shown <= self.marks else self.marks | shown
        self._marks_changed()

    def clear_marks(self) -> bool:
        """False if there were none."""
        had = bool(self.marks) or self._range_from is not None
        self.marks, self._range_from = set(), None
        if had:
            self._marks_changed()
        return had

    def _mark_range(self) -> None:
        if self._range_from is None or self._job is None:
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
        """False: it is not in this view. One that is folded is unfolded."""
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
        if self.rows.pin(job, self.snapshot):  # the row the cursor left went where it belongs, or rows unfolded
            self._row = self._row_of(job)
            self._resize_rows()
            self.refresh()
        self._repaint_row(before)
        self._repaint_row(self._row)
        self._set_job(job)
        self._into_sight()
        self._mark_range()

    def _settle_cursor(self) -> None:
        """After the rows changed: on the same job, or where it was if that has left the view."""
        on_fold = self._job is None and self._on_fold and self.rows.fold.hidden
        row = self.rows.fold.at if on_fold else self.rows.row_of(self._job) if self._job is not None else None
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
        self._on_fold = job is None and bool(self.rows.fold.hidden)
        if job != self._job:
            self._job = job
            self.post_message(self.Highlighted(job))

    def on_resize(self) -> None:
        """The row under the cursor stays on its line, though more or fewer are folded above it."""
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
        self._into_sight()

    # Mouse

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0:
            column = self.laid_out().column_at(offset.x)
            if column is not None and column.sort is not None:
                self.sort_by(column.sort)
            return
        row = self.scroll_offset.y + offset.y - HEADER
        if row < len(self.rows):
            self._go(row)
            if event.chain == 2:
                self.post_message(self.JobOpened())


# ---- The line in which one types a filter for the queue, or words to look for in the log ----


FILTER_HINT = "state:failed lr=0.1 text !not       enter keeps it · esc shows all"
SEARCH_HINT = "look for …       enter, then n and N"


class FilterBar(Input):
    """Hidden until asked for. Filters while one types; searches when one is done."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", show=False)]

    class Typed(Message):
        """The filter as it stands."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Done(Message):
        """`searches`: words to look for in the log, not a filter; not `kept`: given up."""

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
