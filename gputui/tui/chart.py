"""Line charts drawn with braille dots."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len

ACROSS, DOWN = 2, 4
"""Number of dots in a cell, horizontally and vertically."""
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each braille dot, by its row and column in the cell."""
EMPTY = 1 << 30
AXIS, GRID, UPRIGHT = EMPTY - 1, EMPTY - 2, EMPTY - 3
"""Numbers used as the owners of the scales, the grid lines and the vertical line."""

ChartPiece = tuple[str, int]
"""The text of adjacent cells and the number of the curve that owns the cells, or EMPTY if the cells are empty."""


class Canvas:
    """A canvas of braille dots with the origin at the top left. Dots outside the canvas are ignored."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = max(0, columns), max(0, rows)
        self.width, self.height = self.columns * ACROSS, self.rows * DOWN
        self._dots = bytearray(self.columns * self.rows)
        self._owners = [EMPTY] * (self.columns * self.rows)
        self._signs: dict[int, str] = {}

    def dot(self, x: int, y: int, owner: int = 0) -> None:
        if 0 <= x < self.width and 0 <= y < self.height:
            cell = y // DOWN * self.columns + x // ACROSS
            self._dots[cell] |= _BITS[y % DOWN][x % ACROSS]
            self._owners[cell] = min(owner, self._owners[cell])

    def line(self, x0: int, y0: int, x1: int, y1: int, owner: int = 0) -> None:
        """Draw a line between two dots with Bresenham's algorithm."""
        dx, dy = abs(x1 - x0), -abs(y1 - y0)
        step_x, step_y = (1 if x0 < x1 else -1), (1 if y0 < y1 else -1)
        error = dx + dy
        columns, width, height, dots, owners = self.columns, self.width, self.height, self._dots, self._owners
        while True:
            if 0 <= x0 < width and 0 <= y0 < height:  # does what `dot` does, in a third of the time
                cell = y0 // DOWN * columns + x0 // ACROSS
                dots[cell] |= _BITS[y0 % DOWN][x0 % ACROSS]
                if owner < owners[cell]:
                    owners[cell] = owner
            if x0 == x1 and y0 == y1:
                return
            twice = 2 * error
            if twice >= dy:
                error, x0 = error + dy, x0 + step_x
            if twice <= dx:
                error, y0 = error + dx, y0 + step_y

    def sign(self, column: int, row: int, sign: str, owner: int = 0) -> None:
        """Draw a character in place of the dots of a cell."""
        if 0 <= column < self.columns and 0 <= row < self.rows:
            cell = row * self.columns + column
            self._signs[cell], self._owners[cell] = sign, owner

    def row(self, row: int) -> list[ChartPiece]:
        runs: list[ChartPiece] = []
        for cell in range(row * self.columns, (row + 1) * self.columns):
            dots, sign = self._dots[cell], self._signs.get(cell)
            text = sign or (chr(0x2800 + dots) if dots else " ")
            owner = self._owners[cell] if dots or sign else EMPTY
            if runs and runs[-1][1] == owner:
                runs[-1] = (runs[-1][0] + text, owner)
            else:
                runs.append((text, owner))
        return runs


# Charts


HUGE = 1e15
TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
"""Distances between two labels of a time axis, in seconds."""
LEAST_ROWS, LEAST_COLUMNS = 4, 16
BEST = "●"
GRID_SIGN, UPRIGHT_SIGN = "┄", "┊"


class ChartCurve(NamedTuple):
    points: Sequence[tuple[float, float]]
    number: int
    """The rank of the curve. A cell shared by several curves has the colour of the lowest rank."""
    label: str = ""
    best: tuple[float, float] | None = None
    sign: str = BEST
    """The sign of the best point."""
    is_joined: bool = True
    """Whether the points are joined by lines."""


