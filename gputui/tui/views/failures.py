"""Failed jobs by how they failed, and keys that act on a whole kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from gputui.core.amounts import counted
from gputui.core.events import Hold, UserCommand
from gputui.core.job import Held, Job, JobId, JobSpec, Waiting
from gputui.core.parameter_columns import Parameters
from gputui.core.snapshot import Snapshot, rerun_manner
from gputui.logs.crashes.excerpts import Excerpt, excerpt
from gputui.logs.plain import plain
from gputui.tui.action_table import view_bindings
from gputui.tui.actions.looking import show_log
from gputui.tui.actions.scheduler import rerun_and_resume
from gputui.tui.chrome import Offer, OfferedKeys
from gputui.tui.dialogs.replace_form import ReplaceForm, likely_changed
from gputui.tui.theme import Palette, palette_of
from gputui.views.failures import FailureGroup, Failures, alike_waiting, devices_of, said_of

from .base import ALWAYS, FullView, ViewRow, ViewRows
from .failure_rows import (
    FailedTable,
    band_facts,
    beyond_the_log,
    crash_rows,
    excerpt_title,
    group_rows,
    job_table,
    strip_row,
)

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# ---- The failures of a session as the view has them ----


SLICE = 0.012
"""Seconds of reading before keys are looked at again."""


class FailureReading:
    def __init__(self, snapshot: Snapshot) -> None:
        self._failures = Failures()
        self._known = snapshot
        """Of which the failures were read."""
        self._unread: Iterator[Job] | None = iter(snapshot.jobs)

    @property
    def is_done(self) -> bool:
        return self._unread is None

    def read_on(self) -> bool:
        """For a moment; True: all was read."""
        until = time.monotonic() + SLICE
        for job in self._unread or ():
            self._failures.learn(job)
            if time.monotonic() > until:
                return False
        self._unread = None
        return True

    def groups(self, snapshot: Snapshot, parameters: Parameters) -> list[FailureGroup]:
        """By the newest, once all was read."""
        before, self._known = self._known, snapshot
        if snapshot.first_id != before.first_id:
            self._failures = Failures(snapshot.jobs)
        elif snapshot.jobs is not before.jobs:
            for place in snapshot.jobs.changed_since(before.jobs):
                self._failures.learn(snapshot.jobs[place])
        return self._failures.groups(parameters, devices_of(snapshot))


# ---- What mending a kind of failure would mean, for the footer ----


LONG = 4000
"""Jobs; more are not looked through at each change."""
EVERY = 3.0


class KindOutlook:
    def __init__(self) -> None:
        self._manner: tuple[FailureGroup | None, tuple[object, ...], str] = (None, (), "")
        self._alike: tuple[object, object, float, list[JobId]] = (None, None, 0.0, [])

    def manner(
        self, snapshot: Snapshot, group: FailureGroup, marked: set[JobId], picked: Callable[[], list[Job]]
    ) -> str:
        """How those that were picked would start again."""
        key = (frozenset(marked), snapshot.cautions, snapshot.settings)
        if self._manner[0] is not group or self._manner[1] != key:
            self._manner = (group, key, rerun_manner(snapshot, picked()))
        return self._manner[2]

    def alike(self, snapshot: Snapshot, group: FailureGroup | None, *, fresh: bool) -> list[JobId]:
        """The waiting jobs that share what the kind shares, and are not held; `fresh`: as they are now."""
        if group is None or not group.common.parameters or not snapshot.waiting:
            return []
        shared, jobs, at, known = self._alike
        recent = len(snapshot.jobs) > LONG and time.monotonic() - at < EVERY and not fresh
        if shared != group.common.parameters or (jobs is not snapshot.jobs and not recent):
            waiting = (job for job in snapshot if isinstance(job.state, Waiting) and not isinstance(job.state, Held))
            known = alike_waiting(waiting, group.common)
            self._alike = (group.common.parameters, snapshot.jobs, time.monotonic(), known)
        return known


# ---- `F` ----


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

    def chosen(self) -> list[Job]:
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

        rerun_group(self)

    def act_edit_group(self) -> None:

        edit_group(self)

    def act_hold_alike(self) -> None:

        hold_alike(self)

    def act_log_at_error(self) -> None:

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


# ---- What the keys of the failures view do ----


def rerun_group(view: FailuresView) -> None:
    jobs = view.picked()
    if jobs:
        rerun_and_resume(view.main, jobs)
        view.marked = set()


def edit_group(view: FailuresView) -> None:
    jobs, group = view.picked(), view.group
    if group is None or not jobs:
        return
    names = likely_changed([name for name, _, _ in group.common.parameters], group.kind)

    def answered(changed: dict[JobId, JobSpec] | None) -> None:
        if changed:
            rerun_and_resume(view.main, [job for job in jobs if job.id in changed], changed)
            view.marked = set()

    view.main.ask(ReplaceForm(jobs, names, lambda some: rerun_manner(view.snapshot, some)), answered)


def hold_alike(view: FailuresView) -> None:
    group, jobs = view.group, view.alike(fresh=True)
    if group is None:
        return
    if not group.common.parameters:
        view.main.say("nothing in their commands is the same in all of these: which others would fail cannot be told")
    elif not jobs:
        view.main.say(f"no job that is not held waits with {group.common.told}")
    else:
        main = view.main
        events: list[UserCommand] = [Hold(job=job, seen=main.table.seen(main.snapshot[job])) for job in jobs]
        done = f"held {counted(len(jobs), 'job', 'jobs')} with {group.common.told}; h on the queue releases"
        main.send(events, done, keeps_marks=True)


def log_at_error(view: FailuresView, job: JobId, crash: Excerpt) -> None:
    """The log on the whole screen, at the line that names the error."""
    show_log(view.main, job, crash.needle, stream=crash.stream)
