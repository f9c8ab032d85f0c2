"""The painted rows of the queue's table, and the choice of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import islice

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from gputui.core.job import DEFAULT_PRIORITY, Active, Job, JobId
from gputui.core.results import Direction, direction_of
from gputui.core.slots import DeviceKind, Slot
from gputui.core.snapshot import Snapshot
from gputui.tui.theme import Palette, palette_of
from gputui.views.format import width
from gputui.views.parameters import Parameters
from gputui.views.waiting import Reason

from .columns import LEAST_NAME, ColumnLayout, Piece, TableShape, layout, width_needed
from .row_facts import ResultShape, RowContext, RowFacts, gpus_of, result_shape
from .rows import METRIC, Rows, Tab

LEAST_NODE = 5
"""Width reserved for a place on a cluster, such as `n12:0`, before any job has one."""
MOST_PLACE = 8
NAME_STEP = 4
"""Number of cells in each step by which the column of names grows."""


class ColumnSizes:
    """The sizes needed by the columns. They change only when jobs are loaded, a metric appears, or the day changes, so
    that the table does not flicker while jobs run.
    """

    def __init__(self, table: PaintedRows) -> None:
        self._table = table
        self._longest_name = LEAST_NAME
        self._longest_place = 3
        self._priorities = False
        self._today: date | None = None
        self._results = ResultShape()
        self._shown: TableShape | None = None

    def take_results(self) -> bool:
        """Update the format of results. Return whether this changes the columns."""
        before, table = self._results, self._table
        visible = (table.snapshot.results.get(job.id) for job in table.visible_jobs())
        some_results = next((results for results in visible if results is not None), None)
        table.context.shape = self._results = result_shape(table.snapshot, some_results, before)
        return _result_columns(before) != _result_columns(self._results)

    def is_another_day(self) -> bool:
        """Return whether the day has changed, so that times from yesterday must include the day."""
        return date.fromtimestamp(self._table.context.now) != self._today

    def current(self) -> TableShape:
        return self._shown if self._shown is not None else self.update()

    def update(self) -> TableShape:
        table = self._table
        snapshot, parameters = table.snapshot, table.parameters
        self._measure_visible_jobs()
        self.take_results()
        columns = parameters.columns()
        self._shown = TableShape(
            highest_id=snapshot.first_id + len(snapshot.jobs),
            parameters=columns,
            names=not columns or not parameters.tells_all(),
            bare_jobs=bool(columns) and parameters.has_bare_jobs(),
            longest_name=self._longest_name,
            priorities=self._priorities,
            places=self._places(),
            results=self._results,
            days=self._has_other_days(),
            peaks=self._on_cluster or any(slot.devices for slot in self._slots),
            pids=not self._on_cluster,
        )
        return self._shown

    def _measure_visible_jobs(self) -> None:
        table = self._table
        longest_device = max((len(device) for slot in self._slots for device in slot.devices), default=1)
        for job in table.visible_jobs():
            self._priorities |= job.priority != DEFAULT_PRIORITY
            asked = (longest_device + 1) * (job.request.gpus or 1) - 1
            self._longest_place = max(self._longest_place, min(MOST_PLACE, max(asked, len(gpus_of(job)))))
            longest = width(job.spec.name or table.parameters.rest(job) or table.parameters.of(job))
            if longest > self._longest_name:
                self._longest_name = -(-longest // NAME_STEP) * NAME_STEP

    def _has_other_days(self) -> bool:
        jobs, now = self._table.snapshot.jobs, self._table.context.now
        if not now:
            return False  # not set before the first update
        self._today = date.fromtimestamp(now)
        return bool(len(jobs)) and date.fromtimestamp(jobs[0].added) != self._today

    @property
    def _slots(self) -> tuple[Slot, ...]:
        return (*self._table.snapshot.slots, *self._table.snapshot.leaving)

    @property
    def _on_cluster(self) -> bool:
        return any(slot.kind is DeviceKind.SLURM for slot in self._slots[:1])

    def _places(self) -> int:
        """Return the width of the column of GPUs, or 0 if there is at most one GPU."""
        slots = self._slots
        if self._on_cluster:
            return max(LEAST_NODE, self._longest_place)
        devices = {slot.devices for slot in slots if slot.devices}
        return self._longest_place if len(devices) > 1 or any(len(gpus) > 1 for gpus in devices) else 0


def _result_columns(shape: ResultShape) -> tuple[object, ...]:
    """Return the values that determine the result columns and their widths."""
    return shape.main_title, shape.second_title, shape.main_number.width, shape.second_number.width


HEADER = 1
MARK = "▌"
LEARN_EVERY = 0.05
LEARN_BATCH = 500
"""Number of jobs whose parameters are read in one batch. It is limited so that the screen is not blocked."""


class PaintedRows(ScrollView, can_focus=True):
    def __init__(self, snapshot: Snapshot, parameters: Parameters, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.snapshot = snapshot
        self.parameters = parameters
        self.context = RowContext(parameters)
        self.rows = Rows(parameters)
        self.marks: set[JobId] = set()
        self._row = 0
        self._pad = 0
        """Number of empty rows at the end, so that a short queue can be scrolled as well."""
        self._layout: ColumnLayout | None = None
        self._sizes = ColumnSizes(self)
        self._unlearnt: Iterator[Job]
        self._learning: Timer | None = None
        self.rows.values = self._value
        self._rebuild(snapshot)

    def on_mount(self) -> None:
        self._learning = self.set_interval(LEARN_EVERY, self._learn_more)
        self._resize_rows()

    def visible_jobs(self) -> list[Job]:
        top = self.scroll_offset.y
        last = min(len(self.rows), top + self._room())
        job_ids = (self.rows.job_at(row) for row in range(top, last))
        return [self.snapshot[job] for job in job_ids if job is not None]

    # Data

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
        self.context.best = snapshot.best
        if best != snapshot.best and self.is_attached:
            self.repaint_jobs([job for job in (best, snapshot.best) if job is not None])

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
        self._pass_time(now)
        context = self.context
        before, pids_before, second = context.reasons, context.pids, int(context.now)
        context.now = now
        context.pids = pids if pids is not None else pids_before
        context.reasons = reasons if reasons is not None else before
        changed = {job for job in before.keys() | context.reasons.keys() if before.get(job) != context.reasons.get(job)}
        if self._sizes.take_results() or self._sizes.is_another_day():
            self.choose_columns()
        if int(now) != second or context.pids != pids_before:
            changed.update(job.id for job in self.visible_jobs() if isinstance(job.state, Active))
        self.repaint_jobs(changed)

    def _pass_time(self, now: float) -> None:
        """React to the new current time, which may be a sort key. Subclasses can override this."""

    @property
    def shows_pids(self) -> bool:
        return any(column.title == "pid" for column in self.current_layout().columns)

    def repaint_jobs(self, jobs: Iterable[JobId]) -> None:
        """Repaint those rows of the given jobs that are visible."""
        for job in jobs:
            row = self.rows.row_of(job)
            if row is not None:
                self._repaint_row(row)

    def _repaint_row(self, row: int) -> None:
        if self._is_visible(row):
            self.refresh(Region(0, row - self.scroll_offset.y + HEADER, self.size.width, 1))

    # Scrolling

    def _room(self) -> int:
        return max(0, self.scrollable_content_region.height - HEADER)

    def _resize_rows(self) -> None:
        self._layout = None
        top = self.scroll_offset.y
        self._pad = min(self._pad, max(0, top + self._room() - len(self.rows))) if top else 0
        self._set_height()

    def _set_height(self) -> None:
        """Set the number of rows. The layout is computed again only if the scroll bar appears or disappears."""
        before, room = self.virtual_size, self.size.height
        size = Size(self.scrollable_content_region.width, len(self.rows) + HEADER + self._pad)
        if not room or size.width != before.width or (size.height > room) is not (before.height > room):
            self.virtual_size = size
            return
        self.set_reactive(Widget.virtual_size, size)
        self.vertical_scrollbar.window_virtual_size = size.height
        if self.scroll_y > self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)

    def moved_down(self, lines: int) -> None:
        """Scroll to keep rows in place after a banner has moved the pane down, or up if `lines` is negative."""
        top = max(0, self.scroll_offset.y + lines)
        if self._room() and top != self.scroll_offset.y:
            self._pad = max(0, top + self._room() - len(self.rows)) if top else 0
            self._set_height()
            self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def _is_visible(self, row: int) -> bool:
        return self.scroll_offset.y <= row < self.scroll_offset.y + self._room()

    def _scroll_to_cursor(self) -> None:
        top, room = self.scroll_offset.y, max(1, self._room())
        if self._row < top:
            self.scroll_to(y=self._row, animate=False, immediate=True)
        elif self._row >= top + room:
            self.scroll_to(y=self._row - room + 1, animate=False, immediate=True)

    # Columns

    def columns_needed(self) -> int:
        """Return the width needed to show rows completely."""
        return width_needed(self._sizes.current())

    def current_layout(self) -> ColumnLayout:
        if self._layout is None:
            self._layout = layout(self.scrollable_content_region.width, self._sizes.current())
        return self._layout

    def choose_columns(self) -> None:
        """Choose the columns again after jobs were loaded or the width or the metric changed."""
        self._sizes.update()
        self._layout = None
        self.refresh()

    # Painting

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self.app.theme), self.scrollable_content_region.width
        if y == 0:
            pieces = self.current_layout().header(self.rows.sort, reverse=self.rows.reverse)
            return self._strip(pieces, palette, width, cursor=False)
        row = self.scroll_offset.y + y - HEADER
        if row >= len(self.rows):
            text = self._empty_text() if row == 0 and not len(self.rows) else ""
            return self._strip([(text, "past")], palette, width, cursor=False)
        job_id = self.rows.job_at(row)
        if job_id is None:
            pieces = self.current_layout().fold(self.rows.fold.hidden)
        else:
            mark = (MARK, "focus") if job_id in self.marks else (" ", "text")
            pieces = self.current_layout().line(RowFacts(self.snapshot[job_id], self.context), mark)
        return self._strip(pieces, palette, width, cursor=row == self._row).apply_offsets(0, row)

    def _strip(self, pieces: list[Piece], palette: Palette, width: int, *, cursor: bool) -> Strip:
        segments = []
        for text, look in pieces:
            style = palette.text + _SORTED if look == "sorted" else getattr(palette, look)
            if cursor:
                style = palette.on_cursor(style) if self.has_focus else style + _UNFOCUSED
            segments.append(Segment(text, style))
        rest = palette.on_cursor(palette.text) if cursor and self.has_focus else palette.text
        return Strip(segments).adjust_cell_length(width, rest)

    def _empty_text(self) -> str:
        if self.rows.filter:
            return " no matches: Esc to show all"
        return (
            " no jobs yet: a: add one, A: add a sweep" if self.rows.tab is Tab.ALL else f" no jobs in {self.rows.tab}"
        )

    # Selection with the mouse

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        if not len(self.rows):
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else len(self.rows) - 1
        lines = [""] * first
        for row in range(first, min(last, len(self.rows) - 1) + 1):
            job = self.rows.job_at(row)
            lines.append(
                self.current_layout().text(RowFacts(self.snapshot[job], self.context)) if job is not None else ""
            )
        return selection.extract("\n".join(lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


_SORTED = Style(bold=True, underline=True)
_UNFOCUSED = Style(bold=True, underline=True)
"""The style of the row under the cursor while another pane has the focus."""