class Chart(NamedTuple):
    curves: Sequence[ChartCurve]
    down: bool = False
    """Whether low values are good. Outliers are cut off at the bad end."""
    x_label: Callable[[float], str] | None = None
    """Function that formats the seconds of the x axis, or None if the x axis does not show time."""
    marker_x: float | None = None
    """The position of a vertical line that marks the end of the data, or None for no line."""
    since: float | None = None
    """The left end of the x axis, or None for the first point."""
    until: float | None = None
    """The right end of the x axis. Points beyond both ends are not drawn."""
    shows: tuple[float, ...] = ()
    """Values that the y axis must contain, such as 0."""
    log: bool = False
    """Whether the y axis is logarithmic. This has no effect if a value is not positive."""
    filled: bool = False
    """Whether to fill the area below the curves. Each cell of the area gets a shade, which is higher at the top,
    instead of the number of its curve.
    """
    is_small: bool = False
    """Whether the y axis has only two labels, the lowest and the highest value, so that the curve takes all rows."""
    has_x_scale: bool = True
    margin: int = 0
    """Minimum width of the y scale, so that charts above each other are aligned."""


class _Axis(NamedTuple):
    """A y axis."""

    ticks: Mapping[int, float]
    """The value of each row that has a label."""
    row_of: Callable[[float], float]
    """Function that returns the row of a value. The result may have a fraction."""
    step: float
    """Distance between two labels, which decides how many decimals they have."""


SHADES = 4
LEAST_FACTOR = 1.5
"""Factor between the lowest and highest value below which a logarithmic scale is no better than a linear one."""


def draw_chart(chart: Chart, width: int, height: int) -> list[list[ChartPiece]]:
    """Draw a chart as `height` lines, the last of which is the x scale. Return no lines if there is too little room."""
    left, right = _x_range(chart)
    curves = [curve._replace(points=_within(curve.points, left, right)) for curve in chart.curves]
    curves = [curve for curve in curves if curve.points]
    if not curves or height < LEAST_ROWS or width < LEAST_COLUMNS:
        return []
    rows = height - chart.has_x_scale
    is_zoomed = any(curve.points[0][0] < left for curve in chart.curves if curve.points)
    steep_until = left if is_zoomed or chart.filled else left + (right - left) / 10
    axis = _y_axis(_value_range(curves, chart, steep_until), rows, chart)
    ticks = {row: axis_number(value, axis.step) for row, value in axis.ticks.items()}
    margin = max(chart.margin, *(len(text) + 1 for text in ticks.values()))
    ends = max((cell_len(curve.label) for curve in curves), default=0)
    columns = max(4, width - margin - (ends + 1 if ends else 0))
    canvas = Canvas(columns, rows)

    scale, row_of = (canvas.width - 1) / (right - left), axis.row_of

    def place(point: tuple[float, float]) -> tuple[int, int]:
        return round((point[0] - left) * scale), round(max(-1e4, min(1e4, row_of(point[1]))) * DOWN + 1.5)

    (_fill if chart.filled else _draw)(canvas, curves, place)
    upright = place((chart.marker_x, 0))[0] // ACROSS if chart.marker_x is not None else None
    names = _place_labels(curves, place, rows)
    chart_lines = []
    for row in range(rows):
        line: list[ChartPiece] = [(f"{ticks.get(row, ''):>{margin - 1}} ", AXIS)]
        line += _row(canvas, row, upright, grid=row in ticks)
        chart_lines.append([*line, *([(" ", AXIS), names[row]] if row in names else [])])
    if not chart.has_x_scale:
        return chart_lines
    return [*chart_lines, [(" " * margin, AXIS), *_x_scale(left, right, columns, chart.x_label)]]


def _x_range(chart: Chart) -> tuple[float, float]:
    firsts = [curve.points[0][0] for curve in chart.curves if curve.points]
    lasts = [curve.points[-1][0] for curve in chart.curves if curve.points]
    left = chart.since if chart.since is not None else min(firsts, default=0.0)
    right = chart.until if chart.until is not None else max(lasts, default=left)
    right = max(right, chart.marker_x or right)
    return left, right if right > left else left + 1


def _within(points: Sequence[tuple[float, float]], left: float, right: float) -> list[tuple[float, float]]:
    """Return the points between two positions, and the points at which the curve crosses these positions."""
    within = [point for point in points if left <= point[0] <= right]
    if len(within) == len(points):
        return within
    for (x0, y0), (x1, y1) in pairwise(points):
        for edge in (left, right):
            if x0 < edge < x1:
                within.append((edge, y0 + (y1 - y0) * (edge - x0) / (x1 - x0)))
    return sorted(within)


