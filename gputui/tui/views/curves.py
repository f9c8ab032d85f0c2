"""One metric of several jobs as curves, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.core.amounts import DURATION_CELLS, counted, duration_cell, duration_words
from gputui.core.job import Job, JobId
from gputui.core.parameter_columns import Parameters
from gputui.core.results import Curve, Direction, Point
from gputui.logs.plain import plain
from gputui.tui.action_table import view_bindings
from gputui.tui.chart import AXIS, GRID, UPRIGHT, Chart, ChartCurve, drawn
from gputui.tui.chrome import BandPart, OfferedKeys, offer
from gputui.tui.dialogs.choosers import WAYS
from gputui.tui.queue.row_facts import seconds_of
from gputui.tui.theme import Palette, palette_of
from gputui.views.failures import learnt_parameters
from gputui.views.format import cut

from .base import ALWAYS, FullView, ViewRow, ViewRows

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# ---- A chart as rows of a view ----


MOST_DECIMALS = 4


def curve_styles(palette: Palette) -> tuple[Style, ...]:
    """The best is green; none is told by its colour alone, for each has its name at its end."""
    return (palette.running, palette.focus + Style(underline=False), palette.stranger, palette.warning, palette.memory,
            palette.failure)  # fmt: skip


def chart_rows(chart: Chart, width: int, height: int, styles: Sequence[Style], palette: Palette) -> list[ViewRow]:
    around = {AXIS: palette.past, GRID: palette.line, UPRIGHT: palette.warning}
    bold = Style(bold=True)

    def style(text: str, owner: int) -> Style:
        own = around.get(owner)
        if own is not None:
            return own
        return styles[owner % len(styles)] + bold if text.startswith("#") else styles[owner % len(styles)]

    return [ViewRow([(text, style(text, owner)) for text, owner in line]) for line in drawn(chart, width, height)]


def points_of(points: Sequence[Point], *, by_time: bool) -> list[tuple[float, float]]:
    """Against the step that was printed with each, or the seconds since the first.

    Of several at one step, as a bar prints them within an epoch, each stands a part of the way to the next.
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
    """None: nobody knows which way is good."""
    if not points or direction is Direction.UNKNOWN:
        return None
    pick = min if direction is Direction.DOWN else max
    return pick(points, key=lambda point: point[1])


def decimals_of(values: Sequence[float]) -> int:
    """Enough that the two nearest of them differ, at most four."""
    ordered = sorted(set(values))
    gaps = [right - left for left, right in pairwise(ordered)]
    least = min(gaps, default=abs(ordered[0]) / 100 if ordered else 0)
    largest = max(map(abs, ordered), default=0)
    if largest >= 10_000 or all(value == int(value) for value in ordered if abs(value) < 1e15):
        return 0
    fewest = 4 if largest < 10 else 3 if largest < 100 else 2 if largest < 1000 else 1
    return next((places for places in range(fewest, MOST_DECIMALS) if round(least, places) > 0), MOST_DECIMALS)


def step_told(step: float | None) -> str:
    """`32`, `11.9k`."""
    if step is None:
        return ""
    if step >= 10_000:
        return f"{step / 1000:.1f}k"
    return f"{step:.0f}" if step == int(step) else f"{step:.2f}"


# ---- What each of some jobs came to by one metric, as a table below their curves ----


SWATCH = "━━"
MOST_VALUE = 14
GAP = "  "


class CurveRow(NamedTuple):
    job: Job
    points: Sequence[tuple[float, float]]
    best: tuple[float, float] | None
    result: tuple[float, float, float | None] | None
    """Best, last, and the step of the best."""
    seconds: float | None


class CurveCell(NamedTuple):
    text: str
    style: Style


def curve_table(
    rows: Sequence[CurveRow], parameters: Parameters, cursor: int, width: int, palette: Palette
) -> list[ViewRow]:
    """A head, the jobs, and what is the same in all of them."""
    columns = _columns(rows, parameters, palette)
    widths = [max([cell_len(title), *(cell_len(cell.text) for cell in cells)]) for title, _, cells in columns]
    shown = _shown(widths, width - 6)
    head = GAP.join(_cell(columns[at][0], widths[at], right=columns[at][1]) for at in shown)
    table_rows = [ViewRow([(f"     {head}", palette.past)], band=not palette.rules)]
    styles = curve_styles(palette)
    for number, _ in enumerate(rows):
        parts: list[BandPart] = [(f" {SWATCH}  ", styles[number % len(styles)])]
        for at in shown:
            _, right, cells = columns[at]
            parts.append((_cell(cells[number].text, widths[at], right=right) + GAP, cells[number].style))
        table_rows.append(ViewRow(parts, selected=number == cursor, value=number))
    common = parameters.common()
    same = f"   ·   all the same: {plain(common)}" if common and len(rows) > 1 else ""
    return [*table_rows, ViewRow(), ViewRow([(f" ● is its best{same}", palette.past)]), ViewRow()]


