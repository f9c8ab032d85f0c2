"""The curves of one job: a metric's newest attempt over the one before it, which is dim. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputui.core.job import Running
from gputui.core.metric_names import direction_of
from gputui.core.results import Curve, Direction, JobResults
from gputui.core.views.amounts import duration_words
from gputui.core.views.result_values import value_text
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.model.chart import Chart, ChartCurve
from gputui.tui.screens.curves.painting import chart_rows, points_of, step_told
from gputui.tui.widgets.band import BandPart
from gputui.tui.widgets.view_rows import ViewRow

from .facts import Subject

__all__ = ["curve_panes", "metric_names"]

LEAST_HEIGHT = 6
NEWEST, EARLIER = 0, 1


def metric_names(curves: Mapping[int, Sequence[Curve]], main: str | None) -> list[str]:
    """What was printed more than once: the main metric, then those of which one knows what is good."""
    names = [curve.name for attempt_curves in curves.values() for curve in attempt_curves if len(curve.points) > 1]
    ordered = list(dict.fromkeys(names))
    return sorted(ordered, key=lambda name: (name != main, direction_of(name) is Direction.UNKNOWN))


def curve_panes(
    subject: Subject,
    curves: Mapping[int, Sequence[Curve]],
    names: Sequence[str],
    width: int,
    height: int,
    palette: Palette,
) -> list[ViewRow]:
    """As many charts as names, one below the other, and what the colours mean."""
    if not names or width < 20:
        return []
    legend = _legend(sorted(curves)[-2:], palette)
    each = (height - len(legend)) // len(names)
    if each < LEAST_HEIGHT:
        return curve_panes(subject, curves, names[:-1], width, height, palette)
    rows: list[ViewRow] = []
    for name in names:
        rows += _pane(subject, curves, name, width, each, palette)
    return [*rows, *legend]


def _pane(
    subject: Subject, curves: Mapping[int, Sequence[Curve]], name: str, width: int, height: int, palette: Palette
) -> list[ViewRow]:
    numbers = sorted(curves)[-2:]
    own = {number: next((curve.points for curve in curves[number] if curve.name == name), ()) for number in numbers}
    by_time = any(point.step is None for points in own.values() for point in points[:1])
    drawn = [
        ChartCurve(points_of(own[number], by_time=by_time), EARLIER if number != numbers[-1] else NEWEST)
        for number in reversed(numbers)
        if own[number]
    ]
    direction = direction_of(name)
    x_told = duration_words if by_time else None
    chart = Chart(drawn, down=direction is Direction.DOWN, x_told=x_told, upright=_silence(subject, drawn, by_time))
    lines = chart_rows(chart, width - 2, height - 2, (palette.running, palette.past), palette)
    band = ViewRow([(f" {plain(name)}", palette.text)], _figures(subject.results, name, palette), band=True)
    return [band, *(ViewRow([(" ", palette.text), *line.left]) for line in lines), ViewRow()]


def _silence(subject: Subject, drawn: Sequence[ChartCurve], by_time: bool) -> float | None:
    """Where its silence began: at its last point, for nothing came since."""
    state = subject.job.state
    silent = isinstance(state, Running) and state.silent_since is not None
    newest = next((curve for curve in drawn if curve.number == NEWEST and curve.points), None)
    return newest.points[-1][0] if silent and newest is not None else None


def _figures(results: JobResults | None, name: str, palette: Palette) -> list[BandPart]:
    metric_result = results.get(name) if results is not None else None
    if metric_result is None:
        return []
    parts = [("last ", palette.past), (value_text(metric_result.last), palette.best)]
    if direction_of(name) is not Direction.UNKNOWN:
        parts += [("   best ", palette.past), (value_text(metric_result.best), palette.best)]
        parts += (
            [(f" at {step_told(metric_result.best_step)}", palette.past)] if metric_result.best_step is not None else []
        )
    return parts


def _legend(attempts: Sequence[int], palette: Palette) -> list[ViewRow]:
    if len(attempts) < 2:
        return []
    earlier, newest = attempts
    return [ViewRow([(" ── ", palette.past), (f"attempt {earlier}", palette.past), ("   ━━ ", palette.running),
                     (f"attempt {newest}", palette.text)])]  # fmt: skip