def _fill(
    canvas: Canvas, curves: Sequence[ChartCurve], place: Callable[[tuple[float, float]], tuple[int, int]]
) -> None:
    """Fill the area below the curves. A gap much longer than usual between two points stays empty."""
    for curve in curves:
        places = [place(point) for point in curve.points if math.isfinite(point[1])]
        steps = sorted(after[0] - before[0] for before, after in pairwise(places))
        usual = max(1, steps[len(steps) // 2]) if steps else 1
        for number, (x, top) in enumerate(places):
            end = places[number + 1][0] if number + 1 < len(places) else x + usual
            for column in range(x, max(x + 1, end if end - x <= 3 * usual else x + usual)):
                for y in range(max(0, min(top, canvas.height - 1)), canvas.height):
                    shade = round((canvas.rows - 1 - y // DOWN) * (SHADES - 1) / max(1, canvas.rows - 1))
                    canvas.dot(column, y, shade)


def _draw(
    canvas: Canvas, curves: Sequence[ChartCurve], place: Callable[[tuple[float, float]], tuple[int, int]]
) -> None:
    for curve in curves:
        places = [place(point) for point in curve.points if math.isfinite(point[1])]
        if len(places) == 1 or not curve.is_joined:
            for x, y in places:
                canvas.dot(x, y, curve.number)
            continue
        for (x0, y0), (x1, y1) in pairwise(places):
            if not (y0 < 0 and y1 < 0) and not (y0 >= canvas.height and y1 >= canvas.height):
                canvas.line(x0, max(-8, min(y0, canvas.height + 8)), x1, max(-8, min(y1, canvas.height + 8)),
                            curve.number)  # fmt: skip
    for curve in curves:
        if curve.best is not None and curve.best in curve.points:
            x, y = place(curve.best)
            canvas.sign(x // ACROSS, y // DOWN, curve.sign, curve.number)


def _row(canvas: Canvas, row: int, upright: int | None, *, grid: bool) -> list[ChartPiece]:
    pieces: list[ChartPiece] = []
    column = 0
    for text, owner in canvas.row(row):
        if owner == EMPTY:
            text = GRID_SIGN * len(text) if grid else text
            if upright is not None and column <= upright < column + len(text):
                cut = upright - column
                pieces += [(text[:cut], GRID), (UPRIGHT_SIGN, UPRIGHT), (text[cut + 1 :], GRID)]
            else:
                pieces.append((text, GRID))
        else:
            pieces.append((text, owner))
        column += len(text)
    return [piece for piece in pieces if piece[0]]


def _place_labels(
    curves: Sequence[ChartCurve], place: Callable[[tuple[float, float]], tuple[int, int]], rows: int
) -> dict[int, ChartPiece]:
    """Place each label at the end of its curve, or as near as possible. The labels keep the order of the ends."""
    named = sorted((curve for curve in curves if curve.label), key=lambda curve: curve.number)[:rows]
    named.sort(key=lambda curve: (-_end_value(curve), curve.number))
    wanted = [max(0, min(place((curve.points[-1][0], _end_value(curve)))[1] // DOWN, rows - 1)) for curve in named]
    for number in range(1, len(named)):
        wanted[number] = max(wanted[number], wanted[number - 1] + 1)
    free = rows
    for number in reversed(range(len(named))):
        free = wanted[number] = min(wanted[number], free - 1)
    return {row: (curve.label, curve.number) for row, curve in zip(wanted, named, strict=True)}


def _end_value(curve: ChartCurve) -> float:
    return next((value for _, value in reversed(curve.points) if math.isfinite(value)), 0.0)


# Scales


def _value_range(curves: Sequence[ChartCurve], chart: Chart, start: float) -> tuple[float, float]:
    """Return the lowest and the highest value to show. The values after `start` and the best values are in this range,
    except for a few outliers at the bad end. A steep curve may begin outside it.
    """
    points = [point for curve in curves for point in curve.points if math.isfinite(point[1])]
    values = [value for x, value in points if x >= start] or [value for _, value in points]
    values += [curve.best[1] for curve in curves if curve.best is not None and curve.best in curve.points]
    values = sorted([*values, *chart.shows])
    if not values:
        return 0.0, 1.0
    low, high = values[0], values[-1]
    few = len(values) // 16
    if few and chart.down and high - low > 2 * (values[-1 - few] - low):
        high = max(values[-1 - few], *(_end_value(curve) for curve in curves))
    return low, high


def _y_axis(span: tuple[float, float], rows: int, chart: Chart) -> _Axis:
    low, high = span
    if high - low <= abs(high) * 1e-9:
        low, high = low - (abs(low) * 0.05 or 0.5), high + (abs(high) * 0.05 or 0.5)
    if chart.is_small:
        labels = {0: high, rows - 1: low}
        return _Axis(labels, lambda value: (high - value) / (high - low) * (rows - 1), nice_step((high - low) / 200))
    if chart.log and high > LEAST_FACTOR * low > 0:
        return _log_axis(low, high, rows)
    low, step, ticks, rows_each = _linear_scale(low, high, rows)
    top = rows - 1 - ticks * rows_each
    labels = {top + (ticks - number) * rows_each: low + step * number for number in range(ticks + 1)}
    return _Axis(labels, lambda value: (ticks - (value - low) / step) * rows_each + top, step)


def _log_axis(low: float, high: float, rows: int) -> _Axis:
    """Return a logarithmic axis with round numbers at least two rows apart, the roundest first."""
    low, high = math.log10(low), math.log10(high)

    def row_of(value: float) -> float:
        return (high - math.log10(max(value, 1e-300))) / (high - low) * (rows - 1)

    labels: dict[int, float] = {}
    powers = range(math.floor(low), math.ceil(high) + 1)
    for factors in ((1.0,), (3.0, 2.0, 5.0), (1.5, 7.0, 4.0), (1.2, 2.5, 6.0, 8.0, 9.0)):
        for value in (factor * 10.0**power for power in powers for factor in factors):
            row = round(row_of(value))
            if 0 <= row < rows and all(abs(row - other) >= 2 for other in labels):
                labels[row] = value
    if not labels:  # a span narrower than any round number
        labels = {0: 10**high, rows - 1: 10**low}
    return _Axis(labels, row_of, min(labels.values()) / 10)


def _linear_scale(low: float, high: float, rows: int) -> tuple[float, float, int, int]:
    """Return the lowest tick, the distance between two ticks, the number of ticks above the lowest one, and the number
    of rows between two ticks.
    """
    most = max(1, (rows - 1) // 3)
    step = nice_step((high - low) / most)
    for _ in range(20):
        first = math.floor(low / step + 1e-9)
        ticks = max(1, math.ceil(high / step - 1e-9) - first)
        if ticks <= rows - 1:
            return first * step, step, ticks, max(1, (rows - 1) // ticks)
        step = nice_step(step * 1.5)
    return low, (high - low) or 1.0, 1, rows - 1


def nice_step(least: float) -> float:
    """Return the smallest number that is 1, 2, 2.5 or 5 times a power of ten and at least `least`."""
    if least <= 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


def axis_number(value: float, step: float) -> str:
    """Format a number with as many decimals as the step needs. Thousands are written as `45k`."""
    if abs(value) < step * 1e-6:
        value = 0.0
    if max(abs(value), step) >= HUGE:
        return f"{value:.1e}"
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * unit or (abs(value) >= unit and step >= unit / 10):
            return f"{value / unit:.{_decimals(step / unit)}f}{letter}"
    if step < 1e-4:
        return f"{value:.1e}" if value else "0"
    return f"{value:.{_decimals(step)}f}"


def _decimals(step: float) -> int:
    return next((places for places in range(5) if abs(round(step, places) - step) < step * 1e-6), 5)


def _x_scale(left: float, right: float, columns: int, label_of: Callable[[float], str] | None) -> list[ChartPiece]:
    least = (right - left) / max(1, columns // 12)
    step = nice_step(least)
    if label_of is not None:
        step = next((seconds for seconds in TIME_STEPS if seconds >= least), step)
    elif step > 1 and step != int(step):  # not 2.5, because there are no values between two epochs
        step = 3.0 if least <= 3 else 5.0
    at = math.ceil(left / step - 1e-9) * step
    line = [" "] * columns
    free = 0
    while at <= right + step * 1e-6:
        text = label_of(at) if label_of is not None and at else axis_number(at, step)
        middle = round((at - left) / (right - left) * (columns - 1))
        start = max(0, min(middle - len(text) // 2, columns - len(text)))
        if start >= free and start + len(text) <= columns:
            line[start : start + len(text)] = text
            free = start + len(text) + 1
        at += step
    return [("".join(line), AXIS)]
