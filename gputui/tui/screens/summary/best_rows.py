"""The best five jobs, as rows of the summary: their parameters, values, trend and time."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from gputui.core.job import JobId
from gputui.core.results import Direction
from gputui.core.views.amounts import duration_cell
from gputui.core.views.results_table import ResultsRow
from gputui.core.views.summary import Summary
from gputui.core.views.summary_text import not_finite_lines, told_value
from gputui.logs.plain import plain
from gputui.tui.looks.glyphs import STEPS
from gputui.tui.looks.palette import Palette
from gputui.tui.widgets.band import BandPart
from gputui.tui.widgets.view_rows import ViewRow, blank_row

__all__ = ["best_rows", "trend_of"]

WIDEST = 16
GROUND = 0.06
"""A trend is never finer than this share of the value: flat looks flat."""

Cell = tuple[str, bool]
"""A text, and whether it stands to the right."""


def best_rows(summary: Summary, cursor: JobId | None, width: int, palette: Palette) -> list[ViewRow]:
    metric = summary.table.metric
    without = [ViewRow([(f" {plain(line.strip())}", palette.past)]) for line in not_finite_lines(summary)]
    if metric is None or not summary.best:
        hint = "no results yet: jobs print them as val_loss=0.41" if not summary.table.rows else ""
        said = [ViewRow([(f" {hint}", palette.past)])] if hint else without
        return [*said, blank_row()] if said else []
    better = {Direction.DOWN: "lower is better", Direction.UP: "higher is better"}.get(metric.direction, "")
    others = _others(summary, width)
    beside = f"; {', '.join(map(plain, others))} at the same checkpoint" if others else ""
    left: list[BandPart] = [
        (" Best by ", palette.text),
        (plain(metric.name), palette.text + Style(bold=True, underline=True)),
        (f"  {better}{beside}", palette.past),
    ]
    band = ViewRow(left, [("m  another metric", palette.past)], band=True)
    head, *lines = _aligned(
        [_head(summary, others), *(_cells(row, summary, others, n) for n, row in enumerate(summary.best))]
    )
    rows = [band, ViewRow([(" " + head, palette.past)])]
    for number, (row, line) in enumerate(zip(summary.best, lines, strict=True)):
        style = palette.best if not number else palette.text
        trend = f"{trend_of(row.trend):8}"
        rest = (
            f"   {duration_cell(row.seconds) if row.seconds is not None else '':>5}   {','.join(map(plain, row.gpus))}"
        )
        parts = [(" " + line, style), (trend, style if not number else palette.past), (rest, palette.past)]
        rows.append(ViewRow(parts, selected=row.job == cursor, value=row.job))
    return [*rows, *without, blank_row()]


def _others(summary: Summary, width: int) -> list[str]:
    """Two more metrics, if they are of the same phase; on a wide screen."""
    return list(summary.table.others[:2]) if width >= 110 else list(summary.table.others[:1]) if width >= 90 else []


def _head(summary: Summary, others: Sequence[str]) -> list[Cell]:
    metric = summary.table.metric
    columns: list[Cell] = [(column.title, column.is_number) for column in summary.table.columns] or [("job", False)]
    values = [(metric.name if metric is not None else "", True), *((name, True) for name in others), ("at", True)]
    return [(" ", False), ("id", True), *columns, *values, ("second half", False)]


def _cells(row: ResultsRow, summary: Summary, others: Sequence[str], number: int) -> list[Cell]:
    columns: list[Cell] = [(row.params.get(column.name, ""), column.is_number) for column in summary.table.columns]
    beside = [row.beside.get(name) for name in others]
    return [
        ("★" if not number else str(number + 1), False),
        (str(row.job), True),
        *(columns or [(row.name, False)]),
        (told_value(row.best, summary.table), True),
        *(("" if value is None else f"{value:.4g}", True) for value in beside),
        ("" if row.step is None else f"{row.step:g}", True),
        ("", False),
    ]


def _aligned(rows: list[list[Cell]]) -> list[str]:
    texts = [[(plain(text), right) for text, right in row] for row in rows]
    widths = [min(WIDEST, max(cell_len(row[at][0]) for row in texts)) for at in range(len(texts[0]))]
    widths[-1] = 0  # the trend is drawn after it
    lines = []
    for number, row in enumerate(texts):
        cells = [_shaped(text, size, right) for (text, right), size in zip(row, widths, strict=True)]
        lines.append("  ".join(cells[:-1]) + "   " + (row[-1][0] + "  time   gpu" if not number else ""))
    return lines


def _shaped(text: str, size: int, right: bool) -> str:
    cut = set_cell_size(text, size) if cell_len(text) > size else text
    blanks = " " * (size - cell_len(cut))
    return blanks + cut if right else cut + blanks


def trend_of(values: Sequence[float]) -> str:
    """One glyph a value; never finer than a small share of it."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = max(high - low, GROUND * max(abs(low), abs(high)), 1e-12)
    top = len(STEPS) - 1
    return "".join(STEPS[round((value - low) / span * top)] for value in values)