def _columns(
    rows: Sequence[CurveRow], parameters: Parameters, palette: Palette
) -> list[tuple[str, bool, list[CurveCell]]]:
    """Titles, whether they stand to the right, and cells; the least needed last."""
    values = [value for row in rows if row.result is not None for value in row.result[:2]]
    places = decimals_of(values)
    columns: list[tuple[str, bool, list[CurveCell]]] = [
        ("id", True, [CurveCell(str(row.job.id), palette.text) for row in rows]),
    ]
    for column in parameters.columns():
        parameter_values = [plain(parameters.value(row.job, column.name) or "") for row in rows]
        columns.append(
            (
                plain(column.title),
                column.is_number,
                [CurveCell(cut(text, MOST_VALUE), palette.text) for text in parameter_values],
            )
        )
    best = [_number(row, 0, places) for row in rows]
    stars = [f"★ {text}" if not at and text else text for at, text in enumerate(best)]
    cells = [CurveCell(text, palette.text if at else palette.best) for at, text in enumerate(stars)]
    columns.append(("best", True, cells))
    steps = [step_told(row.result[2]) if row.result is not None else "" for row in rows]
    columns.append(("at step", True, [CurveCell(step, palette.past) for step in steps]))
    columns.append(("last", True, [CurveCell(_number(row, 1, places), palette.past) for row in rows]))
    columns.append(("since best", True, [_since(row, rows, places, palette) for row in rows]))
    times = [duration_cell(row.seconds) if row.seconds is not None else "" for row in rows]
    columns.append(("time", True, [CurveCell(duration.rjust(DURATION_CELLS), palette.past) for duration in times]))
    return columns


def _number(row: CurveRow, which: int, places: int) -> str:
    value = row.result[which] if row.result is not None else None
    return f"{value:,.{places}f}" if value is not None else ""


def _since(row: CurveRow, rows: Sequence[CurveRow], places: int, palette: Palette) -> CurveCell:
    """How far it has gone from its best; the one that has gone furthest stands out."""
    if row.result is None:
        return CurveCell("", palette.past)
    distance = row.result[1] - row.result[0]
    furthest = max(abs(other.result[1] - other.result[0]) for other in rows if other.result is not None)
    stands_out = len(rows) > 1 and distance and abs(distance) == furthest
    return CurveCell(f"{distance:+.{places}f}" if distance else "", palette.warning if stands_out else palette.past)


def _shown(widths: Sequence[int], room: int) -> list[int]:
    """The columns that fit, from the left."""
    shown = []
    for at, wide in enumerate(widths):
        if wide + len(GAP) > room:
            break
        room -= wide + len(GAP)
        shown.append(at)
    return shown


def _cell(text: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


# ---- `m m` ----


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
        self._job: JobId | None = None
        """The job under the cursor, which stays on it when a better one comes before it."""
        self._which_jobs = which_jobs
        self._curves: dict[JobId, tuple[Curve, ...]] = {}
        self._parameters: Parameters | None = None
        self.chart = ViewRows(id="chart")
        self.table = ViewRows(id="came-to")

    def body(self) -> ComposeResult:
        yield self.chart
        yield self.table

    def on_mount(self) -> None:
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
        self._settle(rows)
        x_name = "time" if by_time else "step"
        about = f"  of {self._which_jobs}, by {x_name}"
        left = [("   ", palette.text), (plain(self.metric), palette.best), (about, palette.past)]
        self.band.show(left, [(WAYS[self.direction], palette.past)])
        table = curve_table(rows, self._learnt(), self.cursor, self.size.width, palette)
        self.table.styles.height = len(table)
        self.table.show(table)
        self._show_chart(rows, by_time)

    def _settle(self, rows: list[CurveRow]) -> None:
        jobs = [row.job.id for row in rows]
        self.cursor = jobs.index(self._job) if self._job in jobs else max(0, min(self.cursor, len(jobs) - 1))
        self._job = jobs[self.cursor] if jobs else None

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
        return self.snapshot.direction(self.metric)

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
        metric_result = results.get(self.metric, self.direction) if results is not None else None
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
            self._go(event.value)
