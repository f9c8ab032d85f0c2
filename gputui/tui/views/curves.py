"""The curves view: one metric of several jobs as curves, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from math import isfinite
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
from gputui.tui.text import Column, Line, Piece, blank, table
from gputui.tui.theme import CURVES, Ground, Look, bold, palette_of
from gputui.views.failures import learn_parameters
from gputui.views.format import decimals_of, result_text
from gputui.views.parameters import Parameters

from .base import ALWAYS, FullView

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# Charts


"""The looks of the curves, best first (green). A name at the end of each curve identifies it without colour."""
_SCALE_LOOKS = {AXIS: Look.PAST, GRID: Look.LINE, UPRIGHT: Look.WARNING}


def chart_pieces(chart: Chart, cells: int, height: int, looks: Sequence[Look]) -> list[list[Piece]]:
    """Return the lines of a chart, indented by one blank. `looks` are by the numbers of the curves."""

    def look(text: str, owner: int) -> Look:
        own = _SCALE_LOOKS.get(owner, looks[owner % len(looks)])
        return bold(own) if text.startswith(("#", "★")) else own

    return [[blank(1), *((text, look(text, owner)) for text, owner in line)]
            for line in draw_chart(chart, cells, height)]  # fmt: skip


def wants_log(curves: Sequence[ChartCurve], direction: Direction) -> bool:
    """Return whether a logarithmic scale suits the curves: those of a loss that spans more than a factor of 2."""
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


SWATCH = "━━"
MOST_VALUE = 14


class CurveRow(NamedTuple):
    job: Job
    points: Sequence[tuple[float, float]]
    best: tuple[float, float] | None
    result: tuple[float, float, float | None] | None
    """The best value, the last value, and the step of the best value, or None without results."""
    seconds: float | None


def curve_table(rows: Sequence[CurveRow], parameters: Parameters, cursor: int, room: int, *, ruled: bool) -> list[Line]:
    """Return a heading, a line for each job, and a line with what all jobs have in common."""
    heading, *cells = table(_columns(rows, parameters), room - 6)
    lines = [Line([blank(5), *heading], Ground.PAGE if ruled else Ground.BAND)]
    for number, row in enumerate(cells):
        swatch = (f" {SWATCH}  ", CURVES[number % len(CURVES)])
        lines.append(Line([swatch, *row], Ground.CURSOR if number == cursor else Ground.PAGE, value=number))
    common = parameters.common()
    same = f"   ·   same for all: {plain(common)}" if common and len(rows) > 1 else ""
    return [*lines, Line(), Line([(f" ● best value{same}", Look.PAST)]), Line()]


def _columns(rows: Sequence[CurveRow], parameters: Parameters) -> list[Column]:
    """Return the columns, least important last."""
    places = decimals_of([row.result[0] for row in rows if row.result is not None])
    best = [(_number(row, 0, places), Look.TEXT) for row in rows]
    if best and best[0][0]:
        best[0] = (f"★ {best[0][0]}", Look.BEST)
    steps = [step_label(row.result[2]) if row.result is not None else "" for row in rows]
    times = [duration_cell(row.seconds) if row.seconds is not None else "" for row in rows]
    columns: list[tuple[str, bool, Sequence[Piece]]] = [
        ("id", True, [(str(row.job.id), Look.TEXT) for row in rows]),
        *((plain(column.title), column.is_number,
           [(plain(parameters.value(row.job, column.name) or ""), Look.TEXT) for row in rows])
          for column in parameters.columns()),
        ("best", True, best),
        ("at step", True, [(step, Look.PAST) for step in steps]),
        ("last", True, [(_number(row, 1, places), Look.PAST) for row in rows]),
        ("since best", True, [_since_best(row, rows, places) for row in rows]),
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


class CurvesView(FullView):
    """The view with the curves of several jobs and a table of them. The key is `m m`."""

    BINDINGS: ClassVar[list[BindingType]] = view_bindings("curves", "details", "copy_command")
    DEFAULT_CSS = """
    CurvesView #chart { height: 1fr; }
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
        self.chart = LinesView(id="chart")
        self.table = LinesView(id="results")

    def body(self) -> ComposeResult:
        yield self.chart
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
        rows, by_time = self.rows(), self._by_time()
        jobs = [row.job.id for row in rows]
        self.cursor = jobs.index(self._job) if self._job in jobs else max(0, min(self.cursor, len(jobs) - 1))
        self._job = jobs[self.cursor] if jobs else None
        about = f"  of {self._which_jobs}, by {'time' if by_time else 'step'}"
        left = [("   ", Look.TEXT), (plain(self.metric), Look.BEST), (about, Look.PAST)]
        self.band.show(left, [(DIRECTIONS[self.direction], Look.PAST)])
        if self._parameters is None:
            self._parameters = learn_parameters(self.snapshot[job] for job in self.jobs if job in self.snapshot)
        ruled = palette_of(self.app.theme).rules
        table = curve_table(rows, self._parameters, self.cursor, self.size.width, ruled=ruled)
        self.table.styles.height = len(table)
        self.table.show(table)
        curves = [
            ChartCurve(row.points, number, f"#{row.job.id}", row.best) for number, row in enumerate(rows) if row.points
        ]
        x_label = duration_words if by_time else None
        chart = Chart(curves, down=self.direction is Direction.DOWN, x_label=x_label)
        lines = chart_pieces(chart, self.size.width - 2, self.size.height - len(table) - 5, CURVES)
        nothing = [Line([(f" No {plain(self.metric)} printed yet.", Look.PAST)])]
        self.chart.show([Line(), *map(Line, lines)] if lines else nothing)

    @property
    def direction(self) -> Direction:
        return self.snapshot.direction(self.metric)

    def rows(self) -> list[CurveRow]:
        """Return a row for each job, best first. Jobs without results come last."""
        by_time, now = self._by_time(), self.main.now()
        curve_rows = []
        for job_id in self.jobs:
            if job_id in self.snapshot:
                job = self.snapshot[job_id]
                own = next((curve.points for curve in self._curves.get(job_id, ()) if curve.name == self.metric), ())
                points = points_of(own, by_time=by_time)
                result = self._result(job)
                best = best_of(points, self.direction)
                curve_rows.append(CurveRow(job, points, best, result, seconds_of(job, now)))
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
        row = [offer("details"), offer("unmark_curve"), offer("next_metric")]
        return OfferedKeys([*row, ("x_axis", "By step" if self.by_time else "By time")], always=ALWAYS)

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
        names = list(dict.fromkeys(curve.name for curves in self._curves.values() for curve in curves))
        if len(names) < 2:
            self.main.say("no other metrics")
            return
        place = names.index(self.metric) if self.metric in names else -1
        self.metric = names[(place + 1) % len(names)]
        self.paint()

    def act_x_axis(self) -> None:
        self.by_time = not self.by_time
        self.paint()

    @on(LinesView.LineClicked)
    def _row_clicked(self, event: LinesView.LineClicked) -> None:
        if isinstance(event.value, int):
            self._go(event.value)
