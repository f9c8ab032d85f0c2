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
    made = [ViewRow([(f"     {head}", palette.past)], band=not palette.rules)]
    styles = curve_styles(palette)
    for number, _ in enumerate(rows):
        parts: list[BandPart] = [(f" {SWATCH}  ", styles[number % len(styles)])]
        for at in shown:
            _, right, cells = columns[at]
            parts.append((_cell(cells[number].text, widths[at], right=right) + GAP, cells[number].style))
        made.append(ViewRow(parts, selected=number == cursor, value=number))
    common = parameters.common()
    same = f"   ·   all the same: {plain(common)}" if common and len(rows) > 1 else ""
    return [*made, ViewRow(), ViewRow([(f" ● is its best{same}", palette.past)]), ViewRow()]


def _columns(
    rows: Sequence[CurveRow], parameters: Parameters, palette: Palette
) -> list[tuple[str, bool, list[CurveCell]]]:
    """Titles, whether they stand to the right, and cells; the least needed last."""
    values = [value for row in rows if row.result is not None for value in row.result[:2]]
    places = decimals_of(values)
    made: list[tuple[str, bool, list[CurveCell]]] = [
        ("id", True, [CurveCell(str(row.job.id), palette.text) for row in rows]),
    ]
    for column in parameters.columns():
        told = [plain(parameters.value(row.job, column.name) or "") for row in rows]
        made.append(
            (plain(column.title), column.is_number, [CurveCell(cut(one, MOST_VALUE), palette.text) for one in told])
        )
    best = [_number(row, 0, places) for row in rows]
    stars = [f"★ {one}" if not at and one else one for at, one in enumerate(best)]
    cells = [CurveCell(one, palette.text if at else palette.best) for at, one in enumerate(stars)]
    made.append(("best", True, cells))
    steps = [step_told(row.result[2]) if row.result is not None else "" for row in rows]
    made.append(("at step", True, [CurveCell(one, palette.past) for one in steps]))
    made.append(("last", True, [CurveCell(_number(row, 1, places), palette.past) for row in rows]))
    made.append(("since best", True, [_since(row, rows, places, palette) for row in rows]))
    times = [duration_cell(row.seconds) if row.seconds is not None else "" for row in rows]
    made.append(("time", True, [CurveCell(one.rjust(DURATION_CELLS), palette.past) for one in times]))
    return made


def _number(row: CurveRow, which: int, places: int) -> str:
    value = row.result[which] if row.result is not None else None
    return f"{value:,.{places}f}" if value is not None else ""


def _since(row: CurveRow, rows: Sequence[CurveRow], places: int, palette: Palette) -> CurveCell:
    """How far it has gone from its best; the one that has gone furthest stands out."""
    if row.result is None:
        return CurveCell("", palette.past)
    gone = row.result[1] - row.result[0]
    furthest = max(abs(one.result[1] - one.result[0]) for one in rows if one.result is not None)
    stands_out = len(rows) > 1 and gone and abs(gone) == furthest
    return CurveCell(f"{gone:+.{places}f}" if gone else "", palette.warning if stands_out else palette.past)


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
