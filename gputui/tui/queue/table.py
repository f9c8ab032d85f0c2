"""The table of the queue: its rows, columns, cursor, marks, sorting and band, and the input line for filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from itertools import islice
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker

from gputui.core.events import Seen
from gputui.core.job import DEFAULT_PRIORITY, Active, Job, JobId
from gputui.core.results import Direction, direction_of
from gputui.core.slots import DeviceKind
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.tui.chrome import Band
from gputui.tui.log.view import run_in_slices
from gputui.tui.text import Pieces, blank, width_of
from gputui.tui.theme import Ground, Look, palette_of
from gputui.views.format import cut, width
from gputui.views.parameters import Parameters
from gputui.views.waiting import Reason

from .columns import LEAST_NAME, ColumnLayout, TableShape, layout, width_needed
from .row_facts import ResultShape, RowContext, RowFacts, best_result, gpus_of, result_shape
from .rows import METRIC, QUEUE_ORDER, SHOWN_STATES, Filter, Keys, Rows, Tab

LEAST_PLACE, LEAST_NODE, MOST_PLACE = 3, 5, 8
"""Widths of the column of GPUs: the minimum, the minimum on a cluster, and the maximum."""
NAME_STEP = 4
"""Number of cells in each step by which the column of names grows."""
HEADER = 1
MARK = "▌"
LEARN_EVERY = 0.05
LEARN_BATCH = 500
"""Number of jobs whose parameters are read in one batch. It is limited so that the screen is not blocked."""
LONG = 4000
"""Number of jobs above which a queue is sorted in slices."""
LEAST_FILTER = 4
"""Minimum width of the filter in the band."""
MANY = 2_000
"""Number of changed jobs above which rebuilding all rows is faster."""
UNFOCUSED = Style(bold=True, underline=True)
"""The style of the row under the cursor while another pane has the focus."""


class QueueTable(ScrollView, can_focus=True):
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
        super().__init__(id=id)
        self.snapshot = snapshot
        self.parameters = parameters
        self.context = RowContext(parameters)
        self.rows = Rows(parameters)
        self.rows.values = self._value
        self.marks: set[JobId] = set()
        self.cursor: JobId | None = None
        """The job under the cursor, or None if there is none or the cursor is on the line of the fold."""
        self.on_fold = False
        self.band = Band(2, "Queue")
        self._row = 0
        self._wanted_top: int | None = None
        """The number of rows to hide above as soon as the pane has its new height, or None."""
        self._range_from: JobId | None = None
        self._shape = TableShape(0, longest_name=LEAST_NAME)
        """The sizes needed by the columns. They change only when jobs are loaded, a metric appears, or the day changes,
        so that the table does not flicker while jobs run.
        """
        self._today: date | None = None
        self._layout: ColumnLayout | None = None
        self._columns = 0
        """The table width for which the columns were chosen."""
        self._unlearnt: Iterator[Job]
        self._learning: Timer | None = None
        self._rebuild(snapshot)

    def on_mount(self) -> None:
        self._learning = self.set_interval(LEARN_EVERY, self._learn_more)
        self._update_shape()
        self._resize_rows()
        self._settle_cursor()

    def visible_jobs(self) -> list[Job]:
        top = self.scroll_offset.y
        last = min(len(self.rows), top + self._room())
        job_ids = (self.rows.job_at(row) for row in range(top, last))
        return [self.snapshot[job] for job in job_ids if job is not None]

    def chosen(self) -> list[Job]:
        """Return the jobs that an action applies to: the marked jobs, or else the job under the cursor."""
        ids = sorted(self.marks) if self.marks else [self.cursor] if self.cursor is not None else []
        return [self.snapshot[job] for job in ids if job in self.snapshot and not self.snapshot[job].archived]

    def seen(self, job: Job) -> Seen:
        """Return the attempt and state of a job as painted. They are checked when a command is carried out."""
        return Seen(job.issued, job.state.name)

    # The band

    def paint_band(self) -> None:
        """Show the tabs with counts, the marks and filter (or what all jobs have in common), and the best job."""
        gap = blank(2)
        parts = [blank(3)]
        for tab in Tab:
            look = Look.BEST if tab is self.rows.tab else Look.PAST
            count = self.snapshot.count(*SHOWN_STATES[tab])
            parts += [(f"{tab} ", look), (f"{count:,}", Look.FAILURE if tab is Tab.FAILED and count else look), gap]
        best = best_result(self.snapshot)
        right = [(f"★ #{self.snapshot.best} {best}", Look.BEST)] if best else []
        used = width_of([*parts, gap, *right]) + len("2 Queue ")
        if words := self._restrictions(self.band.size.width - used):
            text = (words, Look.FOCUS_BOLD)
        else:
            text = (plain(self.parameters.common()), Look.PAST)
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

    def _rebuild(self, snapshot: Snapshot) -> None:
        self._take_results(snapshot)
        self.rows.rebuild(snapshot)
        self._unlearnt = iter(snapshot.jobs)
        self._learn_more()
        if self._learning is not None:
            self._learning.resume()

    def _learn_more(self) -> None:
        """Read the parameters of the next jobs in a long queue."""
        jobs = list(islice(self._unlearnt, LEARN_BATCH))
        self._learn(jobs)
        if not jobs and self._learning is not None:
            self._learning.pause()

    def _learn(self, jobs: Iterable[Job]) -> None:
        if self.rows.learn(jobs) and self.is_attached:
            self.choose_columns()

    def _take_results(self, snapshot: Snapshot) -> None:
        self.context.results, self.context.paces = snapshot.results, snapshot.paces
        best = self.context.best
        self.context.best, self.context.behind = snapshot.best, snapshot.behind
        if best != snapshot.best and self.is_attached:
            self.repaint_jobs([job for job in (best, snapshot.best) if job is not None])

    def is_behind(self, job: Job) -> bool:
        return job.id in self.context.behind

    def _value(self, order: str, job: Job) -> float | None:
        """Return the sort key of a job for a metric. Better results have smaller keys."""
        facts = RowFacts(job, self.context)
        if order == METRIC:
            value = facts.main.best if facts.main is not None else None
            up = self.snapshot.metric is not None and self.snapshot.metric.direction is Direction.UP
        else:
            value, second = facts.second, self.context.shape.second
            up = second is not None and direction_of(second) is Direction.UP
        return None if value is None or value != value else -value if up else value

    def update_context(
        self,
        *,
        now: float,
        reasons: Mapping[JobId, Reason] | None = None,
        pids: Mapping[JobId, int] | None = None,
    ) -> None:
        """Update the facts that rows show besides their jobs, and repaint the changed rows. Times change once a
        second.
        """
        if self.rows.pass_time(self.snapshot, now):
            self._rows_moved(len(self.rows))
        context = self.context
        before, pids_before, second = context.reasons, context.pids, int(context.now)
        context.now = now
        context.pids = pids if pids is not None else pids_before
        context.reasons = reasons if reasons is not None else before
        changed = {job for job in before.keys() | context.reasons.keys() if before.get(job) != context.reasons.get(job)}
        # Times from yesterday must include the day.
        if self._take_result_shape() or date.fromtimestamp(now) != self._today:
            self.choose_columns()
        if int(now) != second or context.pids != pids_before:
            changed.update(job.id for job in self.visible_jobs() if isinstance(job.state, Active))
        self.repaint_jobs(changed)

    def repaint_jobs(self, jobs: Iterable[JobId]) -> None:
        """Repaint those rows of the given jobs that are visible."""
        for job in jobs:
            row = self.rows.row_of(job)
            if row is not None:
                self._repaint_row(row)

    def _repaint_row(self, row: int) -> None:
        if self._is_visible(row):
            self.refresh(Region(0, row - self.scroll_offset.y + HEADER, self.size.width, 1))

    # Columns

    @property
    def shows_pids(self) -> bool:
        return any(column.title == "pid" for column in self.current_layout().columns)

    def columns_needed(self) -> int:
        """Return the width needed to show rows completely."""
        return width_needed(self._shape)

    def current_layout(self) -> ColumnLayout:
        if self._layout is None:
            self._layout = layout(self.scrollable_content_region.width, self._shape)
        return self._layout

    def choose_columns(self) -> None:
        """Choose the columns again after jobs were loaded or the width or the metric changed."""
        self._update_shape()
        self._layout = None
        self.refresh()

    def _update_shape(self) -> None:
        snapshot, parameters, before = self.snapshot, self.parameters, self._shape
        slots = (*snapshot.slots, *snapshot.leaving)
        on_cluster = any(slot.kind is DeviceKind.SLURM for slot in slots[:1])
        device_cells = max((len(device) for slot in slots for device in slot.devices), default=1)
        devices = {slot.devices for slot in slots if slot.devices}
        longest_name, priorities = before.longest_name, before.priorities
        longest_place = max(before.places, LEAST_NODE if on_cluster else LEAST_PLACE)
        for job in self.visible_jobs():
            priorities |= job.priority != DEFAULT_PRIORITY
            asked = (device_cells + 1) * (job.request.gpus or 1) - 1
            longest_place = max(longest_place, min(MOST_PLACE, max(asked, len(gpus_of(job)))))
            name = width(job.spec.name or parameters.rest(job) or parameters.of(job))
            if name > longest_name:
                longest_name = -(-name // NAME_STEP) * NAME_STEP
        self._take_result_shape()
        now, columns = self.context.now, parameters.columns()
        self._today = date.fromtimestamp(now)
        several_places = on_cluster or len(devices) > 1 or any(len(gpus) > 1 for gpus in devices)
        self._shape = TableShape(
            highest_id=snapshot.first_id + len(snapshot.jobs),
            parameters=columns,
            names=not columns or not parameters.tells_all(),
            bare_jobs=bool(columns) and parameters.has_bare_jobs(),
            longest_name=longest_name,
            priorities=priorities,
            places=longest_place if several_places else 0,
            results=self.context.shape,
            days=bool(now and snapshot.jobs) and date.fromtimestamp(snapshot.jobs[0].added) != self._today,
            peaks=on_cluster or any(slot.devices for slot in slots),
            pids=not on_cluster,
        )

    def _take_result_shape(self) -> bool:
        """Update the format of results. Return whether this changes the columns."""
        before = self.context.shape
        visible = (self.snapshot.results.get(job.id) for job in self.visible_jobs())
        some_results = next((results for results in visible if results is not None), None)
        self.context.shape = result_shape(self.snapshot, some_results, before)
        return _result_columns(before) != _result_columns(self.context.shape)

    # Scrolling

    def _room(self) -> int:
        return max(0, self.scrollable_content_region.height - HEADER)

    def _resize_rows(self) -> None:
        """Set the number of rows. The layout is computed again only if the scroll bar appears or disappears."""
        self._layout = None
        before, room = self.virtual_size, self.size.height
        size = Size(self.scrollable_content_region.width, len(self.rows) + HEADER)
        if not room or size.width != before.width or (size.height > room) is not (before.height > room):
            self.virtual_size = size
        else:
            self.set_reactive(Widget.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        if self.scroll_offset.y > self._last_top():
            self._scroll_to_row(self._last_top())

    def _last_top(self) -> int:
        """Return the largest number of rows that may be hidden above, so that no row below the last one is blank."""
        return max(0, len(self.rows) - self._room())

    def _scroll_to_row(self, row: int) -> None:
        self._wanted_top = None
        self.scroll_to(y=min(row, self._last_top()), animate=False, immediate=True, force=True)

    def moved_down(self, lines: int) -> None:
        """Scroll to keep rows in place after a banner has moved the pane down, or up if `lines` is negative.

        What is only possible with the new height, which the pane does not have yet, is done in `on_resize`.
        """
        top = max(0, self.scroll_offset.y + lines)
        if self._room() and top != self.scroll_offset.y:
            self._scroll_to_row(top)
            self._wanted_top = top if top > self.scroll_offset.y else None

    def _is_visible(self, row: int) -> bool:
        return self.scroll_offset.y <= row < self.scroll_offset.y + self._room()

    def _scroll_to_cursor(self) -> None:
        top, room = self.scroll_offset.y, max(1, self._room())
        if not top <= self._row < top + room:
            self._scroll_to_row(self._row if self._row < top else self._row - room + 1)

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
        if self._wanted_top is not None:
            self._scroll_to_row(self._wanted_top)
        self._scroll_to_cursor()

    # Tabs, filters and sorting

    def set_view(
        self,
        *,
        tab: Tab | None = None,
        filter: Filter | None = None,
        sort: str | None = None,
        reverse: bool | None = None,
        to_top: bool = False,
    ) -> None:
        """Change the tab, the filter or the order. A long queue is sorted in slices so that keys are handled in
        between. A new view replaces an unfinished one. `to_top` moves the cursor to the first row afterwards.
        """
        rows, jobs = self.rows, self.snapshot.jobs
        rows.tab = tab if tab is not None else rows.tab
        rows.filter = filter if filter is not None else rows.filter
        turned = reverse if reverse is not None else rows.reverse
        self.workers.cancel_group(self, "sort")
        if sort is None or sort == rows.sort:
            rows.reverse = turned
            rows.restrict(self.snapshot)
            self._update_view(to_top=to_top)
            return

        def take(keys: Keys) -> None:
            rows.reverse = turned
            rows.take_order(self.snapshot, sort, keys, jobs)
            self._update_view(to_top=to_top)

        async def sort_in_slices() -> None:
            take(await run_in_slices(rows.compute_keys(self.snapshot, sort)))

        if len(jobs) <= LONG:
            take(rows.keys_for(self.snapshot, sort))
            return
        rows.restrict(self.snapshot)  # the tab and the filter are applied at once
        _: Worker[None] = self.run_worker(sort_in_slices, group="sort")

    def _update_view(self, *, to_top: bool) -> None:
        self._resize_rows()
        self._settle_cursor()
        if to_top:
            self.action_edge(False)
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.ViewChanged())

    def sort_by(self, column: str) -> None:
        """Sort by a column and go to the top. Sorting by the same column again reverses the order."""
        reverse = column != QUEUE_ORDER and self.rows.sort == column and not self.rows.reverse
        self.set_view(sort=column, reverse=reverse, to_top=True)

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

    # Painting

    def render_line(self, y: int) -> Strip:
        if y == 0:
            return self._strip(self.current_layout().header(self.rows.sort, reverse=self.rows.reverse))
        row = self.scroll_offset.y + y - HEADER
        if row >= len(self.rows):
            text = self._empty_text() if row == 0 and not len(self.rows) else ""
            return self._strip([(text, Look.PAST)])
        job_id = self.rows.job_at(row)
        if job_id is None:
            pieces = self.current_layout().fold(self.rows.fold.hidden)
        else:
            mark = (MARK, Look.FOCUS) if job_id in self.marks else blank(1)
            pieces = self.current_layout().line(RowFacts(self.snapshot[job_id], self.context), mark)
        return self._strip(pieces, cursor=row == self._row).apply_offsets(0, row)

    def _strip(self, pieces: Pieces, *, cursor: bool = False) -> Strip:
        palette = palette_of(self.app.theme)

        def style_of(look: Look) -> Style:
            if not cursor:
                return palette[look]
            return palette.on(Ground.CURSOR, look) if self.has_focus else palette[look] + UNFOCUSED

        rest = style_of(Look.TEXT) if self.has_focus else palette.text
        strip = Strip([Segment(text, style_of(look)) for text, look in pieces])
        return strip.adjust_cell_length(self.scrollable_content_region.width, rest)

    def _empty_text(self) -> str:
        if self.rows.filter:
            return " no matches: Esc to show all"
        return (
            " no jobs yet: a: add one, A: add a sweep" if self.rows.tab is Tab.ALL else f" no jobs in {self.rows.tab}"
        )

    # Mouse

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        if not len(self.rows):
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else len(self.rows) - 1
        lines = [""] * first
        for row in range(first, min(last, len(self.rows) - 1) + 1):
            job = self.rows.job_at(row)
            facts = RowFacts(self.snapshot[job], self.context) if job is not None else None
            lines.append(self.current_layout().text(facts) if facts is not None else "")
        return selection.extract("\n".join(lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

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


def _result_columns(shape: ResultShape) -> tuple[object, ...]:
    """Return the values that determine the result columns and their widths."""
    return shape.main_title, shape.second_title, shape.main_number.width, shape.second_number.width


class FilterBar(Input):
    """An input line in place of the footer. It calls one function while the user types and another one at the end."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", show=False)]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(compact=True, id=id, select_on_focus=False)
        self.display = False
        self._typed: Callable[[str], None] = lambda text: None
        self._done: Callable[[str | None], None] = lambda text: None

    def begin(self, text: str, hint: str, typed: Callable[[str], None], done: Callable[[str | None], None]) -> None:
        """Show the line with a text. `done` is called with the final text, or None if the user pressed Escape."""
        self._typed, self._done = typed, done
        self.placeholder = hint
        self.display = True
        with self.prevent(Input.Changed):
            self.value = text
        self.cursor_position = len(text)
        self.focus()

    def _end(self, text: str | None) -> None:
        self.display = False
        self._done(text)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self._typed(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._end(event.value)

    def action_give_up(self) -> None:
        self._end(None)
