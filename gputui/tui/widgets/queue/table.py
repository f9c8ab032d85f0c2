"""The queue, drawn line by line from the newest snapshot; its cost is the visible rows, never the queue's length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from gputui.core.events import Seen
from gputui.core.job import Active, Ended, Job, JobId, StateName, Waiting
from gputui.core.naming import Names
from gputui.core.snapshot import Snapshot
from gputui.tui.model.columns import Layout, Told, layout
from gputui.tui.model.filtering import Filter
from gputui.tui.model.rows import BAD_ENDS, QUEUE_ORDER, Rows, Tab

HEADER = 1
MARK = "▌"
MANY = 2_000
"""With more jobs changed at once, all rows anew cost less than each for itself."""
LEARN_EVERY = 0.1
LEARNT_AT_ONCE = 2_000
"""Jobs whose names are looked at in one go: what is in sight comes first, the rest in the pauses."""


def hidden(action: str, *keys: str) -> list[BindingType]:
    return [Binding(",".join(keys), action, show=False)]


class QueueTable(ScrollView, can_focus=True):
    """Keeps its cursor on the job, whatever happens to the rows around it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "queue--header", "queue--cursor", "queue--cursor-unfocused", "queue--active", "queue--attention",
        "queue--bad", "queue--done", "queue--waiting",
    }  # fmt: skip
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

    class Opened(Message):
        """A job was chosen, by a double click."""

    class ViewChanged(Message):
        """Tab, filter, order, marks or the number of rows."""

    def __init__(self, snapshot: Snapshot, names: Names, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.snapshot = snapshot
        self.told = Told(names)
        self.rows = Rows(names)
        self._unlearnt: Iterator[Job]
        self._learning: Timer | None = None
        self._begin_anew(snapshot)
        self.marks: set[JobId] = set()
        self._row = 0
        self._job: JobId | None = None
        self._range_from: JobId | None = None
        self._layout: Layout | None = None
        self._styles: dict[str, Style] = {}

    def on_mount(self) -> None:
        self._learning = self.set_interval(LEARN_EVERY, self._learn_on)
        self._resize_rows()
        self._settle_cursor()

    # What others ask

    @property
    def cursor(self) -> JobId | None:
        return self._job

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

    def visible_jobs(self) -> list[Job]:
        top = self.scroll_offset.y
        last = min(len(self.rows), top + self._room())
        return [self.snapshot[self.rows.job_at(row)] for row in range(top, last)]

    # What changes it

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

    def _begin_anew(self, snapshot: Snapshot) -> None:
        self.rows.rebuild(snapshot)
        self._unlearnt = iter(snapshot.jobs)
        self._learn_on()
        if self._learning is not None:
            self._learning.resume()

    def show(self, snapshot: Snapshot, changed: Iterable[JobId]) -> None:
        """Takes the newest snapshot; `changed` are the jobs that differ from the one before."""
        before, count = self.snapshot, len(self.rows)
        self.snapshot = snapshot
        changed = [job for job in changed if job in snapshot]
        if snapshot.first_id != before.first_id or len(changed) > MANY:
            self._begin_anew(snapshot)
            moved = True
        else:
            self._learn(snapshot[job] for job in changed)
            moved = self.rows.update(snapshot, changed)
        self.marks = {job for job in self.marks if job in snapshot and not snapshot[job].archived}
        if moved:
            self._rows_moved(count)
        else:
            self.repaint_jobs(changed)

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

    def repaint_jobs(self, jobs: Iterable[JobId]) -> None:
        """Only the rows of these jobs, where they are in sight."""
        top = self.scroll_offset.y
        for job in jobs:
            row = self.rows.row_of(job)
            if row is not None and top <= row < top + self._room():
                self._repaint_row(row)

    def tell(
        self, *, now: float, progress: Mapping[JobId, str] | None = None, whys: Mapping[JobId, str] | None = None
    ) -> None:
        """What rows say besides what their jobs know; only what changed is repainted."""
        before, told = Told(self.told.names, self.told.whys, self.told.progress), self.told
        told.now = now
        told.progress = progress if progress is not None else told.progress
        told.whys = whys if whys is not None else told.whys
        if bool(before.progress) != bool(told.progress):
            self._layout = None
            self.refresh()
        jobs = {*before.whys, *told.whys, *before.progress, *told.progress}
        changed = (
            job
            for job in jobs
            if (before.whys.get(job), before.progress.get(job)) != (told.whys.get(job), told.progress.get(job))
        )
        self.repaint_jobs([*changed, *(job.id for job in self.visible_jobs() if isinstance(job.state, Active))])

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
        rows.reverse = reverse if reverse is not None else rows.reverse
        if sort is not None and sort != rows.sort:
            rows.sort = sort
            rows.rebuild(self.snapshot)
        else:
            rows.restrict(self.snapshot)
        self._resize_rows()
        self._settle_cursor()
        self._into_sight()
        self.refresh()
        self.post_message(self.ViewChanged())

    def sort_by(self, column: str) -> None:
        """The same again turns it round, a third time goes back to the queue's own order."""
        rows = self.rows
        if rows.sort != column:
            self.set_view(sort=column, reverse=False)
        elif not rows.reverse:
            self.set_view(reverse=True)
        else:
            self.set_view(sort=QUEUE_ORDER, reverse=False)

    def sortable(self) -> list[str]:
        shown = self._laid_out().columns
        return [column.sort for column in shown if column.sort is not None]

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
        self.marks |= {self.rows.job_at(row) for row in range(first, last + 1)}
        self._marks_changed()

    def _marks_changed(self) -> None:
        self.refresh()
        self.post_message(self.ViewChanged())

    # The cursor

    def move_to(self, job: JobId) -> bool:
        """False: it is not in this view."""
        row = self.rows.row_of(job)
        if row is not None:
            self._go(row)
        return row is not None

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
        if self.rows.pin(job, self.snapshot):  # the row the cursor left went where it belongs
            self._row = self.rows.row_of(job) or 0
            self.refresh()
        self._repaint_row(before)
        self._repaint_row(self._row)
        self._set_job(job)
        self._into_sight()
        self._mark_range()

    def _settle_cursor(self) -> None:
        """After the rows changed: on the same job, or where it was if that has left the view."""
        row = self.rows.row_of(self._job) if self._job is not None else None
        self._row = row if row is not None else max(0, min(self._row, len(self.rows) - 1))
        job = self.rows.job_at(self._row) if len(self.rows) else None
        self.rows.pin(job, self.snapshot)
        self._set_job(job)

    def _set_job(self, job: JobId | None) -> None:
        if job != self._job:
            self._job = job
            self.post_message(self.Highlighted(job))

    def _into_sight(self) -> None:
        top, room = self.scroll_offset.y, max(1, self._room())
        if self._row < top:
            self.scroll_to(y=self._row, animate=False, immediate=True)
        elif self._row >= top + room:
            self.scroll_to(y=self._row - room + 1, animate=False, immediate=True)

    # Painting

    def _room(self) -> int:
        return max(0, self.scrollable_content_region.height - HEADER)

    def _resize_rows(self) -> None:
        self._layout = None
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.rows) + HEADER)

    def on_resize(self) -> None:
        self._resize_rows()
        self._into_sight()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._layout = None

    def _repaint_row(self, row: int) -> None:
        top = self.scroll_offset.y
        if top <= row < top + self._room():
            self.refresh(Region(0, row - top + HEADER, self.size.width, 1))

    def _laid_out(self) -> Layout:
        if self._layout is None:
            names = [len(self.told.names.of(job)) for job in self.visible_jobs()]
            highest = self.snapshot.first_id + len(self.snapshot.jobs)
            width = self.scrollable_content_region.width
            progress = bool(self.told.progress)
            self._layout = layout(width, self.rows, highest, max(names, default=0), progress=progress)
        return self._layout

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if y == 0:
            return self._strip(self._laid_out().header(self.rows), self._style("queue--header"), width)
        row = self.scroll_offset.y + y - HEADER
        if row >= len(self.rows):
            text = self._nothing() if row == 0 and not len(self.rows) else ""
            return self._strip(text, self._style("queue--waiting"), width)
        job = self.snapshot[self.rows.job_at(row)]
        mark = MARK if job.id in self.marks else " "
        line = self._laid_out().line(job, self.told, mark)
        return self._strip(line, self._row_style(job, row), width).apply_offsets(0, row)

    def _strip(self, text: str, style: Style, width: int) -> Strip:
        return Strip([Segment(text, style)]).adjust_cell_length(width, style)

    def _nothing(self) -> str:
        if self.rows.filter:
            return f" nothing matches {self.rows.filter.written!r}: esc shows all"
        if self.rows.tab is Tab.ALL:
            return " no jobs yet: a adds one, A a sweep"
        return f" no jobs under {self.rows.tab}"

    def _row_style(self, job: Job, row: int) -> Style:
        style = self._style(_component(job))
        if row != self._row:
            return style
        cursor = self._style("queue--cursor" if self.has_focus else "queue--cursor-unfocused")
        return style + Style(bgcolor=cursor.bgcolor, bold=cursor.bold, reverse=cursor.reverse)

    def _style(self, component: str) -> Style:
        if component not in self._styles:
            self._styles[component] = self.get_component_rich_style(component)
        return self._styles[component]

    # Mouse

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0:
            column = self._laid_out().column_at(offset.x)
            if column is not None and column.sort is not None:
                self.sort_by(column.sort)
            return
        row = self.scroll_offset.y + offset.y - HEADER
        if row < len(self.rows):
            self._go(row)
            if event.chain == 2:
                self.post_message(self.Opened())

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """What the mouse selected, read from the rows it went over."""
        if not len(self.rows):
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else len(self.rows) - 1
        lines = [""] * first
        for row in range(first, min(last, len(self.rows) - 1) + 1):
            lines.append(self._laid_out().line(self.snapshot[self.rows.job_at(row)], self.told))
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
    return "queue--waiting" if isinstance(job.state, Waiting) else "queue--done" if isinstance(job.state, Ended) else ""
