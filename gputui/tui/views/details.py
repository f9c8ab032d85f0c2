"""The details view: everything about one job, with curves of its results."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.timer import Timer

from gputui.core.amounts import moment
from gputui.core.job import Active, Ended, Job, JobId, Stopping, Succeeded, Suspended, Waiting
from gputui.core.results import Curve, Point
from gputui.gpus.usage import FIGURES
from gputui.logs.crashes.excerpts import excerpt
from gputui.logs.crashes.lines import cleaned
from gputui.logs.line_index import read_tail
from gputui.logs.plain import plain
from gputui.session.control.handlers import Details
from gputui.session.job_directories import INFO, Files, commits_in
from gputui.tui.actions.display import show_log
from gputui.tui.actions.offered import offer
from gputui.tui.actions.table import view_bindings
from gputui.tui.chrome import LinesView, Offer, OfferedKeys
from gputui.tui.dialogs.ask import Reading
from gputui.tui.queue.row_facts import state_words
from gputui.tui.text import Line, Piece, beside, fit, heading, width_of
from gputui.tui.theme import Look
from gputui.views.failures import error_message, has_failed
from gputui.views.format import cut

from .base import ALWAYS, FullView
from .job_charts import JobCurves, grid, main_chart, nearest_siblings, trends
from .job_facts import (
    Subject,
    attempt_rows,
    brief_facts,
    environment_text,
    fact_rows,
    history_rows,
    remark_rows,
    state_look,
)

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


NARROW = 100
"""Number of columns below which facts and charts are on different pages. The key `tab` changes the page."""
LEAST_FOR_LOG = 12
"""Minimum number of rows for the other parts of the view if the end of the log is shown."""
FIRST_REPAINT_AFTER, REPAINT_AFTER = 0.05, 0.5
"""Seconds to wait for more curves and log lines before they are painted: in the first second of a job, and later."""
MOST_LOG_LINES = 40
SHARED = (
    "kill", "suspend", "requeue", "rerun", "hold", "edit", "priority_up", "priority_down", "copy_command", "copy_path",
    "copy_as_new", "pager", "notify", "failures",
)  # fmt: skip


class DetailsView(FullView):
    """The view with everything about one job. `j` and `k` go to the next and previous job in the order of the queue."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *view_bindings("details", *SHARED),
        Binding("enter", "act('back')", show=False),
    ]
    DEFAULT_CSS = """
    DetailsView #remarks { height: auto; }
    DetailsView #columns { height: 1fr; }
    DetailsView #facts { width: 1fr; height: 1fr; }
    DetailsView #between { width: 1; height: 1fr; }
    DetailsView #charts { width: 1fr; height: 1fr; }
    DetailsView #log_end { height: 4; }
    """

    def __init__(self, main: MainScreen, job: JobId) -> None:
        super().__init__(main, f"#{job}", plain(main.short_name(job)))
        self.job = job
        self.details: Details | None = None
        self.curves: dict[int, tuple[Curve, ...]] = {}
        self.sibling_points: dict[JobId, tuple[Point, ...]] = {}
        """The points of the main metric of the jobs to which this job is compared, as far as they are known. They are
        kept when the view goes to the next job.
        """
        self._compared: list[JobId] = []
        """The jobs to which this job is compared."""
        self._compared_for: tuple[JobId, str] | None = None
        """The job and the metric for which the jobs in `_compared` were chosen."""
        self._requested: object = None
        self._first_metric = 0
        self._facts_only = False
        self._log_lines: list[str] = []
        self._log_name = "OUT"
        self._log_stamps: object = None
        """The stamps of the files when they were read last."""
        self._reading_log = False
        self._repaint: Timer | None = None
        self._opened_at = time.monotonic()
        """When the view, or the job in it, was opened."""
        self.remarks = LinesView(id="remarks")
        self.facts = LinesView(id="facts")
        self.between = LinesView(id="between")
        self.charts = LinesView(id="charts")
        self.log_end = LinesView(id="log_end")

    def body(self) -> ComposeResult:
        yield self.remarks
        with Horizontal(id="columns"):
            yield self.facts
            yield self.between
            yield self.charts
        yield self.log_end

    def _request(self, job: Job) -> None:
        """Request details and curves if the job has changed or may have printed more."""
        metric = self.snapshot.metric
        if metric is not None and self._compared_for != (job.id, metric.name):
            if self._compared_for is not None and self._compared_for[1] != metric.name:
                self.sibling_points = {}
            self._compared_for = (job.id, metric.name)
            self._compared = nearest_siblings(job, self.snapshot, metric.name)
            if (best := self.snapshot.best) is not None and best not in (job.id, *self._compared):
                self._compared.append(best)
            for other in self._compared:
                if other not in self.sibling_points:
                    self.main.bridge.curves(other, None, partial(self._sibling_loaded, other, metric.name))
        key = (job, self.snapshot.results.get(job.id))
        if key == self._requested and job.active is None:
            return
        self._requested = key
        self.main.bridge.details(job.id, partial(self._details_loaded, job.id))
        for number in _attempt_numbers(job)[-2:]:
            self.main.bridge.curves(job.id, number, partial(self._curves_loaded, job.id, number))

    def _details_loaded(self, job: JobId, details: Details) -> None:
        if job == self.job and self.is_attached and details != self.details:
            self.details = details
            self.paint()

    def _curves_loaded(self, job: JobId, attempt: int, curves: tuple[Curve, ...]) -> None:
        if job == self.job and self.is_attached and curves and curves != self.curves.get(attempt):
            self.curves[attempt] = curves
            self._paint_soon()

    def _sibling_loaded(self, job: JobId, metric: str, curves: tuple[Curve, ...]) -> None:
        if self.is_attached:
            self.sibling_points[job] = next((curve.points for curve in curves if curve.name == metric), ())
            self._paint_soon()

    def _paint_soon(self) -> None:
        """Paint once for all curves that arrive in a short time."""
        if self._repaint is None:
            is_new = time.monotonic() - self._opened_at < 1
            self._repaint = self.set_timer(FIRST_REPAINT_AFTER if is_new else REPAINT_AFTER, self._paint_curves)

    def _paint_curves(self) -> None:
        self._repaint = None
        self.paint()

    # Contents

    def renew(self) -> None:
        if self.job not in self.snapshot:
            self.go_back()
            return
        job = self.snapshot[self.job]
        self._request(job)
        self._show_title(job)
        if self.details is None or self.details.job.id != self.job:
            return
        now, best = self.main.now(), self.snapshot.best
        data = JobCurves(
            self.snapshot, job, self.curves, {job: self.sibling_points.get(job, ()) for job in self._compared},
            best if best != job.id else None, now, self.snapshot.silent_since(job, now),
        )  # fmt: skip
        subject = self._subject(job, self.details, data)
        remarks = remark_rows(subject, self.size.width)
        self.remarks.styles.height = len(remarks)
        self.remarks.display = bool(remarks)
        self.remarks.show(remarks)
        height = self.size.height - 3 - len(remarks)
        height -= self._show_log(subject, height)
        if self.size.width >= NARROW:
            self._show_columns(subject, data, height)
        else:
            self._show_page(subject, data, height)

    def _show_title(self, job: Job) -> None:
        attempts = _attempt_numbers(job)
        left: list[Piece] = [("   ", Look.TEXT), (state_words(job), state_look(job))]
        left += [(f"   attempt {attempts[-1]} of {len(attempts)}", Look.PAST)] if len(attempts) > 1 else []
        place = self.main.table.rows.number_of(self.job)
        where = f"{place[0]:,} of {place[1]:,}   " if place is not None else ""
        right = [(f"{where}k j  other jobs", Look.PAST)]
        self.band.number = number = f"#{job.id}"
        beside = width_of([*left, *right]) + len(number) + 5
        self.band.show(left, right, title=cut(plain(self.main.names.of(job)), max(8, self.size.width - beside)))

    def _subject(self, job: Job, details: Details, data: JobCurves) -> Subject:
        picture = self.main.bridge.picture
        used = [
            process.memory
            for device in picture.devices
            for process in device.sample.processes
            if process.memory is not None and picture.pids.get(process.pid) == job.id
        ]
        info = read_tail(os.path.join(details.directory, INFO)).decode("utf-8", "replace")
        warnings = [
            f"{device.sample.label}: {plain(warning.words)}"
            for device in picture.devices
            for warning in device.warnings
            if job.id in device.jobs
        ]
        return Subject(
            details, job, self.snapshot, data.now, self.status.where.host, commits_in(info),
            sum(used) if used else None, warnings,
        )  # fmt: skip

    def _chosen_metrics(self, data: JobCurves) -> list[str]:
        names = data.metrics
        first = self._first_metric % max(1, len(names))
        return names[first:] + names[:first]

    def _show_columns(self, subject: Subject, data: JobCurves, height: int) -> None:
        """Show the facts beside the charts, or only the facts if there is nothing to draw."""
        names = self._chosen_metrics(data)
        draws = bool(names or data.figures) and not self._facts_only
        self.between.display = self.charts.display = draws
        width = self.size.width
        left = width * (2 if width < 160 else 1) // (5 if width < 160 else 3) if draws else width
        self.facts.styles.width = left if draws else "1fr"
        self.facts.show(self._lines(subject, left))
        if draws:
            self.charts.styles.width = cells = width - left - 1
            small = grid(data, names[1:], cells, height - max(8, height * 2 // 5) if names else height)
            main = main_chart(data, names[0], cells, height - len(small)) if names else []
            self.charts.show([Line(pieces) for pieces in (*main, *small)])
            self.between.show([Line([("│", Look.LINE)])] * height)

    def _show_page(self, subject: Subject, data: JobCurves, height: int) -> None:
        """Show either the main chart and the trends, or the facts."""
        names, width = self._chosen_metrics(data), self.size.width
        self.between.display = self.charts.display = False
        self.facts.styles.width = "1fr"
        if self._facts_only or not (names or data.figures):
            self.facts.show(self._lines(subject, width))
            return
        lines = brief_facts(subject, width, 2)
        room = height - len(lines)
        if not names:
            self.facts.show([*lines, *(Line(pieces) for pieces in grid(data, (), width, room))])
            return
        right = 31 if width >= 72 and (data.figures or len(names) > 1) else 0
        chart = main_chart(data, names[0], width - right - bool(right), room)
        if right:
            chart = [[*fit(pieces, width - right - 1), ("│", Look.LINE)] for pieces in chart]
            chart = beside([chart, trends(data, names[1:], right, room)], width - right)
        self.facts.show([*lines, *map(Line, chart)])

    # The end of the log

    def _show_log(self, subject: Subject, height: int) -> int:
        """Show the end of the log if there is room. Return the number of rows."""
        job = subject.job
        numbers = _attempt_numbers(job)
        rows = min(height - LEAST_FOR_LOG, max(6, height // 4)) if numbers else 0
        is_shown = rows >= 3 and not self._facts_only
        self.log_end.display = is_shown
        if not is_shown:
            return 0
        self.log_end.styles.height = rows
        files = self.main.bridge.files(job, numbers[-1])
        if files is not None:
            self._read_log(job.id, files)
        lines = [Line([(f" {line}", Look.TEXT)]) for line in self._log_lines[-(rows - 1) :]]
        if subject.silent_since is not None:
            silent = f" ┄┄┄ silent since {moment(subject.silent_since, subject.now, seconds=True)} ┄┄┄"
            lines = [*lines[-(rows - 2) :], Line([(silent, Look.WARNING)])]
        about = f"   {self._log_name}, last lines" if self._log_lines else "   no output"
        hint = [("l", Look.BEST), (" whole log", Look.PAST)]
        self.log_end.show([heading((" Log", Look.TEXT), (about, Look.PAST), right=hint), *lines])
        return rows

    def _read_log(self, job: JobId, files: Files) -> None:
        """Read the end of the log in a thread if it has changed, because the disk may be slow."""
        if self._reading_log:
            return
        paths = [("OUT", files.out)]
        if files.err is not None and _newest_attempt_failed(self.snapshot[job]):
            paths.insert(0, ("ERR", files.err))

        def read() -> None:
            stamps = [_stamp(path) for _, path in paths]
            name, lines = "", None
            if stamps != before:
                logs = ((name, read_tail(path)) for name, path in paths)
                name, tail = next(((name, tail) for name, tail in logs if tail.strip()), ("OUT", b""))
                lines = [plain(line.text) for line in cleaned(tail) if line.text.strip()]
            self.main.bridge.post(lambda: self._log_read(job, stamps, name, lines))

        before, self._reading_log = self._log_stamps, True
        self.run_worker(read, thread=True)

    def _log_read(self, job: JobId, stamps: object, name: str, lines: list[str] | None) -> None:
        self._reading_log = False
        if lines is not None and job == self.job and self.is_attached:
            self._log_stamps, self._log_name, self._log_lines = stamps, name, lines[-MOST_LOG_LINES:]
            self._paint_soon()

    # Facts

    def _lines(self, subject: Subject, width: int) -> list[Line]:
        metric = self.snapshot.metric.name if self.snapshot.metric is not None else None
        several = len(_attempt_numbers(subject.job)) > 1
        compare = [("d", Look.BEST), ("  compare", Look.PAST)] if several else []
        return [
            heading((" Job", Look.TEXT)),
            *fact_rows(subject, width),
            Line(),
            heading((" Attempts", Look.TEXT), right=compare),
            *attempt_rows(subject, subject.details.results, metric, width),
            Line(),
            heading((" History", Look.TEXT)),
            *history_rows(subject, width),
        ]

    # Keys

    def offers(self) -> OfferedKeys:
        if self.job not in self.snapshot:
            return OfferedKeys(always=ALWAYS)
        job = self.snapshot[self.job]
        row: list[Offer] = [("job_log", "Log at error" if has_failed(job) else "Log"), *_offers_for_state(job)]
        row += [offer("compare_attempts")] if len(_attempt_numbers(job)) > 1 else []
        more = [offer("copy_command"), offer("environment")]
        names = {curve.name for curves in self.curves.values() for curve in curves} - set(FIGURES)
        more += [offer("details_metric")] if len(names) > 1 else []
        tab = ("details_tab", "Charts" if self._facts_only else "Facts")
        return OfferedKeys(row, more, [tab], always=ALWAYS)

    def chosen(self) -> list[Job]:
        return [self.snapshot[self.job]] if self.job in self.snapshot else []

    def action_move(self, by: int) -> None:
        """Go to the job that is `by` rows further in the queue."""
        job = self.main.table.rows.beside(self.job, by)
        if job is None:
            return
        self.job = job
        self.main.table.move_to(job)
        self.details, self.curves, self._requested, self._first_metric = None, {}, None, 0
        self._log_lines, self._log_stamps, self.facts.top = [], None, 0
        self._opened_at = time.monotonic()
        self.paint()

    def scrolled(self) -> LinesView:
        return self.facts

    def act_details_metric(self) -> None:
        """Draw the next metric in the large chart."""
        self._first_metric += 1
        self.paint()

    def act_details_tab(self) -> None:
        self._facts_only = not self._facts_only
        self.facts.top = 0
        self.paint()

    def act_environment(self) -> None:
        if self.details is not None:
            self.main.ask(Reading(f"#{self.job}", environment_text(self.details.environment)), lambda _: None)

    def act_compare_attempts(self) -> None:
        from .job_facts import TailDiffView

        job = self.snapshot[self.job]
        numbers = _attempt_numbers(job)
        if len(numbers) < 2:
            self.main.say(f"#{job.id} has run only once: nothing to compare")
        else:
            self.main.open_view(TailDiffView(self.main, job.id, numbers[-2], numbers[-1]))

    def act_job_log(self) -> None:
        """Show the log, at the line with the error if there is one."""
        job = self.snapshot[self.job]
        needle = stream = ""
        if has_failed(job) and job.attempts:
            files = self.main.bridge.files(job, job.attempts[-1].number)
            if files is not None:
                shown = excerpt(files.out, files.err, error_message(job), job.spec.cwd)
                needle, stream = shown.needle, shown.stream
        show_log(self.main, job.id, needle, stream)


def _stamp(path: str) -> object:
    with suppress(OSError):
        facts = os.stat(path)
        return path, facts.st_size, facts.st_mtime_ns
    return path, 0, 0


def _attempt_numbers(job: Job) -> list[int]:
    return [attempt.number for attempt in job.attempts] + ([job.active.attempt] if job.active is not None else [])


def _newest_attempt_failed(job: Job) -> bool:
    """Return whether the newest attempt has failed, even if the job is waiting to be run again."""
    return job.active is None and bool(job.attempts) and not isinstance(job.attempts[-1].end, Succeeded)


def _offers_for_state(job: Job) -> list[Offer]:
    if isinstance(job.state, Stopping):
        return [("kill", "Kill now")]
    if isinstance(job.state, Active):
        return [
            offer("kill"),
            ("suspend", "Continue" if isinstance(job.state, Suspended) else "Suspend"),
            offer("requeue"),
        ]
    if isinstance(job.state, Waiting):
        return [("hold", "Hold" if job.state.name != "held" else "Release"), offer("edit"), offer("priority_up")]
    return [offer("rerun"), offer("copy_as_new")] if isinstance(job.state, Ended) else []
