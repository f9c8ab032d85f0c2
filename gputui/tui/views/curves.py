"""The curves view: one metric of several jobs as curves, and a table."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from math import isfinite
from operator import mul
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from gputui.core.amounts import DURATION_CELLS, counted, duration_cell, duration_words
from gputui.core.job import Job, JobId
from gputui.core.results import Curve, Direction, Point
from gputui.logs.plain import plain
from gputui.tui.actions.offered import offer
from gputui.tui.actions.table import view_bindings
from gputui.tui.chart import AXIS, GRID, UPRIGHT, Chart, ChartCurve, draw_chart
from gputui.tui.chrome import LinesView, OfferedKeys
from gputui.tui.dialogs.choosers import DIRECTIONS
from gputui.tui.queue.row_facts import seconds_of
from gputui.tui.text import Column, Line, Piece, beside, blank, fit, ljust, table
from gputui.tui.theme import CURVES, Ground, Look, bold, palette_of
from gputui.views.failures import learn_parameters
from gputui.views.format import decimals_of, result_text
from gputui.views.parameters import Parameters

from .base import ALWAYS, FullView

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# Charts


SIGNS = "●■◆▲○□◇△"
"""The signs of the best points of the curves, in the order of `CURVES`. Together with the name at the end of each
curve, they make it possible to tell curves apart without colour.
"""


def chart_pieces(
    chart: Chart, cells: int, height: int, looks: Sequence[Look], upright: Look = Look.WARNING
) -> list[list[Piece]]:
    """Return the lines of a chart, indented by one blank. `looks` contains the look of each curve by its number, and
    `upright` is the look of the vertical line.
    """
    scale_looks = {AXIS: Look.PAST, GRID: Look.LINE, UPRIGHT: upright}

    def look(text: str, owner: int) -> Look:
        own = scale_looks.get(owner, looks[owner % len(looks)])
        return bold(own) if text.startswith(("#", "★")) and own is not Look.PAST else own

    return [[blank(1), *((text, look(text, owner)) for text, owner in line)]
            for line in draw_chart(chart, cells, height)]  # fmt: skip


def wants_log(curves: Sequence[ChartCurve], direction: Direction) -> bool:
    """Return whether a logarithmic scale suits the curves: low values are better, all are positive, and the highest is
    more than twice the lowest.
    """
    values = [value for curve in curves for _, value in curve.points if isfinite(value)]
    return direction is Direction.DOWN and bool(values) and min(values) > 0 and max(values) > 2 * min(values)


def points_of(points: Sequence[Point], *, by_time: bool) -> list[tuple[float, float]]:
    """Return (x, value) pairs. x is the printed step, or the seconds since the first point.

    If there are several values at one step, for example from a progress bar within an epoch, they are spread evenly up
    to the next step.
    """
    if by_time:
        return [(point.at - points[0].at, point.value) for point in points]
    by_step: dict[float, list[float]] = {}
    for point in points:
        if point.step is not None:
            by_step.setdefault(point.step, []).append(point.value)
    steps = sorted(by_step)
    lengths = [after - step for step, after in pairwise(steps)]
    lengths += lengths[-1:] or [1.0][: len(steps)]
    most = max(map(len, by_step.values()), default=1)
    spread = []
    for number, (step, length) in enumerate(zip(steps, lengths, strict=True)):
        values = by_step[step]
        parts = len(values) if number + 1 < len(steps) else most
        spread += [(step + place / parts * length, value) for place, value in enumerate(values)]
    return spread


SMOOTHING = (0.0, 0.02, 0.04)
"""The standard deviations of the window with which curves are smoothed, each as a share of the number of points of a
curve. 0 means no smoothing.
"""
LEAST_DEVIATION = 0.7
"""Standard deviation in points below which smoothing would change nothing. Short curves are drawn as printed."""


def smoothed(points: Sequence[tuple[float, float]], smoothing: float) -> list[tuple[float, float]]:
    """Return a curve smoothed by local lines in a Gaussian window. The window is centred, because an average of only
    the past would draw every falling curve too high.
    """
    deviation = smoothing * len(points)
    if deviation < LEAST_DEVIATION:
        return list(points)
    reach = math.ceil(3 * deviation)
    kernel = [math.exp(-0.5 * (offset / deviation) ** 2) for offset in range(-reach, reach + 1)]
    values = [value for _, value in points]
    smooth = []
    for number, (x, value) in enumerate(points):
        first, last = max(0, number - reach), min(len(values), number + reach + 1)
        weights = kernel[first - number + reach : last - number + reach]
        window = values[first:last]
        total = sum(weights)
        mean = sum(map(mul, weights, window)) / total
        if last - first < len(kernel):  # at an end, a mean would lag behind: use the value of the local line
            offsets = range(first - number, last - number)
            centre = sum(map(mul, weights, offsets)) / total
            spread = sum(weight * (offset - centre) ** 2 for weight, offset in zip(weights, offsets, strict=True))
            slope = sum(
                weight * (offset - centre) * each
                for weight, offset, each in zip(weights, offsets, window, strict=True)
            ) / spread  # fmt: skip
            mean -= slope * centre
        smooth.append((x, mean if math.isfinite(mean) else value))
    return smooth


def value_at(points: Sequence[tuple[float, float]], x: float) -> float | None:
    """Return the value of the last point up to a position. Nothing is interpolated."""
    place = bisect_right(points, x, key=lambda point: point[0]) - 1
    return points[place][1] if place >= 0 else None


def best_of(points: Sequence[tuple[float, float]], direction: Direction) -> tuple[float, float] | None:
    """Return the best point, or None if it is unknown whether high or low values are better."""
    if not points or direction is Direction.UNKNOWN:
        return None
    pick = min if direction is Direction.DOWN else max
    return pick(points, key=lambda point: point[1])


def step_label(step: float | None) -> str:
    """Format a step, such as `32` or `11.9k`."""
    if step is None:
        return ""
    if step >= 10_000:
        return f"{step / 1000:.1f}k"
    return f"{step:.0f}" if step == int(step) else f"{step:.2f}"


# The table below the curves


MOST_VALUE = 14


class CurveRow(NamedTuple):
    job: Job
    points: Sequence[tuple[float, float]]
    best: tuple[float, float] | None
    result: tuple[float, float, float | None] | None
    """The best value, the last value, and the step of the best value, or None without results."""
    seconds: float | None
    at_cursor: Sequence[float | None] = ()
    """The values of the shown metrics at the vertical cursor, if there is one."""


def curve_table(
    rows: Sequence[CurveRow], parameters: Parameters, cursor: int, room: int, at: Sequence[str], *, ruled: bool
) -> list[Line]:
    """Return a heading, a line for each job, and a line with what all jobs have in common. `at` has the headings of the
    values at the vertical cursor.
    """
    heading, *cells = table(_columns(rows, parameters, at), room - 6)
    lines = [Line([blank(5), *heading], Ground.PAGE if ruled else Ground.BAND)]
    for number, row in enumerate(cells):
        swatch = (f" ━{SIGNS[number % len(SIGNS)]}  ", CURVES[number % len(CURVES)])
        lines.append(Line([swatch, *row], Ground.CURSOR if number == cursor else Ground.PAGE, value=number))
    common = parameters.common()
    same = f"   ·   same for all: {plain(common)}" if common and len(rows) > 1 else ""
    return [*lines, Line([(f" {' '.join(SIGNS[:3])} the best value of each{same}", Look.PAST)])]


def _columns(rows: Sequence[CurveRow], parameters: Parameters, at: Sequence[str]) -> list[Column]:
    """Return the columns, least important last."""
    places = decimals_of([row.result[0] for row in rows if row.result is not None])
    best = [(_number(row, 0, places), Look.TEXT) for row in rows]
    if best and best[0][0]:
        best[0] = (f"★ {best[0][0]}", Look.BEST)
    steps = [step_label(row.result[2]) if row.result is not None else "" for row in rows]
    times = [duration_cell(row.seconds) if row.seconds is not None else "" for row in rows]
    at_cursor: list[tuple[str, bool, Sequence[Piece]]] = []
    for number, title in enumerate(at):
        values = [row.at_cursor[number] for row in rows]
        decimals = decimals_of([value for value in values if value is not None and isfinite(value)])
        texts = ["" if value is None else result_text(value, decimals) for value in values]
        at_cursor.append((plain(title), True, [(text, Look.FOCUS) for text in texts]))
    columns: list[tuple[str, bool, Sequence[Piece]]] = [
        ("id", True, [(str(row.job.id), Look.TEXT) for row in rows]),
        *((plain(column.title), column.is_number,
           [(plain(parameters.value(row.job, column.name) or ""), Look.TEXT) for row in rows])
          for column in parameters.columns()),
        *at_cursor[:1],
        ("best", True, best),
        ("at step", True, [(step, Look.PAST) for step in steps]),
        ("last", True, [(_number(row, 1, places), Look.PAST) for row in rows]),
        ("since best", True, [_since_best(row, rows, places) for row in rows]),
        *at_cursor[1:],
        ("time", True, [(time.rjust(DURATION_CELLS), Look.PAST) for time in times]),
    ]  # fmt: skip
    return [
        Column(title, cells, to_right, rank, most=MOST_VALUE) for rank, (title, to_right, cells) in enumerate(columns)
    ]


def _number(row: CurveRow, index: int, places: int) -> str:
    value = row.result[index] if row.result is not None else None
    return result_text(value, places) if value is not None else ""


def _since_best(row: CurveRow, rows: Sequence[CurveRow], places: int) -> Piece:
    """Return the distance of the last value from the best value. The largest distance of all jobs is highlighted."""
    if row.result is None:
        return "", Look.PAST
    distance = row.result[1] - row.result[0]
    furthest = max(abs(other.result[1] - other.result[0]) for other in rows if other.result is not None)
    stands_out = len(rows) > 1 and distance and abs(distance) == furthest
    return f"{distance:+.{places}f}" if distance else "", Look.WARNING if stands_out else Look.PAST


BESIDE = 100
"""Minimum width of the screen for further metrics beside the main one."""
LEAST_CHART = 8
"""Minimum height of a chart of a further metric, including its title."""
MOST_BESIDE = 3


class DrawnCurve(NamedTuple):
    """The points of a curve, with the data from which they were computed."""

    own: Sequence[Point]
    by_time: bool
    smoothing: int
    points: list[tuple[float, float]]
    smooth: list[tuple[float, float]]


class CurvesView(FullView):
    """The view with the curves of several jobs and a table of them. The key is `m m`."""

    BINDINGS: ClassVar[list[BindingType]] = view_bindings("curves", "details", "copy_command")
    DEFAULT_CSS = """
    CurvesView #charts { height: 1fr; }
    CurvesView #results { height: 10; }
    """

    def __init__(self, main: MainScreen, jobs: Sequence[JobId], which_jobs: str, metric: str) -> None:
        """Create the view. `which_jobs` describes the selection of jobs."""
        super().__init__(main, "m", "Curves")
        self.jobs = list(jobs)
        self.metric = metric
        self.by_time = False
        self.cursor = 0
        self._job: JobId | None = None
        """The job under the cursor. The cursor follows the job when the order changes."""
        self._which_jobs = which_jobs
        self._curves: dict[JobId, tuple[Curve, ...]] = {}
        self._parameters: Parameters | None = None
        """The parameters in which the jobs differ."""
        self.x: float | None = None
        """The position of the vertical cursor, or None if there is none."""
        self.window: tuple[float, float] | None = None
        """The visible part of the x axis, or None for all of it."""
        self.log_y: bool | None = None
        """Whether the y axes are logarithmic, or None to decide for each metric with `wants_log`."""
        self.smoothing = 2
        """The index of the current smoothing in `SMOOTHING`."""
        self._drawn: dict[tuple[JobId, str], DrawnCurve] = {}
        self._charts: dict[str, tuple[object, list[list[Piece]]]] = {}
        """The chart of each metric, with the data from which it was drawn."""
        self.charts = LinesView(id="charts")
        self.table = LinesView(id="results")

    def body(self) -> ComposeResult:
        yield self.charts
        yield self.table

    def on_mount(self) -> None:
        self._request_curves(self.jobs)

    def _request_curves(self, jobs: Iterable[JobId]) -> None:
        for job in jobs:
            self.main.bridge.curves(job, None, partial(self._curves_loaded, job))

    def _curves_loaded(self, job: JobId, curves: tuple[Curve, ...]) -> None:
        if curves != self._curves.get(job) and self.is_attached:
            self._curves[job] = curves
            self.paint()

    # Contents

    def renew(self) -> None:
        self._request_curves(job for job in self.jobs if job in self.snapshot.active)
        metrics = self._shown_metrics()
        rows = self.rows(metrics)
        jobs = [row.job.id for row in rows]
        self.cursor = jobs.index(self._job) if self._job in jobs else max(0, min(self.cursor, len(jobs) - 1))
        self._job = jobs[self.cursor] if jobs else None
        self._show_title()
        if self._parameters is None:
            self._parameters = learn_parameters(self.snapshot[job] for job in self.jobs if job in self.snapshot)
        ruled = palette_of(self.app.theme).rules
        where = f"at {self._x_text()}"
        at = [where, *(f"{name} {where}" for name in metrics[1:])] if self.x is not None else []
        table = curve_table(rows, self._parameters, self.cursor, self.size.width, at, ruled=ruled)
        self.table.styles.height = len(table)
        self.table.show(table)
        self._show_charts(jobs, metrics, self.size.height - len(table) - 3)

    def _show_title(self) -> None:
        about = f"  of {self._which_jobs}, by {'time' if self._by_time() else 'step'}"
        if SMOOTHING[self.smoothing] and self.size.width >= BESIDE:
            about += f"   smoothing {SMOOTHING[self.smoothing]:.0%}"
        left = [("   ", Look.TEXT), (plain(self.metric), Look.BEST), (about, Look.PAST)]
        if self.x is not None:
            left += [("   cursor at ", Look.PAST), (self._x_text(), Look.FOCUS_BOLD)]
        self.band.show(left, [(DIRECTIONS[self.direction], Look.PAST)])

    def _x_text(self) -> str:
        return duration_words(self.x or 0.0) if self._by_time() else step_label(self.x)

    def _metrics(self) -> list[str]:
        """Return the names of all metrics that the jobs have printed."""
        return list(dict.fromkeys(curve.name for curves in self._curves.values() for curve in curves))

    def _shown_metrics(self) -> list[str]:
        """Return the main metric and, of the other metrics with more than one value, as many as fit beside it."""
        if self.size.width < BESIDE:
            return [self.metric]
        several = (curve for curves in self._curves.values() for curve in curves if len(curve.points) > 1)
        others = [name for name in dict.fromkeys(curve.name for curve in several) if name != self.metric]
        room = (self.size.height - len(self.jobs) - 6) // LEAST_CHART
        return [self.metric, *others[: min(MOST_BESIDE, room)]]

    def _show_charts(self, jobs: Sequence[JobId], metrics: Sequence[str], height: int) -> None:
        width = self.size.width
        others = metrics[1:]
        half = width * 11 // 20 if others else width
        main = self._chart(metrics[0], jobs, half, height)
        if not main:
            self.charts.show([Line([(f" No {plain(self.metric)} printed yet.", Look.PAST)])])
            return
        right: list[list[Piece]] = []
        for number, name in enumerate(others):
            tall = height // len(others) + (height % len(others) if number == len(others) - 1 else 0)
            title = ljust(f" {plain(name)}   {DIRECTIONS[self.snapshot.direction(name)]}", width - half - 1)
            chart = self._chart(name, jobs, width - half - 1, tall - 1)
            right += [[(title, Look.HEAD)], *chart, *([[]] * (tall - 1 - len(chart)))]
        if others:
            main = [[*fit(pieces, half), ("│", Look.LINE)] for pieces in main]
        self.charts.show([Line(pieces) for pieces in beside([main, right], half + bool(others))])

    def _chart(self, metric: str, jobs: Sequence[JobId], cells: int, height: int) -> list[list[Piece]]:
        direction = self.snapshot.direction(metric)
        curves: list[ChartCurve] = []
        faint: list[ChartCurve] = []
        for number, job in enumerate(jobs):
            printed, smooth = self._points(job, metric)
            best = best_of(printed, direction)
            best = smooth[printed.index(best)] if best is not None else None
            curves.append(ChartCurve(smooth, number, f"#{job}", best, SIGNS[number % len(SIGNS)]))
            if SMOOTHING[self.smoothing]:
                faint.append(ChartCurve(printed, len(CURVES), is_joined=False))
        log = wants_log(curves, direction) if self.log_y is None else self.log_y
        made = (curves, faint, direction, self._by_time(), self.x, self.window, log, cells, height)
        if metric in self._charts and self._charts[metric][0] == made:
            return self._charts[metric][1]
        left, right = self.window if self.window is not None else (None, None)
        x_label = duration_words if self._by_time() else None
        chart = Chart([*curves, *faint], direction is Direction.DOWN, x_label, self.x, left, right, log=log)
        lines = chart_pieces(chart, cells - 1, height, (*CURVES, Look.LINE), Look.FOCUS)
        self._charts[metric] = (made, lines)
        return lines

    def _points(self, job: JobId, metric: str) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """Return the points of a curve and the smoothed ones."""
        own = next((curve.points for curve in self._curves.get(job, ()) if curve.name == metric), ())
        by_time, drawn = self._by_time(), self._drawn.get((job, metric))
        if drawn is None or drawn.own is not own or (drawn.by_time, drawn.smoothing) != (by_time, self.smoothing):
            points = points_of(own, by_time=by_time)
            smooth = smoothed(points, SMOOTHING[self.smoothing])
            drawn = self._drawn[job, metric] = DrawnCurve(own, by_time, self.smoothing, points, smooth)
        return drawn.points, drawn.smooth

    @property
    def direction(self) -> Direction:
        return self.snapshot.direction(self.metric)

    def rows(self, metrics: Sequence[str] = ()) -> list[CurveRow]:
        """Return a row for each job, best first. Jobs without results come last."""
        now = self.main.now()
        curve_rows = []
        for job_id in self.jobs:
            if job_id in self.snapshot:
                job = self.snapshot[job_id]
                points = self._points(job_id, self.metric)[0]
                at = [value_at(self._points(job_id, name)[0], self.x) for name in metrics] if self.x is not None else ()
                best, result = best_of(points, self.direction), self._result(job)
                curve_rows.append(CurveRow(job, points, best, result, seconds_of(job, now), at))
        return sorted(curve_rows, key=self._rank)

    def _result(self, job: Job) -> tuple[float, float, float | None] | None:
        results = self.snapshot.results.get(job.id)
        metric_result = results.get(self.metric, self.direction) if results is not None else None
        return (metric_result.best, metric_result.last, metric_result.best_step) if metric_result is not None else None

    def _rank(self, row: CurveRow) -> tuple[int, float, int]:
        if row.result is None:
            return 1, 0.0, row.job.id
        return 0, -row.result[0] if self.direction is Direction.UP else row.result[0], row.job.id

    def _by_time(self) -> bool:
        """Return whether the x axis is time, either because the user chose it or because a job prints no steps."""
        points = [curve.points for curves in self._curves.values() for curve in curves if curve.name == self.metric]
        return self.by_time or any(point.step is None for own in points for point in own[:1])

    # Keys

    def offers(self) -> OfferedKeys:
        row = [("x_on", "Cursor"), offer("log_y"), offer("smooth"), ("curves_in", "- Zoom"), offer("next_metric")]
        more = [offer("unmark_curve"), ("x_axis", "By step" if self.by_time else "By time")]
        return OfferedKeys(row, more, [offer("details")], always=ALWAYS)

    def chosen(self) -> list[Job]:
        return [self.snapshot[self._job]] if self._job is not None and self._job in self.snapshot else []

    def action_move(self, by: int) -> None:
        self._go(self.cursor + by)

    def _go(self, row: int) -> None:
        self.cursor, self._job = row, None
        self.paint()

    def act_unmark_curve(self) -> None:
        chosen = self.chosen()
        if chosen and len(self.jobs) > 1:
            self.jobs.remove(chosen[0].id)
            self._which_jobs = counted(len(self.jobs), "job", "jobs")
            self._parameters = None
            self.paint()
        else:
            self.go_back()

    def act_next_metric(self) -> None:
        names = self._metrics()
        if len(names) < 2:
            self.main.say("no other metrics")
            return
        place = names.index(self.metric) if self.metric in names else -1
        self.metric = names[(place + 1) % len(names)]
        self.paint()

    def act_x_axis(self) -> None:
        self.by_time = not self.by_time
        self.x = self.window = None
        self.paint()

    def act_log_y(self) -> None:
        """Switch all charts between a linear and a logarithmic y axis."""
        curves = [ChartCurve(self._points(job, self.metric)[0], 0) for job in self.jobs]
        self.log_y = not (wants_log(curves, self.direction) if self.log_y is None else self.log_y)
        self.paint()

    def act_smooth(self) -> None:
        self.smoothing = (self.smoothing + 1) % len(SMOOTHING)
        self.paint()

    # The vertical cursor and the visible part

    def _positions(self) -> list[float]:
        """Return the positions of all points, in order."""
        return sorted({x for job in self.jobs for x, _ in self._points(job, self.metric)[0]})

    def _move_x(self, by: int) -> None:
        """Move the cursor to another printed point, or put it on the last one."""
        positions = self._positions()
        if not positions:
            return
        left, right = self.window or (positions[0], positions[-1])
        positions = [x for x in positions if left <= x <= right] or positions
        step = max(1, len(positions) // 60)
        place = bisect_right(positions, self.x) - 1 + by * step if self.x is not None else len(positions) - 1
        self.x = positions[max(0, min(place, len(positions) - 1))]
        self.paint()

    def act_x_back(self) -> None:
        self._move_x(-1)

    def act_x_on(self) -> None:
        self._move_x(1)

    def _zoom(self, factor: float, shift: float = 0.0) -> None:
        """Show a part of the x axis: `factor` times as long, moved by a share of its length."""
        positions = self._positions()
        if len(positions) < 2:
            return
        first, last = positions[0], positions[-1]
        left, right = self.window or (first, last)
        length = (right - left) * factor
        centre = (left + right) / 2 + shift * length
        if self.x is not None and not shift:
            centre = self.x
        if length >= last - first:
            self.window = None
        else:
            left = max(first, min(centre - length / 2, last - length))
            self.window = (left, left + length)
        self.paint()

    def act_curves_in(self) -> None:
        self._zoom(0.5)

    def act_curves_out(self) -> None:
        self._zoom(2.0)

    def act_curves_back(self) -> None:
        self._zoom(1.0, -0.25)

    def act_curves_on(self) -> None:
        self._zoom(1.0, 0.25)

    def act_curves_all(self) -> None:
        self.window = None
        self.paint()

    @on(LinesView.LineClicked)
    def _row_clicked(self, event: LinesView.LineClicked) -> None:
        if isinstance(event.value, int):
            self._go(event.value)
