"""The details view: everything about one job, with curves of its results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from gputui.core.amounts import duration_words
from gputui.core.job import Active, Ended, Job, JobId, Stopping, Suspended, Waiting
from gputui.core.results import Curve, Direction, JobResults, direction_of
from gputui.logs.crashes.excerpts import excerpt
from gputui.logs.line_index import read_tail
from gputui.logs.plain import plain
from gputui.session.control.handlers import Details
from gputui.session.job_directories import INFO, commits_in
from gputui.tui.actions.display import show_log
from gputui.tui.actions.offered import offer
from gputui.tui.actions.table import view_bindings
from gputui.tui.chart import Chart, ChartCurve
from gputui.tui.chrome import LinesView, Offer, OfferedKeys
from gputui.tui.dialogs.ask import Reading
from gputui.tui.queue.row_facts import state_words
from gputui.tui.text import Line, Piece, heading, width_of
from gputui.tui.theme import Look
from gputui.views.failures import error_message, has_failed
from gputui.views.format import cut, value_text

from .base import ALWAYS, FullView
from .curves import chart_rows, points_of, step_label
from .job_facts import Subject, attempt_rows, environment_text, fact_rows, history_rows, state_look, warning_rows

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# The curves of the job

LEAST_HEIGHT = 6
NEWEST, EARLIER = 0, 1


def metric_names(curves: Mapping[int, Sequence[Curve]], main: str | None) -> list[str]:
    """Return the metrics with several values: the main one first, and those without a known direction last."""
    names = [curve.name for attempt_curves in curves.values() for curve in attempt_curves if len(curve.points) > 1]
    ordered = list(dict.fromkeys(names))
    return sorted(ordered, key=lambda name: (name != main, direction_of(name) is Direction.UNKNOWN))


def curve_panes(
    subject: Subject, curves: Mapping[int, Sequence[Curve]], names: Sequence[str], width: int, height: int
) -> list[Line]:
    """Return a legend and the charts of as many metrics as fit."""
    attempts = sorted(curves)[-2:]
    legend: list[Line] = []
    if len(attempts) == 2:
        legend = [Line([(" ── ", Look.PAST), (f"attempt {attempts[0]}", Look.PAST), ("   ━━ ", Look.RUNNING),
                        (f"attempt {attempts[1]}", Look.TEXT)])]  # fmt: skip
    names = names[: max(0, height - len(legend)) // LEAST_HEIGHT]
    if not names or width < 20:
        return []
    each = (height - len(legend)) // len(names)
    return [line for name in names for line in _pane(subject, curves, name, width, each)] + legend


def _pane(subject: Subject, curves: Mapping[int, Sequence[Curve]], name: str, width: int, height: int) -> list[Line]:
    numbers = sorted(curves)[-2:]
    own = {number: next((curve.points for curve in curves[number] if curve.name == name), ()) for number in numbers}
    by_time = any(point.step is None for points in own.values() for point in points[:1])
    drawn = [
        ChartCurve(points_of(own[number], by_time=by_time), EARLIER if number != numbers[-1] else NEWEST)
        for number in reversed(numbers)
        if own[number]
    ]
    silent_from = None  # a vertical line at the last point of an attempt that prints nothing any more
    if subject.silent_since is not None:
        silent_from = next((curve.points[-1][0] for curve in drawn if curve.number == NEWEST and curve.points), None)
    direction = subject.snapshot.direction(name)
    x_label = duration_words if by_time else None
    chart = Chart(drawn, down=direction is Direction.DOWN, x_label=x_label, marker_x=silent_from)
    lines = chart_rows(chart, width - 2, height - 2, (Look.RUNNING, Look.PAST))
    figures = _figures(subject.results, name, direction)
    return [heading((f" {plain(name)}", Look.TEXT), right=figures), *lines, Line()]


def _figures(results: JobResults | None, name: str, direction: Direction) -> list[Piece]:
    metric_result = results.get(name, direction) if results is not None else None
    if metric_result is None:
        return []
    parts = [("last ", Look.PAST), (value_text(metric_result.last), Look.BEST)]
    if direction is not Direction.UNKNOWN:
        parts += [("   best ", Look.PAST), (value_text(metric_result.best), Look.BEST)]
        if metric_result.best_step is not None:
            parts.append((f" at {step_label(metric_result.best_step)}", Look.PAST))
    return parts


NARROW = 100
CURVES_AT_ONCE = 2
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
    DetailsView #warning { height: auto; }
    DetailsView #columns { height: 1fr; }
    DetailsView #facts { width: 1fr; height: 1fr; }
    DetailsView #between { width: 1; height: 1fr; }
    DetailsView #curves { width: 1fr; height: 1fr; }
    """

    def __init__(self, main: MainScreen, job: JobId) -> None:
        super().__init__(main, f"#{job}", plain(main.short_name(job)))
        self.job = job
        self.details: Details | None = None
        self.curves: dict[int, tuple[Curve, ...]] = {}
        self._requested: object = None
        self._first_metric = 0
        self.warning = LinesView(id="warning")
        self.facts = LinesView(id="facts")
        self.between = LinesView(id="between")
        self.right = LinesView(id="curves")

    def body(self) -> ComposeResult:
        yield self.warning
        with Horizontal(id="columns"):
            yield self.facts
            yield self.between
            yield self.right

    def _request(self, job: Job) -> None:
        """Request details and curves if the job has changed or may have printed more."""
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
        subject = self._subject(job, self.details)
        warning = warning_rows(subject, self.size.width)
        self.warning.styles.height = len(warning)
        self.warning.display = bool(warning)
        self.warning.show(warning)
        names = metric_names(self.curves, self.snapshot.metric.name if self.snapshot.metric is not None else None)
        self._show_columns(subject, names, len(warning))

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

    def _subject(self, job: Job, details: Details) -> Subject:
        picture = self.main.bridge.picture
        used = [
            process.memory
            for device in picture.devices
            for process in device.sample.processes
            if process.memory is not None and picture.pids.get(process.pid) == job.id
        ]
        info = read_tail(os.path.join(details.directory, INFO)).decode("utf-8", "replace")
        memory_used = sum(used) if used else None
        return Subject(
            details, job, self.snapshot, self.main.now(), self.status.where.host, commits_in(info), memory_used
        )

    def _show_columns(self, subject: Subject, names: list[str], warning_lines: int) -> None:
        width, height = self.size.width, self.size.height - 3 - warning_lines
        shown = (names[self._first_metric :] + names[: self._first_metric])[:CURVES_AT_ONCE]
        beside = bool(shown) and width >= NARROW
        self.between.display = self.right.display = beside
        if beside:
            left = width * 7 // 15
            self.facts.styles.width, self.right.styles.width = left, width - left - 1
            lines = self._lines(subject, left)
            self.right.show(curve_panes(subject, self.curves, shown, width - left - 1, height))
            self.between.show([Line([("│", Look.LINE)])] * height)
        else:
            self.facts.styles.width = "1fr"
            lines = self._lines(subject, width)
            lines += curve_panes(subject, self.curves, shown[:1], width, min(14, max(8, height // 2)))
        self.facts.show(lines)

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
        more += [offer("details_metric")] if len(metric_names(self.curves, None)) > CURVES_AT_ONCE else []
        return OfferedKeys(row, more, always=ALWAYS)

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
        self.facts.top = 0
        self.paint()

    def scrolled(self) -> LinesView:
        return self.facts

    def act_details_metric(self) -> None:
        names = metric_names(self.curves, None)
        self._first_metric = (self._first_metric + CURVES_AT_ONCE) % max(1, len(names))
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


def _attempt_numbers(job: Job) -> list[int]:
    return [attempt.number for attempt in job.attempts] + ([job.active.attempt] if job.active is not None else [])


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
