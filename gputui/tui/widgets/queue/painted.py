"""The queue's rows on the screen: drawn line by line, so that their cost is what is in sight, never the queue's length.

Knows what to paint and where; what the cursor and the marks mean is for whoever is built on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from gputui.core.job import Active, Job, JobId, StateName, Waiting
from gputui.core.snapshot import Snapshot
from gputui.core.views.naming import Names
from gputui.tui.model.columns import ColumnLayout, Told, layout
from gputui.tui.model.rows import BAD_ENDS, Rows, Tab

HEADER = 1
MARK = "▌"
LEARN_EVERY = 0.1
LEARNT_AT_ONCE = 2_000
"""Jobs whose names are looked at in one go: what is in sight comes first, the rest in the pauses."""


class PaintedRows(ScrollView, can_focus=True):
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "queue--header", "queue--cursor", "queue--cursor-unfocused", "queue--active", "queue--attention",
        "queue--bad", "queue--done", "queue--waiting",
    }  # fmt: skip

    def __init__(self, snapshot: Snapshot, names: Names, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.snapshot = snapshot
        self.told = Told(names)
        self.rows = Rows(names)
        self.marks: set[JobId] = set()
        self._row = 0
        self._layout: ColumnLayout | None = None
        self._has_progress = False
        """Some job told how far it is: the column stays, so that the others do not jump."""
        self._styles: dict[str, Style] = {}
        self._unlearnt: Iterator[Job]
        self._learning: Timer | None = None
        self._begin_anew(snapshot)

    def on_mount(self) -> None:
        self._learning = self.set_interval(LEARN_EVERY, self._learn_on)
        self._resize_rows()

    def visible_jobs(self) -> list[Job]:
        top = self.scroll_offset.y
        last = min(len(self.rows), top + self._room())
        return [self.snapshot[self.rows.job_at(row)] for row in range(top, last)]

    # Names

    def _begin_anew(self, snapshot: Snapshot) -> None:
        self.rows.rebuild(snapshot)
        self._unlearnt = iter(snapshot.jobs)
        self._learn_on()
        if self._learning is not None:
            self._learning.resume()

    def _learn_on(self) -> None:
        """Some more of a long queue's names, until all are known."""
        some = list(islice(self._unlearnt, LEARNT_AT_ONCE))
        self._learn(some)
        if not some and self._learning is not None:
            self._learning.pause()

    def _learn(self, jobs: Iterable[Job]) -> None:
        if self.rows.learn(jobs) and self.is_attached:
            self._layout = None
            self.refresh()

    # What rows say

    def tell(
        self, *, now: float, progress: Mapping[JobId, str] | None = None, whys: Mapping[JobId, str] | None = None
    ) -> None:
        """What rows say besides what their jobs know; only what changed is repainted."""
        told, had_progress = self.told, self._has_progress
        before = {job: (told.whys.get(job), told.progress.get(job)) for job in (*told.whys, *told.progress)}
        told.now = now
        told.progress = progress if progress is not None else told.progress
        told.whys = whys if whys is not None else told.whys
        self._has_progress = had_progress or bool(told.progress)
        if had_progress != self._has_progress:
            self._layout = None
            self.refresh()
        after = {job: (told.whys.get(job), told.progress.get(job)) for job in (*told.whys, *told.progress)}
        changed = {job for job in before.keys() | after.keys() if before.get(job) != after.get(job)}
        self.repaint_jobs([*changed, *(job.id for job in self.visible_jobs() if isinstance(job.state, Active))])

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
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.rows) + HEADER)

    def _in_sight(self, row: int) -> bool:
        return self.scroll_offset.y <= row < self.scroll_offset.y + self._room()

    def _into_sight(self) -> None:
        top, room = self.scroll_offset.y, max(1, self._room())
        if self._row < top:
            self.scroll_to(y=self._row, animate=False, immediate=True)
        elif self._row >= top + room:
            self.scroll_to(y=self._row - room + 1, animate=False, immediate=True)

    def on_resize(self) -> None:
        self._resize_rows()
        self._into_sight()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._layout = None

    def laid_out(self) -> ColumnLayout:
        if self._layout is None:
            names = [len(self.told.names.of(job)) for job in self.visible_jobs()]
            highest = self.snapshot.first_id + len(self.snapshot.jobs)
            width = self.scrollable_content_region.width
            longest = max(names, default=0)
            self._layout = layout(width, self.rows, highest, longest, progress=self._has_progress)
        return self._layout

    # Lines

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if y == 0:
            return self._strip(self.laid_out().header(self.rows), self._style("queue--header"), width)
        row = self.scroll_offset.y + y - HEADER
        if row >= len(self.rows):
            text = self._nothing() if row == 0 and not len(self.rows) else ""
            return self._strip(text, self._style("queue--waiting"), width)
        job = self.snapshot[self.rows.job_at(row)]
        line = self.laid_out().line(job, self.told, MARK if job.id in self.marks else " ")
        return self._strip(line, self._row_style(job, row), width).apply_offsets(0, row)

    def _strip(self, text: str, style: Style, width: int) -> Strip:
        return Strip([Segment(text, style)]).adjust_cell_length(width, style)

    def _nothing(self) -> str:
        if self.rows.filter:
            return " nothing matches: esc shows all"
        return " no jobs yet: a adds one, A a sweep" if self.rows.tab is Tab.ALL else f" no jobs under {self.rows.tab}"

    def _row_style(self, job: Job, row: int) -> Style:
        style = self._style(_component(job))
        if row != self._row:
            return style
        cursor = self._style("queue--cursor" if self.has_focus else "queue--cursor-unfocused")
        return style + Style(
            bgcolor=cursor.bgcolor, bold=cursor.bold, reverse=cursor.reverse, underline=cursor.underline
        )

    def _style(self, component: str) -> Style:
        if component not in self._styles:
            self._styles[component] = self.get_component_rich_style(component)
        return self._styles[component]

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()

    # What the mouse selects

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Read from the rows it went over."""
        if not len(self.rows):
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else len(self.rows) - 1
        lines = [""] * first
        for row in range(first, min(last, len(self.rows) - 1) + 1):
            lines.append(self.laid_out().line(self.snapshot[self.rows.job_at(row)], self.told))
        return selection.extract("\n".join(lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


def _component(job: Job) -> str:
    if job.state.name in BAD_ENDS:
        return "queue--bad"
    if job.state.name in (StateName.SUSPENDED, StateName.STOPPING, StateName.HELD):
        return "queue--attention"
    if isinstance(job.state, Active):
        return "queue--active"
    return "queue--waiting" if isinstance(job.state, Waiting) else "queue--done"
