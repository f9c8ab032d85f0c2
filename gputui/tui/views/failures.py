"""The failures view: failed jobs grouped by error, with keys that act on a whole group."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from gputui.core.amounts import counted
from gputui.core.events import Hold, UserCommand
from gputui.core.job import Held, Job, JobId, JobSpec, Waiting
from gputui.core.snapshot import Snapshot, changed_places
from gputui.logs.crashes.excerpts import Excerpt, excerpt
from gputui.logs.plain import plain
from gputui.tui.actions.display import show_log
from gputui.tui.actions.scheduler import rerun_and_resume
from gputui.tui.actions.table import view_bindings
from gputui.tui.chrome import LinesView, Offer, OfferedKeys
from gputui.tui.dialogs.forms import ReplaceForm, likely_changed
from gputui.tui.text import Line, Piece, blank, table, table_width
from gputui.tui.theme import Ground, Look
from gputui.views.failures import FailureGroup, Failures, device_count, error_message, jobs_with_common_parameters
from gputui.views.waiting import rerun_suffix

from .base import ALWAYS, FullView
from .failure_rows import (
    band_facts,
    beyond_the_log,
    excerpt_rows,
    excerpt_title,
    group_rows,
    job_columns,
    strip_row,
)

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


LONG = 4000
"""Number of jobs above which similar jobs are searched for only every few seconds."""
EVERY = 3.0


class SimilarJobs:
    """A search for the waiting jobs that resemble failed ones."""

    def __init__(self) -> None:
        self._alike: tuple[object, object, float, list[JobId]] = (None, None, 0.0, [])

    def of(self, snapshot: Snapshot, group: FailureGroup | None, *, fresh: bool) -> list[JobId]:
        """Return the waiting jobs that are not held and have the parameters common to the group. `fresh` skips the
        cache.
        """
        if group is None or not group.common.parameters or not snapshot.waiting:
            return []
        shared, jobs, at, known = self._alike
        recent = len(snapshot.jobs) > LONG and time.monotonic() - at < EVERY and not fresh
        if shared != group.common.parameters or (jobs is not snapshot.jobs and not recent):
            waiting = (job for job in snapshot if isinstance(job.state, Waiting) and not isinstance(job.state, Held))
            known = jobs_with_common_parameters(waiting, group.common)
            self._alike = (group.common.parameters, snapshot.jobs, time.monotonic(), known)
        return known


NARROW = 100
BLANK_LINES_FROM = 30
"""Minimum number of screen rows for blank lines between groups."""
WIDEST_TABLE = 56
BLOCK_SIZE = 200
"""Number of jobs in a block. The list shows the block with the cursor, the one before and the one after."""
FRAME_ROWS = 4
"""Number of rows for the header, band, strip and footer."""
LEAST_LISTED = 4
"""Number of rows that the list of jobs needs in order to be shown above the excerpt."""


class FailuresView(FullView):
    """The view with failed jobs grouped by error. The cursor is on a group or, after Tab, on one of its jobs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *view_bindings("failures", "details", "copy_command", "copy_path", "pause", "rerun_failed"),
        Binding("g,home", "move(-1000000)", show=False),
        Binding("G,end", "move(1000000)", show=False),
    ]
    DEFAULT_CSS = """
    FailuresView .strip { height: 1; }
    FailuresView #errors { height: 4; }
    FailuresView #lower { height: 1fr; }
    FailuresView #left { width: 46; height: 1fr; }
    FailuresView #between { width: 2; height: 1fr; }
    FailuresView #jobs, FailuresView #excerpt { height: 1fr; width: 1fr; }
    """

    def __init__(self, main: MainScreen) -> None:
        super().__init__(main, "F", "Failures")
        self._failures = Failures()
        self._known = main.snapshot
        """The snapshot from which the failures were read."""
        self._similar = SimilarJobs()
        self.groups: list[FailureGroup] = []
        self._signature = ""
        """The signature of the group under the cursor. The cursor follows the group when the order changes."""
        self.job: JobId | None = None
        self.marked: set[JobId] = set()
        self.on_jobs = False
        self._excerpts: dict[tuple[JobId, int], Excerpt] = {}
        self.errors = LinesView(id="errors")
        self.strip = LinesView(classes="strip")
        self.head = LinesView(classes="strip")
        self.jobs = LinesView(id="jobs")
        self.excerpt = LinesView(id="excerpt")
        self.lower = Horizontal(id="lower")
        self._left = Vertical(id="left")
        self._between = LinesView(id="between")

    def body(self) -> ComposeResult:
        yield self.errors
        yield self.strip
        with self.lower:
            with self._left:
                yield self.head
                yield self.jobs
            yield self._between
            yield self.excerpt

    def on_mount(self) -> None:
        self.run_worker(self.read_queue(self._failures.learn))

    # Contents

    def renew(self) -> None:
        if not self.queue_is_read:
            self.band.show([(f"   reading {counted(len(self.snapshot.jobs), 'job', 'jobs')}", Look.PAST)])
            return
        self._update()
        self.groups = self._failures.groups(self.main.names, device_count(self.snapshot))
        self._settle()
        self.band.show(band_facts(self.groups))
        self._show_groups()
        self._show_lower()

    def _update(self) -> None:
        """Read the jobs that have changed."""
        snapshot, before, self._known = self.snapshot, self._known, self.snapshot
        if snapshot.first_id != before.first_id:
            self._failures = Failures(snapshot.jobs)
        elif snapshot.jobs is not before.jobs:
            for place in changed_places(snapshot.jobs, before.jobs):
                self._failures.learn(snapshot.jobs[place])

    def _settle(self) -> None:
        """Keep the cursor on its group and job, or move it to the first ones if they are gone."""
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

    def _show_groups(self) -> None:
        airy = self.size.height >= BLANK_LINES_FROM
        now, group = self.main.now(), self.group
        selected = self.groups.index(group) if group is not None else 0
        rows, cursor_rows = group_rows(self.groups, selected, now, airy=airy, focused=not self.on_jobs)
        room = max(4, (self.size.height - 4) * 2 // 5)
        self.errors.styles.height = max(1, min(len(rows), room))
        self.errors.show(rows, cursor_rows)

    def _show_lower(self) -> None:
        group = self.group
        if group is None or self.job is None:
            for view in (self.strip, self.head, self.jobs, self.excerpt, self._between):
                view.show([])
            return
        cursor = group.jobs.index(self.job)
        first = max(0, cursor // BLOCK_SIZE - 1) * BLOCK_SIZE
        jobs = [self.snapshot[job] for job in group.jobs[first : first + 3 * BLOCK_SIZE]]
        room = self.size.width if self._narrow else min(WIDEST_TABLE, self.size.width // 2)
        columns = job_columns(jobs, self.main.names, self.main.names.of, room - 3, len(self.snapshot.jobs))
        width = table_width(columns) + 3
        excerpt_height = self._show_excerpt(group, self.snapshot[self.job], width)
        self._lay_out(width, excerpt_height, 1 + len(jobs))
        heading, *rows = table(columns, width)
        self.head.show([Line([blank(1), *heading])])
        self.jobs.show([self._job_line(job, row) for job, row in zip(jobs, rows, strict=True)], (cursor - first,) * 2)
        self._between.show([Line([("│", Look.LINE)])] * self.size.height)

    def _job_line(self, job: Job, row: Sequence[Piece]) -> Line:
        chosen = job.id == self.job
        pieces = [blank(1), *((text, Look.BOLD if chosen else look) for text, look in row)]
        ground = Ground.CURSOR if chosen else Ground.PAGE
        return Line(pieces, ground, marked=job.id in self.marked, value=job.id)

    def _lay_out(self, table_width: int, excerpt_height: int, listed: int) -> None:
        """Place the jobs beside the excerpt. On a narrow screen, place them above it or show only one of the two."""
        narrow = self._narrow
        used = self.errors.styles.height
        spare = self.size.height - FRAME_ROWS - int(used.value if used is not None else 1) - excerpt_height
        both = not narrow or spare >= min(LEAST_LISTED, listed)
        self._left.display = both or self.on_jobs
        self.excerpt.display = both or not self.on_jobs
        self._between.display = not narrow
        self.lower.styles.layout = "vertical" if narrow else "horizontal"
        self._left.styles.width = "1fr" if narrow else table_width
        self._left.styles.height = min(spare, listed) if narrow and both else "1fr"

    def _show_excerpt(self, group: FailureGroup, job: Job, table_width: int) -> int:
        """Show the excerpt and return its number of rows."""
        shown = self._excerpt(job)
        beyond = beyond_the_log(job, self.snapshot, self.main.bridge.picture, self.main.now())
        width = self.size.width if self._narrow else self.size.width - table_width - 2
        rows = excerpt_rows(shown, job, beyond, width)
        self.excerpt.show(rows)
        title_at, name = None if self._narrow else table_width + 2, plain(self.main.names.of(job))
        self.strip.show([strip_row(group.count, len(self.marked), job, name, title_at, excerpt_title(shown))])
        return len(rows)

    def _excerpt(self, job: Job) -> Excerpt:
        key = (job.id, job.attempts[-1].number if job.attempts else 0)
        if key not in self._excerpts:
            files = self.main.bridge.files(job, key[1]) if key[1] else None
            out, err = (files.out, files.err) if files is not None else ("", None)
            self._excerpts[key] = excerpt(out, err, error_message(job), job.spec.cwd)
        return self._excerpts[key]

    # Keys

    def offers(self) -> OfferedKeys:
        group = self.group
        if group is None:
            return OfferedKeys(always=ALWAYS)
        number, brief = len(self.marked) or group.count, self._narrow
        manner = "" if brief else rerun_suffix(self.snapshot, self.picked())
        rerun = f"Rerun {number:,}{manner}" if number > 1 else f"Rerun{manner}"
        row: list[Offer] = [("rerun_group", rerun), ("edit_group", "Edit" if brief else "Edit and rerun")]
        alike = self.alike()
        row += [("hold_alike", f"Hold {len(alike):,} similar")] if alike else []
        row.append(("log_at_error", "Log" if brief else "Log at error"))
        tab = ("failures_tab", "Errors" if self.on_jobs else "Jobs")
        return OfferedKeys(row, [("mark_failed", "Mark")], [tab], always=ALWAYS)

    def alike(self, *, fresh: bool = False) -> list[JobId]:
        return self._similar.of(self.snapshot, self.group, fresh=fresh)

    def chosen(self) -> list[Job]:
        return [self.snapshot[self.job]] if self.job is not None and self.job in self.snapshot else []

    def picked(self) -> list[Job]:
        """Return the marked jobs of the group, or all its jobs if none is marked."""
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
        self.excerpt.top = 0
        self.paint()

    def _go_to(self, group: FailureGroup) -> None:
        if group.signature != self._signature:
            self._signature, self.job, self.marked = group.signature, group.jobs[0], set()

    def scrolled(self) -> LinesView:
        return self.jobs if self._narrow and self.on_jobs else self.excerpt

    def act_failures_tab(self) -> None:
        self.on_jobs = not self.on_jobs
        self.paint()
        self.call_after_refresh(self.paint)  # widgets that were hidden have a size then

    def act_mark_failed(self) -> None:
        if self.job is not None:
            self.marked ^= {self.job}
            if self.on_jobs:
                self.action_move(1)
            self.paint()

    def act_back(self) -> None:
        """Go back one step: clear the marks, leave the list of jobs, or leave the view."""
        if self.marked:
            self.marked = set()
            self.paint()
        elif self.on_jobs:
            self.act_failures_tab()
        else:
            self.go_back()

    def act_rerun_group(self) -> None:
        jobs = self.picked()
        if jobs:
            rerun_and_resume(self.main, jobs)
            self.marked = set()

    def act_edit_group(self) -> None:
        jobs, group = self.picked(), self.group
        if group is None or not jobs:
            return
        names = likely_changed([name for name, _, _ in group.common.parameters], group.kind)

        def rerun_changed(changed: dict[JobId, JobSpec] | None) -> None:
            if changed:
                rerun_and_resume(self.main, [job for job in jobs if job.id in changed], changed)
                self.marked = set()

        self.main.ask(ReplaceForm(jobs, names, lambda some: rerun_suffix(self.snapshot, some)), rerun_changed)

    def act_hold_alike(self) -> None:
        group, jobs, main = self.group, self.alike(fresh=True), self.main
        if group is None:
            return
        if not group.common.parameters:
            main.say("their commands have no parameters in common, so similar jobs cannot be found")
        elif not jobs:
            main.say(f"no other waiting job has {group.common.parameters_text}")
        else:
            events: list[UserCommand] = [Hold(job=job, seen=main.table.seen(main.snapshot[job])) for job in jobs]
            held = f"held {counted(len(jobs), 'job', 'jobs')} with {group.common.parameters_text}"
            main.send(events, f"{held}; to release: h in the queue", keeps_marks=True)

    def act_log_at_error(self) -> None:
        """Show the log full screen, at the line with the error."""
        if self.job is not None:
            excerpt = self._excerpt(self.snapshot[self.job])
            show_log(self.main, self.job, excerpt.needle, stream=excerpt.stream)

    @on(LinesView.LineClicked)
    def _row_clicked(self, event: LinesView.LineClicked) -> None:
        if event.view is self.errors and isinstance(event.value, int) and event.value < len(self.groups):
            self.on_jobs = False
            self._go_to(self.groups[event.value])
        elif event.view is self.jobs and isinstance(event.value, int):
            self.on_jobs, self.job = True, event.value
        self.paint()
