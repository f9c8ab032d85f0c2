"""The charts of one job: its metrics, and what its attempt used over time.

The chart of the main metric shows it by step, with the siblings and the best job for comparison. All other charts have
the same x axis, which is the time since the start of the attempt, so that events in different charts can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputui.core.amounts import duration_exact, duration_words
from gputui.core.job import Job, JobId
from gputui.core.results import Curve, Direction, Point, direction_of
from gputui.core.snapshot import Snapshot
from gputui.gpus.usage import CPU, FIGURES, GPU_LOAD, GPU_MEMORY, POWER, RAM
from gputui.logs.plain import plain
from gputui.tui.chart import Chart, ChartCurve
from gputui.tui.text import Piece, blank, fit, ljust, rjust, width_of
from gputui.tui.theme import LOADS, MEMORY_LEVELS, STEPS, Look
from gputui.views.format import cut, value_text, width
from gputui.views.siblings import FEWEST_SIBLINGS, StepCurve, family_of, statistics_at, statistics_by_step

from .curves import chart_pieces, points_of, step_label, wants_log

MOST_SIBLINGS = 24
"""Maximum number of siblings to which a job is compared. The nearest in the queue are taken."""
SEARCHED_SIBLINGS = 200
"""Number of jobs in both directions of the queue among which siblings are searched for."""


def nearest_siblings(job: Job, snapshot: Snapshot, metric: str) -> list[JobId]:
    """Return jobs of the same program that have ended with results, the nearest first."""
    family, results = family_of(job.spec), snapshot.results
    siblings: list[JobId] = []
    for distance in range(1, SEARCHED_SIBLINGS):
        for other in (job.id - distance, job.id + distance):
            if other not in results or other not in snapshot or snapshot[other].active is not None:
                continue
            if family_of(snapshot[other].spec) == family and results[other].get(metric) is not None:
                siblings.append(other)
        if len(siblings) >= MOST_SIBLINGS:
            break
    return siblings[:MOST_SIBLINGS]


@dataclass(frozen=True)
class JobCurves:
    """The data of the charts of one job."""

    snapshot: Snapshot
    job: Job
    attempts: Mapping[int, Sequence[Curve]]
    """The curves of the last two attempts, including what they used, as far as they are known."""
    siblings: Mapping[JobId, Sequence[Point]]
    """The points of the main metric of other jobs."""
    best: JobId | None
    """The best job of the session, or None if it is unknown or is this job."""
    now: float
    silent_since: float | None

    @property
    def newest(self) -> int:
        return max(self.attempts, default=0)

    def points(self, name: str, attempt: int | None = None) -> Sequence[Point]:
        curves = self.attempts.get(self.newest if attempt is None else attempt, ())
        return next((curve.points for curve in curves if curve.name == name), ())

    @property
    def start(self) -> float:
        """When the newest attempt started."""
        if self.job.active is not None:
            return self.job.active.since
        return self.job.attempts[-1].started if self.job.attempts else self.now

    @property
    def seconds(self) -> float:
        """How long the newest attempt has been running, or ran."""
        end = self.now if self.job.active is not None or not self.job.attempts else self.job.attempts[-1].ended
        return max(1.0, end - self.start)

    @property
    def metrics(self) -> list[str]:
        """The metrics with several values: the main one first, and those without a known direction last."""
        main = self.snapshot.metric.name if self.snapshot.metric is not None else None
        curves = (curve for attempt in sorted(self.attempts, reverse=True) for curve in self.attempts[attempt])
        names = dict.fromkeys(curve.name for curve in curves if len(curve.points) > 1 and curve.name not in FIGURES)
        return sorted(names, key=lambda name: (name != main, direction_of(name) is Direction.UNKNOWN))

    @property
    def figures(self) -> list[str]:
        """The names of the figures that were recorded about what the attempt used."""
        return [name for name in FIGURES if len(self.points(name)) > 1]

    def step_curves(self) -> list[StepCurve]:
        """The curves of the siblings by step."""
        others = (StepCurve(points) for job, points in self.siblings.items() if job != self.job.id)
        return [curve for curve in others if curve.steps]


# The main chart

Lines = list[list[Piece]]
_OWN, _EARLIER, _BEST, _MEDIAN = range(4)


def main_chart(data: JobCurves, name: str, cells: int, height: int) -> Lines:
    """Return a band and a chart of one metric. If it is the session's metric, the median of the siblings and the best
    job are drawn too.
    """
    direction = data.snapshot.direction(name)
    own = data.points(name)
    by_time = any(point.step is None for point in own[:1])
    curves = [ChartCurve(points_of(own, by_time=by_time), _OWN, f"#{data.job.id}")]
    if (earlier := data.points(name, data.newest - 1)) and data.newest - 1 in data.attempts:
        curves.append(ChartCurve(points_of(earlier, by_time=by_time), _EARLIER, f"attempt {data.newest - 1}"))
    siblings: list[StepCurve] = []
    if data.snapshot.metric is not None and name == data.snapshot.metric.name and not by_time:
        siblings = data.step_curves()
        if data.best is not None and data.best in data.siblings:
            best = points_of(data.siblings[data.best], by_time=False)
            curves.append(ChartCurve(best, _BEST, f"★ #{data.best}"))
        if len(siblings) >= FEWEST_SIBLINGS:
            median = [(at_step.step, at_step.median) for at_step in statistics_by_step(siblings)]
            curves.append(ChartCurve(median, _MEDIAN, "median"))
        else:
            siblings = []
    curves = [curve for curve in curves if curve.points]
    end = curves[0].points[-1][0] if curves and data.silent_since is not None else None
    chart = Chart(curves, direction is Direction.DOWN, duration_words if by_time else None, end,
                  log=wants_log(curves, direction))  # fmt: skip
    look = Look.WARNING if data.silent_since is not None else Look.RUNNING
    by = f"by {'time' if by_time else 'step'}"
    about = [f"{by}, against {len(siblings)} others", by] if siblings else [by]
    band = _band(name, about, _main_figures(data, name, direction, siblings), cells)
    return [band, *chart_pieces(chart, cells - 1, height - 1, (look, Look.PAST, Look.MEMORY, Look.PAST))]


def _main_figures(
    data: JobCurves, name: str, direction: Direction, siblings: Sequence[StepCurve]
) -> list[tuple[str, str]]:
    results = data.snapshot.results.get(data.job.id)
    result = results.get(name, direction) if results is not None else None
    if result is None:
        return []
    figures = [("last", value_text(result.last))]
    steps = [point.step for point in data.points(name)[-1:] if point.step is not None]
    if steps and siblings and (others := statistics_at(siblings, steps[0])) is not None:
        figures.append(("median", value_text(others.median)))
    if direction is not Direction.UNKNOWN:
        at = f" at {step_label(result.best_step)}" if result.best_step is not None else ""
        figures.append(("best", f"{value_text(result.best)}{at}"))
    return figures


def _band(name: str, about: Sequence[str], figures: Sequence[tuple[str, str]], cells: int) -> list[Piece]:
    """Return the band above a chart: the title, a description, and figures at the right end.

    `about` lists descriptions from longest to shortest; the first one that fits is shown. Figures are dropped until the
    shortest one fits.
    """
    figures, least = list(figures), width("".join(about[-1:])) + 4

    def right() -> list[Piece]:
        pieces = [((f"  {label} ", Look.HEAD_PAST), (text, Look.HEAD)) for label, text in figures]
        return [piece for pair in pieces for piece in pair]

    while len(figures) > 1 and width_of(right()) + width(name) + least > cells:
        del figures[-1]
    room = cells - width_of(right()) - 1
    title = f" {cut(plain(name), max(1, room - 1))}"
    words = next((text for text in about if width(text) + 3 <= room - width(title)), "")
    return [(title, Look.HEAD), (ljust(f"   {words}", room - width(title)), Look.HEAD_PAST), *right(),
            (" ", Look.HEAD_PAST)]  # fmt: skip


# Small charts

LEAST_CELLS = 34
"""Minimum width of a small chart."""
LEAST_HEIGHT = 5
"""Minimum height of a small chart with its band."""
_MARGIN = 6
_DROPPED_FIRST = (RAM, CPU, POWER, GPU_MEMORY, GPU_LOAD)
_SHOWN = {GPU_LOAD: (0.0, 100.0), GPU_MEMORY: (0.0, 1.0), POWER: (0.0, 100.0), CPU: (0.0, 100.0), RAM: (0.0, 1.0)}
"""The values that the y axis of a figure always contains."""
_GROUPS = {GPU_LOAD: 1, GPU_MEMORY: 1, POWER: 1, CPU: 2, RAM: 2}


def grid(data: JobCurves, names: Sequence[str], cells: int, height: int) -> Lines:
    """Return small charts of as many metrics and figures as fit, with the time below the last row."""
    beside = max(1, min(3, cells // LEAST_CELLS))
    most = (height - 1) // LEAST_HEIGHT
    shown = [*names, *data.figures]
    for name in (RAM, *reversed(names[2:]), *_DROPPED_FIRST[1:], *reversed(names[:2])):
        if len(shown) > most * beside and name in shown:
            shown.remove(name)
    # The metrics, the figures of the GPU and those of the machine begin rows of their own if there is room.
    groups = [[name for name in shown if _GROUPS.get(name, 0) == group] for group in range(3)]
    rows = [group[at : at + beside] for group in groups for at in range(0, len(group), beside)]
    if len(rows) > most:
        rows = [shown[at : at + beside] for at in range(0, len(shown), beside)]
    wide = (cells - 2 * (beside - 1)) // beside
    lines: Lines = []
    for number, row in enumerate(rows[:most]):
        is_last = number == len(rows) - 1
        tall = (height - 1) // len(rows) + is_last
        charts = [small_chart(data, name, wide, tall, has_time=is_last) for name in row]
        lines += [_joined([chart[y] for chart in charts], wide) for y in range(tall)]
    return lines


def _joined(parts: Sequence[list[Piece]], cells: int) -> list[Piece]:
    return [piece for part in parts for piece in (*fit(part, cells), blank(2))][:-1]


def small_chart(data: JobCurves, name: str, cells: int, height: int, *, has_time: bool) -> Lines:
    """Return a band with the name and the last value, and a chart over the time of the attempt."""
    points = [(max(0.0, point.at - data.start), point.value) for point in data.points(name)]
    is_figure = name in FIGURES
    silent = data.silent_since - data.start if data.silent_since is not None else None
    looks = LOADS if name == GPU_LOAD else MEMORY_LEVELS if is_figure else (Look.RUNNING,)
    chart = Chart(
        [ChartCurve(points, 0)], data.snapshot.direction(name) is Direction.DOWN, duration_words, silent,
        since=0.0, until=data.seconds, shows=_SHOWN.get(name, ()),
        filled=is_figure, is_small=not is_figure, has_x_scale=has_time, margin=_MARGIN,
    )  # fmt: skip
    lines = chart_pieces(chart, cells - 1, height - 1, looks)
    last = [("", last_value(data, name))]
    return [_band(name, (), last, cells), *lines, *([[]] * (height - 1 - len(lines)))]


def last_value(data: JobCurves, name: str) -> str:
    value = next((point.value for point in reversed(data.points(name))), None)
    if value is None:
        return ""
    return value_text(value) if name not in FIGURES else f"{value:.1f}" if name.endswith("G") else f"{value:.0f}"


# Trends, for a narrow screen

_NAME, _VALUE = 13, 8


def trends(data: JobCurves, names: Sequence[str], cells: int, height: int) -> Lines:
    """Return a line for each metric and figure: its name, its course over the attempt, and its last value."""
    lines = [
        _band(
            f"over {duration_exact(data.seconds)}",
            (),
            [("", "now" if data.job.active is not None else "at end")],
            cells,
        )
    ]
    room = max(0, cells - _NAME - _VALUE - 2)
    for name in [*names, *data.figures][: height - 1]:
        value = rjust(last_value(data, name), _VALUE)
        lines.append([(f" {ljust(plain(name), _NAME)}", Look.PAST), *_trend(data, name, room), (value, Look.BOLD)])
    return lines


def _trend(data: JobCurves, name: str, cells: int) -> list[Piece]:
    columns: list[list[float]] = [[] for _ in range(cells)]
    for point in data.points(name):
        at = int((point.at - data.start) / data.seconds * cells)
        columns[max(0, min(cells - 1, at))].append(point.value)
    means = [sum(values) / len(values) if values else None for values in columns]
    known = [mean for mean in means if mean is not None]
    low = 0.0 if name in FIGURES else min(known, default=0.0)
    high = 100.0 if name == GPU_LOAD else max(known, default=1.0)
    pieces: list[Piece] = []
    for mean in means:
        if mean is None:
            pieces.append((" ", Look.LINE))
            continue
        share = (mean - low) / (high - low) if high > low else 0.0
        look = LOADS[min(3, int(share * 4))] if name == GPU_LOAD else Look.MEMORY if name in FIGURES else Look.RUNNING
        pieces.append((STEPS[min(len(STEPS) - 1, int(share * len(STEPS)))], look))
    return pieces
