"""`F`: the failed jobs by how they failed, and the keys that mend a whole kind at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from gputui.core.job import Job, JobId
from gputui.core.views.amounts import counted
from gputui.core.views.failures import FailureGroup, said_of
from gputui.logs.crashes.excerpts import Excerpt, excerpt
from gputui.logs.plain import plain
from gputui.tui.actions.table import view_bindings
from gputui.tui.looks.palette import Palette, palette_of
from gputui.tui.screens.view import ALWAYS, FullView
from gputui.tui.widgets.footer import Offer, OfferedKeys
from gputui.tui.widgets.view_rows import ViewRow, ViewRows

from .crash_rows import beyond_the_log, crash_rows, excerpt_title, strip_row
from .failure_reading import FailureReading
from .group_rows import band_facts, group_rows
from .job_rows import FailedTable, job_table
from .kind_outlook import KindOutlook

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

NARROW = 100
AIRY = 30
"""Rows of the screen from which groups have a blank line between them."""
WIDEST_TABLE = 56
LISTED = 200
"""Jobs of a kind before and after those around the cursor that are rows."""
OTHER_ROWS = 4
"""Header, band, strip and footer."""
LEAST_LISTED = 4
"""Rows that the jobs and their heads must have, to be shown above what one of them printed."""


class FailuresView(FullView):
    """The cursor is on a kind, or, after tab, on one of its jobs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *view_bindings("failures", "details", "copy_command", "copy_path", "pause", "rerun_failed"),
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("g,home", "move(-1000000)", show=False),
        Binding("G,end", "move(1000000)", show=False),
        Binding("ctrl+d,pagedown", "scroll(1)", show=False),
        Binding("ctrl+u,pageup", "scroll(-1)", show=False),
    ]
    DEFAULT_CSS = """
    FailuresView .strip { height: 1; }
    FailuresView #kinds { height: 4; }
    FailuresView #lower { height: 1fr; }
    FailuresView #left { width: 46; height: 1fr; }
    FailuresView #between { width: 2; height: 1fr; }
    FailuresView #jobs, FailuresView #crash { height: 1fr; width: 1fr; }
    """

    def __init__(self, main: MainScreen) -> None:
        super().__init__(main, "F", "Failures")
        self._reading = FailureReading(main.snapshot)
        self._outlook = KindOutlook()
        self.groups: list[FailureGroup] = []
        self._signature = ""
        """The kind that the cursor is on; it stays on it when others come before it."""
        self.job: JobId | None = None
        self.marked: set[JobId] = set()
        self.on_jobs = False
        self._excerpts: dict[tuple[JobId, int], Excerpt] = {}
        self.kinds = ViewRows(id="kinds")
        self.strip = ViewRows(classes="strip")
        self.head = ViewRows(classes="strip")
        self.jobs = ViewRows(id="jobs")
        self.crash = ViewRows(id="crash")
        self.lower = Horizontal(id="lower")
        self._left = Vertical(id="left")
        self._between = ViewRows(id="between")

    def body(self) -> ComposeResult:
        yield self.kinds
        yield self.strip
        with self.lower:
            with self._left:
                yield self.head
                yield self.jobs
            yield self._between
            yield self.crash

    def on_mount(self) -> None:
        super().on_mount()
        self._read_on()

    def _read_on(self) -> None:
        """With keys answered in between."""
        if self._reading.read_on():
            self.paint()
        else:
            self.set_timer(0.001, self._read_on)

    # What is shown

    def renew(self) -> None:
        palette = palette_of(self.app.theme)
        if not self._reading.is_done:
            self.band.show([(f"   reading {counted(len(self.snapshot.jobs), 'job', 'jobs')}", palette.past)])
            return
        self.groups = self._reading.groups(self.snapshot, self.main.names)
        self._settle()
        self.band.show(band_facts(self.groups, palette))
        self._show_groups(palette)
        self._show_lower(palette)

    def _settle(self) -> None:
        """The cursor stays on its kind and its job; when they are gone, on the first."""
        group = self.group
        if group is None:
            self.job, self.marked = None, set()
            return
        self._signature = group.signature
        if self.job not in group.jobs:
            self.job = group.jobs[0]
        if self.marked:
            self.marked &= set(group.jobs)

    @property
    def group(self) -> FailureGroup | None:
        matching = (group for group in self.groups if group.signature == self._signature)
        return next(matching, self.groups[0] if self.groups else None)

    @property
    def _narrow(self) -> bool:
        return self.size.width < NARROW

    def _show_groups(self, palette: Palette) -> None:
        airy = self.size.height >= AIRY
        now, group = self.main.now(), self.group
        selected = self.groups.index(group) if group is not None else 0
        rows, cursor_rows = group_rows(self.groups, selected, now, palette, airy=airy, focused=not self.on_jobs)
        room = max(4, (self.size.height - 4) * 2 // 5)
        self.kinds.styles.height = max(1, min(len(rows), room))
        self.kinds.show(rows, cursor_rows)

    def _show_lower(self, palette: Palette) -> None:
        group = self.group
        if group is None or self.job is None:
            for rows in (self.strip, self.head, self.jobs, self.crash, self._between):
                rows.show([])
            return
        cursor = group.jobs.index(self.job)
        first = max(0, cursor // LISTED - 1) * LISTED
        jobs = [self.snapshot[job] for job in group.jobs[first : first + 3 * LISTED]]
        room = self.size.width if self._narrow else min(WIDEST_TABLE, self.size.width // 2)
        table = job_table(jobs, self.main.names, self.main.names.of, room, len(self.snapshot.jobs))
        crash_height = self._show_crash(group, self.snapshot[self.job], table, palette)
        self._lay_out(table, crash_height, 1 + len(jobs))
        self.head.show([table.head(palette)])
        listed = table.rows(jobs, self.job, self.marked, palette, focused=True)
        self.jobs.show(listed, (cursor - first, cursor - first))
        self._between.show([ViewRow([("│", palette.line)])] * self.size.height)

    def _lay_out(self, table: FailedTable, crash_height: int, listed: int) -> None:
        """Side by side; on a narrow screen one below the other if both have room, else the one that keys go to."""
        narrow = self._narrow
        kinds = self.kinds.styles.height
        spare = self.size.height - OTHER_ROWS - int(kinds.value if kinds is not None else 1) - crash_height
        both = not narrow or spare >= min(LEAST_LISTED, listed)
        self._left.display = both or self.on_jobs
        self.crash.display = both or not self.on_jobs
        self._between.display = not narrow
        self.lower.styles.layout = "vertical" if narrow else "horizontal"
        self._left.styles.width = "1fr" if narrow else table.width
        self._left.styles.height = min(spare, listed) if narrow and both else "1fr"

    def _show_crash(self, group: FailureGroup, job: Job, table: FailedTable, palette: Palette) -> int:
        """How many rows it has."""
        crash = self._excerpt(job)
        beyond = beyond_the_log(job, self.snapshot, self.main.bridge.picture, self.main.now(), palette)
        width = self.size.width if self._narrow else self.size.width - table.width - 2
        rows = crash_rows(crash, job, beyond, width, palette)
        self.crash.show(rows)
        title_at, name = None if self._narrow else table.width + 2, plain(self.main.names.of(job))
        self.strip.show([strip_row(group.count, len(self.marked), job, name, title_at, excerpt_title(crash), palette)])
        return len(rows)

    def _excerpt(self, job: Job) -> Excerpt:
        key = (job.id, job.attempts[-1].number if job.attempts else 0)
        if key not in self._excerpts:
            files = self.main.bridge.files(job, key[1]) if key[1] else None
            out, err = (files.out, files.err) if files is not None else ("", None)
            self._excerpts[key] = excerpt(out, err, said_of(job), job.spec.cwd)
        return self._excerpts[key]

    # Keys

    def offers(self) -> OfferedKeys:
        group = self.group
        if group is None:
            return OfferedKeys(always=ALWAYS)
        number, brief = len(self.marked) or group.count, self._narrow
        manner = "" if brief else self._outlook.manner(self.snapshot, group, self.marked, self.picked)
        rerun = f"Rerun {number:,}{manner}" if number > 1 else f"Rerun{manner}"
        row: list[Offer] = [("rerun_group", rerun), ("edit_group", "Edit" if brief else "Edit and rerun")]
        alike = self.alike()
        row += [("hold_alike", f"Hold {len(alike):,} alike")] if alike else []
        row.append(("log_at_error", "Log" if brief else "Log at the error"))
        tab = ("failures_tab", "Kinds" if self.on_jobs else "Jobs")
        return OfferedKeys(row, [("mark_failed", "Mark")], [tab], always=ALWAYS)

    def alike(self, *, fresh: bool = False) -> list[JobId]:
        """The waiting jobs that share what the kind shares, and are not held."""
        return self._outlook.alike(self.snapshot, self.group, fresh=fresh)

    def chosen(self) -> list[Job] | None:
        return [self.snapshot[self.job]] if self.job is not None and self.job in self.snapshot else []

    def picked(self) -> list[Job]:
        """The marked jobs of the kind, or all of it."""
        group = self.group
        ids = [] if group is None else [job for job in group.jobs if job in self.marked] or list(group.jobs)
        return [self.snapshot[job] for job in ids]

    def action_move(self, by: int) -> None:
        group = self.group
        if group is None or self.job is None:
            return
        if self.on_jobs:
            place = max(0, min(group.jobs.index(self.job) + by, group.count - 1))
            self.job = group.jobs[place]
        else:
            place = max(0, min(self.groups.index(group) + by, len(self.groups) - 1))
            self._go_to(self.groups[place])
        self.crash.top = 0
        self.paint()

    def _go_to(self, group: FailureGroup) -> None:
        if group.signature != self._signature:
            self._signature, self.job, self.marked = group.signature, group.jobs[0], set()

    def action_scroll(self, pages: int) -> None:
        rows = self.jobs if self._narrow and self.on_jobs else self.crash
        rows.scroll_by(pages * max(1, rows.size.height // 2))

    def act_failures_tab(self) -> None:
        self.on_jobs = not self.on_jobs
        self.paint()
        self.call_after_refresh(self.paint)  # what was hidden has a size now

    def act_mark_failed(self) -> None:
        if self.job is not None:
            self.marked ^= {self.job}
            if self.on_jobs:
                self.action_move(1)
            self.paint()

    def act_back(self) -> None:
        """Out of the marks and the jobs first."""
        if self.marked:
            self.marked = set()
            self.paint()
        elif self.on_jobs:
            self.act_failures_tab()
        else:
            self.go_back()

    def act_rerun_group(self) -> None:
        from .mending import rerun_group

        rerun_group(self)

    def act_edit_group(self) -> None:
        from .mending import edit_group

        edit_group(self)

    def act_hold_alike(self) -> None:
        from .mending import hold_alike

        hold_alike(self)

    def act_log_at_error(self) -> None:
        from .mending import log_at_error

        if self.job is not None:
            log_at_error(self, self.job, self._excerpt(self.snapshot[self.job]))

    @on(ViewRows.RowClicked)
    def _row_clicked(self, event: ViewRows.RowClicked) -> None:
        if event.rows is self.kinds and isinstance(event.value, int) and event.value < len(self.groups):
            self.on_jobs = False
            self._go_to(self.groups[event.value])
        elif event.rows is self.jobs and isinstance(event.value, int):
            self.on_jobs, self.job = True, event.value
        self.paint()

    @on(ViewRows.Wheel)
    def _wheel(self, event: ViewRows.Wheel) -> None:
        event.rows.scroll_by(event.by)
