"""`m m`: one metric of several jobs over each other, and a table of what each came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.core.job import Job, JobId
from gputui.core.metric_names import direction_of
from gputui.core.results import Curve, Direction
from gputui.core.views.amounts import counted, duration_words
from gputui.core.views.in_common import learnt_parameters
from gputui.core.views.parameter_columns import Parameters
from gputui.logs.plain import plain
from gputui.tui.actions.table import view_bindings
from gputui.tui.looks.palette import palette_of
from gputui.tui.model.chart import Chart, ChartCurve
from gputui.tui.model.words import seconds_of
from gputui.tui.screens.view import ALWAYS, FullView
from gputui.tui.widgets.footer import OfferedKeys, offer
from gputui.tui.widgets.view_rows import ViewRow, ViewRows

from .chooser import WAYS
from .painting import best_of, chart_rows, curve_styles, points_of
from .table import CurveRow, curve_table

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

__all__ = ["MOST", "CurvesView"]

MOST = 6


class CurvesView(FullView):
    BINDINGS: ClassVar[list[BindingType]] = [
        *view_bindings("curves", "details", "copy_command"),
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
    ]
    DEFAULT_CSS = """
    CurvesView #chart { height: 1fr; }
    CurvesView #came-to { height: 10; }
    """

    def __init__(self, main: MainScreen, jobs: Sequence[JobId], which_jobs: str, metric: str) -> None:
        """`which_jobs`: in words."""
        super().__init__(main, "m", "Curves")
        self.jobs = list(jobs)
        self.metric = metric
        self.by_time = False
        self.cursor = 0
        self._which_jobs = which_jobs
        self._curves: dict[JobId, tuple[Curve, ...]] = {}
        self._parameters: Parameters | None = None
        self.chart = ViewRows(id="chart")
        self.table = ViewRows(id="came-to")

    def body(self) -> ComposeResult:
        yield self.chart
        yield self.table

    def on_mount(self) -> None:  # Textual calls the one of the base too
        self.ask()

    def ask(self) -> None:
        """The owner for the points."""
        for job in self.jobs:
            self.main.bridge.curves(job, None, lambda curves, job=job: self._found(job, curves))  # type: ignore[misc]

    def _found(self, job: JobId, curves: tuple[Curve, ...]) -> None:
        if curves != self._curves.get(job) and self.is_attached:
            self._curves[job] = curves
            self.paint()

    # What is shown

    def renew(self) -> None:
        for job in self.jobs:
            if job in self.snapshot.active:
                self.main.bridge.curves(job, None, lambda curves, job=job: self._found(job, curves))  # type: ignore[misc]
        palette = palette_of(self.app.theme)
        rows, by_time = self.rows(), self._by_time()
        self.cursor = max(0, min(self.cursor, len(rows) - 1))
        x_name = "time" if by_time else "step"
        about = f"  of {self._which_jobs}, by {x_name}"
        left = [("   ", palette.text), (plain(self.metric), palette.best), (about, palette.past)]
        self.band.show(left, [(WAYS[self.direction], palette.past)])
        table = curve_table(rows, self._learnt(), self.cursor, self.size.width, palette)
        self.table.styles.height = len(table)
        self.table.show(table)
        self._show_chart(rows, by_time)

    def _show_chart(self, rows: list[CurveRow], by_time: bool) -> None:
        palette = palette_of(self.app.theme)
        curves = [
            ChartCurve(row.points, number, f"#{row.job.id}", row.best) for number, row in enumerate(rows) if row.points
        ]
        x_told = duration_words if by_time else None
        chart = Chart(curves, down=self.direction is Direction.DOWN, x_told=x_told)
        height = self.size.height - 3 - int(self.table.styles.height.value if self.table.styles.height else 0)
        lines = chart_rows(chart, self.size.width - 2, height - 2, curve_styles(palette), palette)
        nothing = [ViewRow([(f" None of them has printed {plain(self.metric)} yet.", palette.past)])]
        indented = [ViewRow([(" ", palette.text), *line.left]) for line in lines]
        self.chart.show([ViewRow(), *indented] if lines else nothing)

    @property
    def direction(self) -> Direction:
        main = self.snapshot.metric
        return main.direction if main is not None and main.name == self.metric else direction_of(self.metric)

    def rows(self) -> list[CurveRow]:
        """Best first; what has printed nothing last."""
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
        """Best, last, and the step of the best."""
        results = self.snapshot.results.get(job.id)
        metric_result = results.get(self.metric) if results is not None else None
        return (metric_result.best, metric_result.last, metric_result.best_step) if metric_result is not None else None

    def _rank(self, row: CurveRow) -> tuple[int, float, int]:
        if row.result is None:
            return 1, 0.0, row.job.id
        return 0, -row.result[0] if self.direction is Direction.UP else row.result[0], row.job.id

    def _by_time(self) -> bool:
        """Also where one of them prints no steps."""
        points = [curve.points for curves in self._curves.values() for curve in curves if curve.name == self.metric]
        return self.by_time or any(point.step is None for own in points for point in own[:1])

    def _learnt(self) -> Parameters:
        """Only the parameters in which these differ are told."""
        if self._parameters is None:
            self._parameters = learnt_parameters(self.snapshot[job] for job in self.jobs if job in self.snapshot)
        return self._parameters

    # Keys

    def offers(self) -> OfferedKeys:
        row = [offer("details"), offer("unmark_curve"), offer("next_metric")]
        return OfferedKeys([*row, ("x_axis", "By step" if self.by_time else "By time")], always=ALWAYS)

    def chosen(self) -> list[Job] | None:
        rows = self.rows()
        return [rows[self.cursor].job] if self.cursor < len(rows) else []

    def action_move(self, by: int) -> None:
        self.cursor = max(0, min(self.cursor + by, len(self.jobs) - 1))
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
            self.main.say("they have printed no other metric")
            return
        place = names.index(self.metric) if self.metric in names else -1
        self.metric = names[(place + 1) % len(names)]
        self.paint()

    def act_x_axis(self) -> None:
        self.by_time = not self.by_time
        self.paint()

    @on(ViewRows.RowClicked)
    def _row_clicked(self, event: ViewRows.RowClicked) -> None:
        if isinstance(event.value, int):
            self.cursor = event.value
            self.paint()
