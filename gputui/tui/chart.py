"""Curves on a canvas of braille dots."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len

# ---- A small canvas of braille dots, two across and four down in each cell ----


ACROSS, DOWN = 2, 4
"""Dots of a cell."""
NOBODY = 1 << 30
EMPTY = "\u2800"
_FIRST = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""By row and column of a dot in its cell."""

DotRun = tuple[str, int]
"""Cells of one owner; NOBODY: nothing is drawn there."""


class Canvas:
    """Dots are counted from the upper left; those outside are left out."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = max(0, columns), max(0, rows)
        self.width, self.height = self.columns * ACROSS, self.rows * DOWN
        self._dots = bytearray(self.columns * self.rows)
        self._owners = [NOBODY] * (self.columns * self.rows)
        self._signs: dict[int, str] = {}

    def dot(self, x: int, y: int, owner: int = 0) -> None:
        if 0 <= x < self.width and 0 <= y < self.height:
            cell = y // DOWN * self.columns + x // ACROSS
            self._dots[cell] |= _BITS[y % DOWN][x % ACROSS]
            self._owners[cell] = min(owner, self._owners[cell])

    def line(self, x0: int, y0: int, x1: int, y1: int, owner: int = 0) -> None:
        """All dots between two, both included (Bresenham)."""
        dx, dy = abs(x1 - x0), -abs(y1 - y0)
        step_x, step_y = (1 if x0 < x1 else -1), (1 if y0 < y1 else -1)
        error = dx + dy
        while True:
            self.dot(x0, y0, owner)
            if (x0, y0) == (x1, y1):
                return
            twice = 2 * error
            if twice >= dy:
                error, x0 = error + dy, x0 + step_x
            if twice <= dx:
                error, y0 = error + dx, y0 + step_y

    def column(self, x: int, height: int, owner: int = 0) -> None:
        """So many dots from the bottom up."""
        for y in range(self.height - min(height, self.height), self.height):
            self.dot(x, y, owner)

    def sign(self, column: int, row: int, sign: str, owner: int = 0) -> None:
        """One character in the place of a cell's dots; it wins over them."""
        if 0 <= column < self.columns and 0 <= row < self.rows:
            cell = row * self.columns + column
            self._signs[cell], self._owners[cell] = sign, owner

    def is_free(self, column: int, row: int) -> bool:
        cell = row * self.columns + column
        return not self._dots[cell] and cell not in self._signs

    def row(self, row: int, ground: str = " ") -> list[DotRun]:
        """`ground`: what stands where nothing is drawn."""
        runs: list[DotRun] = []
        for cell in range(row * self.columns, (row + 1) * self.columns):
            dots, sign = self._dots[cell], self._signs.get(cell)
            text = sign or (chr(_FIRST + dots) if dots else ground)
            owner = self._owners[cell] if dots or sign else NOBODY
            if runs and runs[-1][1] == owner:
                runs[-1] = (runs[-1][0] + text, owner)
            else:
                runs.append((text, owner))
        return runs


def filled_columns(canvas: Canvas, values: Sequence[float | None], owners: Sequence[int] = ()) -> None:
    """Load over time, 0 to 1, one dot column for each value, the newest at the right; None: nobody knows.

    The topmost dot stays empty, so that rows below each other never run together; any load at all is one dot.
    """
    shown = values[-canvas.width :] if canvas.width else ()
    whose = owners[-len(shown) :] if owners and shown else ()
    left = canvas.width - len(shown)
    for place, value in enumerate(shown):
        if value is not None and value > 0:
            height = max(1, round(min(1.0, value) * (canvas.height - 1)))
            canvas.column(left + place, height, whose[place] if whose else 0)


# ---- Curves over each other on a canvas of dots ----


AXIS, GRID = NOBODY - 1, NOBODY - 2
"""Whose labels and lines those of the scales are."""
UPRIGHT = NOBODY - 3
HUGE = 1e15
LEAST_ROWS, LEAST_COLUMNS = 4, 16
BEST = "●"
GRID_SIGN, UPRIGHT_SIGN = "┄", "┊"

ChartPiece = tuple[str, int]


class ChartCurve(NamedTuple):
    points: Sequence[tuple[float, float]]
    number: int
    """Lower is better: where two share a cell, the better one's colour counts."""
    label: str = ""
    best: tuple[float, float] | None = None


class Chart(NamedTuple):
    curves: Sequence[ChartCurve]
    down: bool = False
    """Small values are the good ones; what is far off is cut at the other end."""
    x_told: Callable[[float], str] | None = None
    upright: float | None = None
    """Where a line stands: since then nothing more came."""
    until: float | None = None
    """The right end, where that is known to be further than the last point."""


class _Scale(NamedTuple):
    low: float
    step: float
    ticks: int
    rows: int
    """Rows between two ticks."""


