"""The queue's rows on the screen, and the width of their columns."""

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

from gputui.core.job import DEFAULT_PRIORITY, Active, Job, JobId
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.parameter_columns import Parameters
from gputui.core.results import Direction, JobResults, direction_of
from gputui.core.snapshot import Snapshot
from gputui.tui.theme import Palette, palette_of
from gputui.views.format import width

from .columns import LEAST_NAME, ColumnLayout, Piece, TableShape, layout, pid, width_needed
from .row_facts import ResultShape, RowFacts, Told, gpus_of, result_shape
from .rows import METRIC, Rows, Tab

# ---- What the queue's columns must have room for ----


LEAST_NODE = 5
"""Cells of a place on a cluster, `n12:0`; it has them before any job has a place."""
MOST_PLACE = 8
NAME_STEP = 4
"""Cells by which names get wider at a time."""


class ShapeMemory:
    """Which columns the queue has. They stay while jobs run, and change when jobs are loaded, the pane gets another
    width, a metric appears, or a day begins."""

    def __init__(self, table: PaintedRows) -> None:
        self._table = table
        self._longest_name = LEAST_NAME
        self._longest_place = 3
        self._priorities = False
        self._today: date | None = None
        self._results = ResultShape()
        self._shown: TableShape | None = None

    def take_results(self) -> bool:
        """How values are written now; True if that takes other columns."""
        before = self._results
        self._table.told.shape = self._results = result_shape(self._table.snapshot, self._seen(), before)
        return _result_columns(before) != _result_columns(self._results)

    def is_another_day(self) -> bool:
        """Times of yesterday are told with their day, and need more room."""
        return date.fromtimestamp(self._table.told.now) != self._today

    def now(self) -> TableShape:
        return self._shown if self._shown is not None else self.grow()

    def grow(self) -> TableShape:
        table = self._table
        snapshot, parameters = table.snapshot, table.parameters
        self._look_at_visible()
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
            days=self._began_another_day(),
            peaks=self._on_cluster or any(lane.devices for lane in self._lanes),
            pids=not self._on_cluster,
        )
        return self._shown

    def _look_at_visible(self) -> None:
        table = self._table
        longest_device = max((len(device) for lane in self._lanes for device in lane.devices), default=1)
        for job in table.visible_jobs():
            self._priorities |= job.priority != DEFAULT_PRIORITY
            asked = (longest_device + 1) * (job.request.gpus or 1) - 1
            self._longest_place = max(self._longest_place, min(MOST_PLACE, max(asked, len(gpus_of(job)))))
            longest = width(job.spec.name or table.parameters.rest(job) or table.parameters.of(job))
            if longest > self._longest_name:
                self._longest_name = -(-longest // NAME_STEP) * NAME_STEP

    def _began_another_day(self) -> bool:
        jobs, now = self._table.snapshot.jobs, self._table.told.now
        if not now:
            return False  # nobody has told the time yet
        self._today = date.fromtimestamp(now)
        return bool(len(jobs)) and date.fromtimestamp(jobs[0].added) != self._today

    @property
    def _lanes(self) -> tuple[Lane, ...]:
        return (*self._table.snapshot.lanes, *self._table.snapshot.leaving)

    @property
    def _on_cluster(self) -> bool:
        return any(lane.kind is DeviceKind.SLURM for lane in self._lanes[:1])

    def _places(self) -> int:
        """Where all jobs run on the one device there is, or on none, nobody needs to be told where."""
        lanes = self._lanes
        if self._on_cluster:
            return max(LEAST_NODE, self._longest_place)
        devices = {lane.devices for lane in lanes if lane.devices}
        return self._longest_place if len(devices) > 1 or any(len(each) > 1 for each in devices) else 0

    def _seen(self) -> JobResults | None:
        results = self._table.snapshot.results
        results_in_sight = (results.get(job.id) for job in self._table.visible_jobs())
        return next((each for each in results_in_sight if each is not None), None)


def _result_columns(shape: ResultShape) -> tuple[object, ...]:
    """What of it decides about columns and their widths."""
    return shape.main_title, shape.second_title, shape.main_number.width, shape.second_number.width


# ---- The queue's rows on the screen ----


HEADER = 1
MARK = "▌"
LEARN_EVERY = 0.05
LEARNT_AT_ONCE = 500
"""Jobs whose parameters are looked at in one go: what is in sight comes first, the rest in the pauses."""


class PaintedRows(ScrollView, can_focus=True):
    def __init__(self, snapshot: Snapshot, parameters: Parameters, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.snapshot = snapshot
        self.parameters = parameters
        self.told = Told(parameters)
        self.rows = Rows(parameters)
        self.marks: set[JobId] = set()
        self._row = 0
        self._pad = 0
        """Empty rows at the end, so that a short queue can be scrolled too."""
        self._layout: ColumnLayout | None = None
        self._shape = ShapeMemory(self)
        self._unlearnt: Iterator[Job]
        self._learning: Timer | None = None
        self.rows.values = self._value
        self._begin_anew(snapshot)

    def on_mount(self) -> None:
        self._learning = self.set_interval(LEARN_EVERY, self._learn_on)
        self._resize_rows()

    def visible_jobs(self) -> list[Job]:
        top = self.scroll_offset.y
        last = min(len(self.rows), top + self._room())
        job_ids = (self.rows.job_at(row) for row in range(top, last))
        return [self.snapshot[job] for job in job_ids if job is not None]

    # What tells jobs apart

    def _begin_anew(self, snapshot: Snapshot) -> None:
        self._take_results(snapshot)
        self.rows.rebuild(snapshot)
        self._unlearnt = iter(snapshot.jobs)
        self._learn_on()
        if self._learning is not None:
            self._learning.resume()

    def _learn_on(self) -> None:
        """Some more of a long queue, until all are known."""
        some = list(islice(self._unlearnt, LEARNT_AT_ONCE))
        self._learn(some)
        if not some and self._learning is not None:
            self._learning.pause()

    def _learn(self, jobs: Iterable[Job]) -> None:
        if self.rows.learn(jobs) and self.is_attached:
            self.choose_columns()

    def _take_results(self, snapshot: Snapshot) -> None:
        """What rows are told of the session besides the jobs."""
        self.told.results, self.told.paces = snapshot.results, snapshot.paces
        best = self.told.best
        self.told.best = snapshot.best
        if best != snapshot.best and self.is_attached:
            self.repaint_jobs([job for job in (best, snapshot.best) if job is not None])

    def _value(self, order: str, job: Job) -> float | None:
        """By which jobs are sorted where the order is a metric's: the better the smaller."""
        facts = RowFacts(job, self.told)
        if order == METRIC:
            value = facts.main.best if facts.main is not None else None
            up = self.snapshot.metric is not None and self.snapshot.metric.direction is Direction.UP
        else:
            value, second = facts.second, self.told.shape.second
            up = second is not None and direction_of(second) is Direction.UP
        return None if value is None or value != value else -value if up else value

    # What rows say

    def tell(
        self,
        *,
        now: float,
        whys: Mapping[JobId, str] | None = None,
        pids: Mapping[JobId, int] | None = None,
    ) -> None:
        """What rows say besides what their jobs know; only what changed is repainted."""
        self._pass_time(now)
        row_words = self.told
        before = row_words.whys
        row_words.now = now
        row_words.pids = pids if pids is not None else row_words.pids
        row_words.whys = whys if whys is not None else row_words.whys
        changed = {job for job in before.keys() | row_words.whys.keys() if before.get(job) != row_words.whys.get(job)}
        if self._shape.take_results() or self._shape.is_another_day():
            self.choose_columns()
        self.repaint_jobs([*changed, *(job.id for job in self.visible_jobs() if isinstance(job.state, Active))])

    def _pass_time(self, now: float) -> None:
        """For whoever sorts by it."""

    @property
    def shows_pids(self) -> bool:
        return any(column.text is pid for column in self.laid_out().columns)

    def repaint_jobs(self, jobs: Iterable[JobId]) -> None:
        """Only the rows of these jobs, where they are in sight."""
        for job in jobs:
            row = self.rows.row_of(job)
            if row is not None:
                self._repaint_row(row)

    def _repaint_row(self, row: int) -> None:
        if self._in_sight(row):
            self.refresh(Region(0, row - self.scroll_offset.y + HEADER, self.size.width, 1))

    # Where rows are

    def _room(self) -> int:
        return max(0, self.scrollable_content_region.height - HEADER)

    def _resize_rows(self) -> None:
        self._layout = None
        top = self.scroll_offset.y
        self._pad = min(self._pad, max(0, top + self._room() - len(self.rows))) if top else 0
        self._take_height()

    def _take_height(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.rows) + HEADER + self._pad)

    def moved_down(self, lines: int) -> None:
        """The pane did, or up, as when a banner comes or goes: what stands in it stays where it was on the screen."""
        top = max(0, self.scroll_offset.y + lines)
        if self._room() and top != self.scroll_offset.y:
            self._pad = max(0, top + self._room() - len(self.rows)) if top else 0
            self._take_height()
            self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def _in_sight(self, row: int) -> bool:
        return self.scroll_offset.y <= row < self.scroll_offset.y + self._room()

    def _into_sight(self) -> None:
        top, room = self.scroll_offset.y, max(1, self._room())
        if self._row < top:
            self.scroll_to(y=self._row, animate=False, immediate=True)
        elif self._row >= top + room:
            self.scroll_to(y=self._row - room + 1, animate=False, immediate=True)

    # Columns

    def columns_needed(self) -> int:
        """With which nothing of a row is left out."""
        return width_needed(self._shape.now())

    def laid_out(self) -> ColumnLayout:
        if self._layout is None:
            self._layout = layout(self.scrollable_content_region.width, self._shape.now())
        return self._layout

    def choose_columns(self) -> None:
        """After jobs were loaded, the width changed, or there is another metric."""
        self._shape.grow()
        self._layout = None
        self.refresh()

    # Lines

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self.app.theme), self.scrollable_content_region.width
        if y == 0:
            pieces = self.laid_out().header(self.rows.sort, reverse=self.rows.reverse)
            return self._strip(pieces, palette, width, cursor=False)
        row = self.scroll_offset.y + y - HEADER
        if row >= len(self.rows):
            text = self._nothing() if row == 0 and not len(self.rows) else ""
            return self._strip([(text, "past")], palette, width, cursor=False)
        job_id = self.rows.job_at(row)
        if job_id is None:
            pieces = self.laid_out().fold(self.rows.fold.hidden)
        else:
            mark = (MARK, "focus") if job_id in self.marks else (" ", "text")
            pieces = self.laid_out().line(RowFacts(self.snapshot[job_id], self.told), mark)
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

    def _nothing(self) -> str:
        if self.rows.filter:
            return " nothing matches: esc shows all"
        return " no jobs yet: a adds one, A a sweep" if self.rows.tab is Tab.ALL else f" no jobs under {self.rows.tab}"

    # What the mouse selects

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Read from the rows it went over."""
        if not len(self.rows):
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else len(self.rows) - 1
        lines = [""] * first
        for row in range(first, min(last, len(self.rows) - 1) + 1):
            job = self.rows.job_at(row)
            lines.append(self.laid_out().text(RowFacts(self.snapshot[job], self.told)) if job is not None else "")
        return selection.extract("\n".join(lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


_SORTED = Style(bold=True, underline=True)
_UNFOCUSED = Style(bold=True, underline=True)
"""Where the cursor is while the keys go elsewhere."""
