"""Which columns a width has room for: what is dropped first, and how wide each is. Pure.

Widths are those of the widest value a column can take, so that nothing jumps while jobs run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len as width

from gputui.core.views.amounts import DURATION_CELLS
from gputui.core.views.parameter_columns import ParameterColumn
from gputui.logs.plain import plain

from . import column_cells as cells
from .columns import ColumnLayout, Group, QueueColumn
from .result_cells import NO_RESULT_SHAPE, TREND, ResultShape
from .sorting import METRIC, PARAMETER, SECOND, TIME
from .words import LONG_STATES, SHORT_STATES, gpus_of

__all__ = ["TableShape", "layout", "width_needed"]

WIDE = 100
"""Columns from which rows have bars, long words and wider gutters."""
MOST_PARAMETER = (14, 10, 8)
"""How wide a value may be, and how far columns are narrowed before they give up."""
LEAST_NAME, GOOD_NAME, LONGEST_NAME = 12, 24, 60
PID = 7
"""Digits of the largest that Linux gives."""


@dataclass(frozen=True)
class TableShape:
    """What there is to show, whatever the width."""

    highest_id: int
    parameters: Sequence[ParameterColumn] = ()
    names: bool = True
    """Jobs have names, or words without a name in which they differ: they need a column of their own."""
    longest_name: int = GOOD_NAME
    priorities: bool = False
    places: int = 3
    """Cells that the GPUs of a job take; 0: all have the same, or none."""
    results: ResultShape = NO_RESULT_SHAPE
    days: bool = False
    """Times of day are of several days."""
    peaks: bool = False
    pids: bool = False
    """Commands run on this machine, where a pid is good for something."""


@dataclass(frozen=True)
class _Detail:
    """How much of everything is shown."""

    pid: bool = True
    peak: bool = True
    last: bool = True
    trend: int = TREND
    """Cells; 1: a glyph, 0: none."""
    bar: bool = True
    tight: bool = False
    """Small gutters."""
    words: int = 2
    """The state: a word, four letters, or the sign alone."""
    place: bool = True
    end: bool = True
    second: bool = True
    percent: bool = True
    priority: bool = True
    time: bool = True
    widest: int = MOST_PARAMETER[0]


_STEPS: tuple[dict[str, object], ...] = (
    {"pid": False}, {"peak": False}, {"last": False}, {"trend": 1}, {"bar": False}, {"tight": True}, {"words": 1},
    {"place": False}, {"end": False}, {"second": False}, {"widest": MOST_PARAMETER[1]}, {"percent": False},
    {"trend": 0}, {"widest": MOST_PARAMETER[2]}, {"priority": False}, {"words": 0}, {"time": False},
)  # fmt: skip
"""What goes first comes first."""
_NARROW = 7
"""Steps that are taken in any case below the width from which rows have bars."""


def layout(room: int, shape: TableShape) -> ColumnLayout:
    """The richest that fits; every line is exactly `room` cells wide."""
    detail = _Detail()
    for number, step in enumerate((None, *_STEPS)):
        detail = replace(detail, **step) if step is not None else detail  # type: ignore[arg-type]  # fields by name
        if number < _NARROW and room < WIDE:
            continue
        columns = _columns(shape, detail, _least_name(shape, number))
        if _taken(columns) <= room:
            return ColumnLayout(_with_name(columns, shape, room), room)
    return _barest(room, shape)


def width_needed(shape: TableShape) -> int:
    """With which everything is shown, but for pids: those have their place where room is left over."""
    return _taken(_columns(shape, _Detail(pid=False), _whole_name(shape))) + 2


def _whole_name(shape: TableShape) -> int:
    return min(LONGEST_NAME, max(LEAST_NAME, shape.longest_name))


def _least_name(shape: TableShape, dropped: int) -> int:
    """While much can still be dropped, names are given more."""
    if not shape.names:
        return 0
    if not dropped:
        return _whole_name(shape)
    return min(shape.longest_name, GOOD_NAME) if dropped <= len(_STEPS) // 2 + 1 else LEAST_NAME


def _taken(columns: Sequence[QueueColumn]) -> int:
    return 1 + sum(column.before + column.width for column in columns)


def _with_name(columns: list[QueueColumn], shape: TableShape, room: int) -> tuple[QueueColumn, ...]:
    """What is left goes to the names, as far as they need it."""
    spare = room - 1 - _taken(columns)
    wanted = max(LEAST_NAME, shape.longest_name)
    return tuple(
        replace(column, width=max(column.width, min(wanted, column.width + spare))) if column.sort == "name" else column
        for column in columns
    )


def _barest(room: int, shape: TableShape) -> ColumnLayout:
    """No room for columns: id, sign, and what tells the job from the others."""
    id_width = min(max(2, len(str(shape.highest_id))), max(1, room - 4))
    columns = [
        QueueColumn("id", id_width, Group.WHO, lambda facts: str(facts.job.id), "id", "i", right=True, before=0),
        QueueColumn("", 1, Group.WHO, cells.sign, "state", "a", before=1),
    ]
    remaining = room - _taken(columns) - 1
    if remaining > 0:
        columns.append(
            QueueColumn("job", remaining, Group.WHAT, cells.name_alone, "name", "j", look=cells.what_look, before=1)
        )
    return ColumnLayout(tuple(columns), room)


def _columns(shape: TableShape, detail: _Detail, name: int) -> list[QueueColumn]:
    gap, gutter = (1, 2) if detail.tight else (2, 3)
    what = _what(shape, detail, name)
    groups = [_who(shape, detail), what, *_when(shape, detail), _result(shape, detail)]
    columns: list[QueueColumn] = []
    for number, group in enumerate(groups):
        for place, column in enumerate(group):
            usual = column.before if column.before >= 0 else gap
            before = gutter if not place and number not in (0, 3) else usual
            columns.append(replace(column, before=before))
    return columns


def _who(shape: TableShape, detail: _Detail) -> list[QueueColumn]:
    words = (None, SHORT_STATES, LONG_STATES)[detail.words]
    state_width = 1 if words is None else 2 + max(map(len, words.values()))
    state = cells.state(short=words is SHORT_STATES) if words is not None else cells.sign
    columns = [
        QueueColumn("id", max(3, len(str(shape.highest_id))), Group.WHO, lambda facts: str(facts.job.id), "id", "i",
                    right=True, before=0),
        QueueColumn("state" if words is not None else "", state_width, Group.WHO, state, "state", "a",
                    look=cells.state_look),
    ]  # fmt: skip
    if shape.priorities and detail.priority:
        columns.append(QueueColumn("pri", 3, Group.WHO, lambda facts: str(facts.job.priority), "pri", "r", right=True))
    if shape.places and detail.place:
        columns.append(QueueColumn("gpu", shape.places, Group.WHO, lambda facts: gpus_of(facts.job), "gpu", "g",
                                right=True, before=1))  # fmt: skip
    if shape.pids and detail.pid:
        columns.append(QueueColumn("pid", PID, Group.WHO, cells.pid, right=True))
    return columns


def _what(shape: TableShape, detail: _Detail, name: int) -> list[QueueColumn]:
    columns = []
    if shape.names:
        columns.append(
            QueueColumn("job", name, Group.WHAT, cells.name_beside_parameters, "name", "j", look=cells.what_look)
        )
    for column in shape.parameters:
        title = plain(column.title)
        most = min(detail.widest, max(width(title), column.width))
        columns.append(QueueColumn(title, most, Group.WHAT, cells.parameter(column.name), PARAMETER + column.name,
                                right=column.is_number, look=cells.what_look))  # fmt: skip
    return columns


def _when(shape: TableShape, detail: _Detail) -> list[list[QueueColumn]]:
    time = [QueueColumn("time", DURATION_CELLS, Group.TIME, cells.time, TIME, "t", right=True)] if detail.time else []
    then: list[QueueColumn] = []
    if detail.bar:
        then.append(
            QueueColumn("progress", cells.BAR + cells.PERCENT, Group.WHEN, cells.percent, None, pieces=cells.bar)
        )
    elif detail.percent:
        then.append(QueueColumn("done", 4, Group.WHEN, cells.percent, None, right=True))
    if detail.end:
        then.append(QueueColumn("end", 10 if shape.days else 6, Group.WHEN, cells.end, "end", "e", right=True))
    return [time, then]


def _result(shape: TableShape, detail: _Detail) -> list[QueueColumn]:
    results = shape.results
    number = results.main_number.width
    most = max(number + 2, width(results.main_title))
    columns = [
        QueueColumn(results.main_title, most, Group.RESULT, cells.main, METRIC, "m", right=True, look=cells.value_look)
    ]
    if detail.last:
        columns.append(QueueColumn("last", number, Group.RESULT, cells.last, None, right=True))
    if detail.trend == 1:
        columns.append(QueueColumn("", 1, Group.RESULT, cells.glyph, before=0, look=cells.trend_look))
    elif detail.trend:
        columns.append(QueueColumn("trend", detail.trend, Group.RESULT, cells.trend, look=cells.trend_look))
    if detail.second:
        most = max(results.second_number.width - 1, width(results.second_title))
        columns.append(QueueColumn(results.second_title, most, Group.RESULT, cells.second, SECOND, right=True,
                                look=cells.value_look))  # fmt: skip
    if detail.peak and shape.peaks:
        columns.append(QueueColumn("peak G", 6, Group.RESULT, cells.peak, "peak", right=True))
    return columns