def drawn(chart: Chart, width: int, height: int) -> list[list[ChartPiece]]:
    """So many lines of so many cells; the last is the scale of x."""
    curves = [curve for curve in chart.curves if curve.points]
    if not curves or height < LEAST_ROWS or width < LEAST_COLUMNS:
        return []
    rows = height - 1
    scale = _scale(_values(curves, chart), rows)
    ticks = [axis_number(scale.low + scale.step * tick, scale.step) for tick in range(scale.ticks + 1)]
    margin = max(map(len, ticks)) + 1
    ends = max((cell_len(curve.label) for curve in curves), default=0)
    columns = max(4, width - margin - (ends + 1 if ends else 0))
    left, right = _across(curves, chart)
    canvas = Canvas(columns, rows)
    top = rows - 1 - scale.ticks * scale.rows

    def place(point: tuple[float, float]) -> tuple[int, int]:
        x = (point[0] - left) / (right - left) * (canvas.width - 1)
        from_top = (scale.ticks - (point[1] - scale.low) / scale.step) * scale.rows + top
        return round(x), round(_bounded(from_top) * DOWN + 1.5)

    _draw(canvas, curves, place)
    upright = place((chart.upright, 0))[0] // ACROSS if chart.upright is not None else None
    names = _names(curves, place, rows)
    chart_lines = []
    for row in range(rows):
        number, off = divmod(row - top, scale.rows)
        is_tick = off == 0 and row >= top
        label = ticks[scale.ticks - number] if is_tick else ""
        line: list[ChartPiece] = [(f"{label:>{margin - 1}} ", AXIS)]
        line += _row(canvas, row, upright, grid=is_tick)
        chart_lines.append([*line, *([(" ", AXIS), names[row]] if row in names else [])])
    return [*chart_lines, [(" " * margin, AXIS), *_x_scale(left, right, columns, chart.x_told)]]


def _bounded(value: float) -> float:
    return max(-10_000.0, min(10_000.0, value))


def _draw(
    canvas: Canvas, curves: Sequence[ChartCurve], place: Callable[[tuple[float, float]], tuple[int, int]]
) -> None:
    for curve in curves:
        places = [place(point) for point in curve.points if math.isfinite(point[1])]
        for (x0, y0), (x1, y1) in pairwise(places):
            if not (y0 < 0 and y1 < 0) and not (y0 >= canvas.height and y1 >= canvas.height):
                canvas.line(x0, max(-8, min(y0, canvas.height + 8)), x1, max(-8, min(y1, canvas.height + 8)),
                            curve.number)  # fmt: skip
        if len(places) == 1:
            canvas.dot(*places[0], curve.number)
    for curve in curves:
        if curve.best is not None:
            x, y = place(curve.best)
            canvas.sign(x // ACROSS, y // DOWN, BEST, curve.number)


def _row(canvas: Canvas, row: int, upright: int | None, *, grid: bool) -> list[ChartPiece]:
    pieces: list[ChartPiece] = []
    column = 0
    for text, owner in canvas.row(row):
        if owner == NOBODY:
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


def _names(
    curves: Sequence[ChartCurve], place: Callable[[tuple[float, float]], tuple[int, int]], rows: int
) -> dict[int, ChartPiece]:
    """Each at the height of its line's end or as near to it as there is room, in the order of the ends."""
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


def _values(curves: Sequence[ChartCurve], chart: Chart) -> tuple[float, float]:
    """What must be seen: all of the good end, and not the few values that are far off at the other."""
    values = sorted(value for curve in curves for _, value in curve.points if math.isfinite(value))
    if not values:
        return 0.0, 1.0
    low, high = values[0], values[-1]
    few = len(values) // 16
    if few and chart.down and high - low > 2 * (values[-1 - few] - low):
        high = max(values[-1 - few], *(curve.points[-1][1] for curve in curves))
    return low, high


def _scale(span: tuple[float, float], rows: int) -> _Scale:
    """Ticks are whole rows apart."""
    low, high = span
    if high - low <= abs(high) * 1e-9:
        low, high = low - (abs(low) * 0.05 or 0.5), high + (abs(high) * 0.05 or 0.5)
    most = max(1, (rows - 1) // 3)
    step = nice_step((high - low) / most)
    for _ in range(20):
        first = math.floor(low / step + 1e-9)
        ticks = max(1, math.ceil(high / step - 1e-9) - first)
        if ticks <= rows - 1:
            return _Scale(first * step, step, ticks, max(1, (rows - 1) // ticks))
        step = nice_step(step * 1.5)
    return _Scale(low, (high - low) or 1.0, 1, rows - 1)


def nice_step(least: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten, not less than this."""
    if least <= 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


def axis_number(value: float, step: float) -> str:
    """As many decimals as the step has; thousands as `45k`."""
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


def _across(curves: Sequence[ChartCurve], chart: Chart) -> tuple[float, float]:
    left = min(curve.points[0][0] for curve in curves)
    right = max(max(curve.points[-1][0] for curve in curves), chart.until or -math.inf, chart.upright or -math.inf)
    return left, right if right > left else left + 1


def _x_scale(left: float, right: float, columns: int, label_of: Callable[[float], str] | None) -> list[ChartPiece]:
    step = nice_step((right - left) / max(1, columns // 12))
    at = math.ceil(left / step - 1e-9) * step
    line = [" "] * columns
    free = 0
    while at <= right + step * 1e-6:
        text = label_of(at) if label_of is not None else axis_number(at, step)
        middle = round((at - left) / (right - left) * (columns - 1))
        start = max(0, min(middle - len(text) // 2, columns - len(text)))
        if start >= free and start + len(text) <= columns:
            line[start : start + len(text)] = text
            free = start + len(text) + 1
        at += step
    return [("".join(line), AXIS)]
