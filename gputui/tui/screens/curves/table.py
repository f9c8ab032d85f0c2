"""What each of some jobs came to by one metric, as a table below their curves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style

from gputui.core.job import Job
from gputui.core.views.amounts import DURATION_CELLS, duration_cell
from gputui.core.views.cells import cut
from gputui.core.views.parameter_columns import Parameters
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.widgets.band import BandPart
from gputui.tui.widgets.view_rows import ViewRow

from .painting import curve_styles, decimals_of, step_told

__all__ = ["CurveRow", "curve_table"]

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
