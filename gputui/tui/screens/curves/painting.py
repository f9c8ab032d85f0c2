"""A chart as rows of a view: which curve has which colour, and numbers as a table has them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.style import Style

from gputui.core.results import Direction, Point
from gputui.tui.looks.palette import Palette
from gputui.tui.model.chart import AXIS, GRID, UPRIGHT, Chart, drawn
from gputui.tui.widgets.view_rows import ViewRow

__all__ = ["best_of", "chart_rows", "curve_styles", "decimals_of", "points_of", "step_told"]

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
