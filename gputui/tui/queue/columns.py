"""The queue's columns: their cells, and which of them fit a width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from gputui.core.amounts import DURATION_CELLS, GIB, duration_cell, moment
from gputui.core.job import Active, Ended, StateName
from gputui.core.parameter_columns import ParameterColumn
from gputui.logs.plain import plain
from gputui.views.format import cut, width
from gputui.views.waiting import FOR_A_GPU

from .row_facts import (
    LONG_STATES,
    NO_RESULT_SHAPE,
    SHORT_STATES,
    TREND,
    ResultShape,
    RowFacts,
    gpus_of,
    seconds_of,
    sign_of,
    state_word,
    trend_glyph,
    trend_line,
)
from .rows import METRIC, PARAMETER, QUEUE_ORDER, SECOND, TIME

# ---- The queue's columns ----


Piece = tuple[str, str]
"""A text and the name of its look in the palette."""
BLANK = "text"


class Group(Enum):
    WHO = 0
    WHAT = 1
    TIME = 2
    WHEN = 3
    RESULT = 4


@dataclass(frozen=True)
class QueueColumn:
    title: str
    width: int
    group: Group
    text: Callable[[RowFacts], str]
    sort: str | None = None
    letter: str = ""
    """Sorts by it after `s`."""
    right: bool = False
    look: Callable[[RowFacts], str] | None = None
    pieces: Callable[[RowFacts], list[Piece]] | None = None
    """Where a cell has several looks; they fill it exactly."""
    before: int = -1
    """Blanks before it; -1: as many as between any two."""

    def cell(self, text: str) -> str:
        """Exactly as wide as the column."""
        if not (text.isascii() and len(text) <= self.width):
            text = cut(text, self.width)
        blanks = " " * (self.width - width(text))
        return blanks + text if self.right else text + blanks


@dataclass(frozen=True)
class ColumnLayout:
    columns: tuple[QueueColumn, ...]
    width: int

    def line(self, facts: RowFacts, mark: Piece = (" ", BLANK)) -> list[Piece]:
        """Pieces of one look each, exactly as wide as the layout."""
        pieces: list[Piece] = [mark]
        used, own = 1, look_of(facts)
        for column in self._columns_of(facts):
            used += column.before + column.width
            if column.pieces is not None:
                pieces += [(" " * column.before, BLANK), *column.pieces(facts)]
            else:
                look = column.look(facts) if column.look is not None else own
                pieces.append((" " * column.before + column.cell(column.text(facts)), look))
        pieces.append((" " * max(0, self.width - used), BLANK))
        return _joined(pieces)

    def _columns_of(self, facts: RowFacts) -> Sequence[QueueColumn]:
        """Where a row has a message, it stands in the place of those that would be empty or matter less.

        So does the name of a job that has none of the parameters.
        """
        columns: Sequence[QueueColumn] = self.columns
        if self._spans_parameters and not any(map(facts.parameter, self._parameter_names)):
            columns = self._with(columns, Group.WHAT, Group.WHAT, name_alone(facts), what_look(facts))
        if facts.message:
            columns = self._with(columns, _message_from(facts), None, facts.message, _message_look(facts))
        elif facts.remark:
            columns = self._with(columns, Group.WHEN, Group.WHEN, facts.remark, "warning")
        return columns

    @cached_property
    def _parameter_names(self) -> list[str]:
        sorts = (column.sort or "" for column in self.columns)
        return [sort.removeprefix(PARAMETER) for sort in sorts if sort.startswith(PARAMETER)]

    @cached_property
    def _spans_parameters(self) -> bool:
        return bool(self._parameter_names) and not any(column.sort == "name" for column in self.columns)

    def _with(
        self, columns: Sequence[QueueColumn], first: Group, last: Group | None, text: str, look: str
    ) -> Sequence[QueueColumn]:
        """With one text in the place of these groups; `last` None: it has all that is left of the line."""
        most = last.value if last is not None else Group.RESULT.value
        there = [number for number, column in enumerate(columns) if first.value <= column.group.value <= most]
        if not there:
            return columns
        begin, after = there[0], there[-1] + 1
        if last is None:
            room = self.width - 1 - _taken(columns[:begin]) - columns[begin].before
        else:
            room = _taken(columns[begin:after]) - 1 - columns[begin].before
        room, before = max(0, room), columns[begin].before
        text = text if width(text) <= room else text.removeprefix(FOR_A_GPU)
        message = QueueColumn("", room, first, lambda _: text, look=lambda _: look, before=before)
        return [*columns[:begin], message, *columns[after:]]

    def text(self, facts: RowFacts) -> str:
        return "".join(text for text, _ in self.line(facts)).rstrip()

    def _place(self, wanted: QueueColumn) -> int:
        """The cell after the mark and all columns before it."""
        place = 1
        for column in self.columns:
            if column is wanted:
                return place
            place += column.before + column.width
        return place

    def fold(self, hidden: int) -> list[Piece]:
        """The line in the place of rows that are folded; it stands below the states."""
        state = next((column for column in self.columns if column.sort == "state"), self.columns[0])
        indent = self._place(state) + state.before
        return [(_padded(" " * indent + f"⋮ {hidden:,} more wait", self.width), "past")]

    def header(self, sort: str, *, reverse: bool) -> list[Piece]:
        pieces: list[Piece] = [(" ", "past")]
        used = 1
        for column in self.columns:
            used += column.before + column.width
            if column.sort is None or column.sort != sort or sort == QUEUE_ORDER:
                pieces.append((" " * column.before + column.cell(column.title), "past"))
                continue
            pieces += _sorted_title(column, "▾" if reverse else "▴")
        pieces.append((" " * max(0, self.width - used), "past"))
        return pieces

    def column_at(self, x: int) -> QueueColumn | None:
        """The column under a click."""
        for column in self.columns:
            place = self._place(column)
            if place <= x < place + column.before + column.width:
                return column
        return None


def _sorted_title(column: QueueColumn, arrow: str) -> list[Piece]:
    """`▴val_loss`, in the blank before the column where it is as wide as its title."""
    cells = column.before + column.width
    title = cut(column.title, min(column.width, cells - 1))
    spare = cells - width(title) - 1
    if column.right or spare < column.before:
        left = spare if column.right else column.before - 1
        return [(" " * left, "past"), (arrow, "text"), (title, "sorted"), (" " * (spare - left), "past")]
    return [(" " * column.before, "past"), (title, "sorted"), (arrow, "text"), (" " * (spare - column.before), "past")]


def _message_from(facts: RowFacts) -> Group:
    """A job that waits has no time either."""
    return Group.TIME if facts.waits else Group.WHEN


def _message_look(facts: RowFacts) -> str:
    return "failure" if facts.bad else "warning"


def _padded(text: str, cells: int) -> str:
    text = cut(text, max(0, cells))
    return text + " " * (cells - width(text))


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbours of one look are one piece; blanks have the look of what is before them."""
    joined_pieces: list[Piece] = []
    for text, look in pieces:
        if not text:
            continue
        if joined_pieces and (look == joined_pieces[-1][1] or not text.strip()):
            joined_pieces[-1] = (joined_pieces[-1][0] + text, joined_pieces[-1][1])
        else:
            joined_pieces.append((text, look))
    return joined_pieces


def look_of(facts: RowFacts) -> str:
    """Of what tells how a job goes: its id, state, place and times."""
    return _LOOKS.get(facts.job.state.name) or _kind_look(facts)


def _kind_look(facts: RowFacts) -> str:
    if facts.waits:
        return "text"
    if isinstance(facts.job.state, Active):
        return "running"
    return "past" if isinstance(facts.job.state, Ended) else "text"


_LOOKS = {
    StateName.SUSPENDED: "warning", StateName.STOPPING: "warning", StateName.HELD: "warning",
    StateName.FAILED: "failure", StateName.CRASHED: "failure", StateName.TIMED_OUT: "failure",
    StateName.LOST: "failure", StateName.REFUSED: "failure", StateName.SKIPPED: "failure",
}  # fmt: skip


# ---- What the cells of the queue say, and in which look ----


BAR = 10
PERCENT = 5
"""Cells of a percentage behind its bar."""

Cell = Callable[[RowFacts], str]

# Looks


def state_look(facts: RowFacts) -> str:
    look = look_of(facts)
    return "past" if look == "text" else look


def what_look(facts: RowFacts) -> str:
    if facts.best:
        return "best"
    look = look_of(facts)
    return "text" if look in ("running", "warning") else look


def value_look(facts: RowFacts) -> str:
    if facts.best:
        return "best"
    look = look_of(facts)
    return "text" if look == "past" else look


def trend_look(facts: RowFacts) -> str:
    return "running" if look_of(facts) == "running" else "past"


# Who


def sign(facts: RowFacts) -> str:
    return sign_of(facts.job)


def state_cell(*, short: bool) -> Cell:
    return lambda facts: f"{sign_of(facts.job)} {state_word(facts.job, short=short)}"


def pid(facts: RowFacts) -> str:
    """The command's own, by which it can be signalled."""
    return str(facts.told.pids.get(facts.job.id, ""))


# What


def parameter(name: str) -> Cell:
    return lambda facts: facts.parameter(name)


def name_beside_parameters(facts: RowFacts) -> str:
    """A name, or words without one; of a job that differs in nothing, its command."""
    parameters, job = facts.told.parameters, facts.job
    return plain(job.spec.name or parameters.rest(job) or ("" if parameters.told(job) else parameters.of(job)))


def name_alone(facts: RowFacts) -> str:
    return plain(facts.told.parameters.of(facts.job))


# When


def time_cell(facts: RowFacts) -> str:
    if facts.waits:
        return ""
    seconds = seconds_of(facts.job, facts.told.now)
    return duration_cell(seconds) if seconds is not None else ""


def percent(facts: RowFacts) -> str:
    fraction = facts.progress
    return f"{int(fraction * 100)}%" if fraction is not None else ""


def bar(facts: RowFacts) -> list[Piece]:
    fraction = facts.progress
    if fraction is None:
        return [(" " * (BAR + PERCENT), BLANK)]
    used = min(BAR, round(fraction * BAR))
    look = look_of(facts)
    return [("━" * used, look), ("─" * (BAR - used), "line"), (f"{percent(facts):>{PERCENT}}", look)]


def end(facts: RowFacts) -> str:
    ends = facts.ends
    if ends is None:
        return ""
    at, estimated = ends
    return f"{'≈' if estimated else ''}{moment(at, facts.told.now)}"


# Results


def main(facts: RowFacts) -> str:
    result = facts.main
    if result is None:
        return ""
    text = facts.told.shape.main_number.text(result.best)
    return f"★ {text}" if facts.best else text


def last(facts: RowFacts) -> str:
    result = facts.main
    return facts.told.shape.main_number.text(result.last) if result is not None else ""


def glyph(facts: RowFacts) -> str:
    result = facts.main
    return trend_glyph(result.trend) if result is not None else ""


def trend(facts: RowFacts) -> str:
    result = facts.main
    return trend_line(result.trend) if result is not None else ""


def second(facts: RowFacts) -> str:
    value = facts.second
    return facts.told.shape.second_number.text(value) if value is not None else ""


def peak(facts: RowFacts) -> str:
    job = facts.job
    usage = job.attempts[-1].usage if job.attempts and isinstance(job.state, Ended) else None
    used = usage.gpu_peak_memory if usage is not None else None
    return f"{used / GIB:.1f}" if used is not None else ""


# ---- Which columns a width has room for ----


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
    bare_jobs: bool = False
    """Jobs without any of these parameters: their names take the place of the columns."""
    longest_name: int = GOOD_NAME
    priorities: bool = False
    """Jobs differ in them."""
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
    same_priority: bool = True
    """The priority although all jobs have the same."""
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
    {"pid": False}, {"same_priority": False}, {"peak": False}, {"last": False}, {"trend": 1}, {"bar": False},
    {"tight": True}, {"words": 1},
    {"place": False}, {"end": False}, {"second": False}, {"widest": MOST_PARAMETER[1]}, {"percent": False},
    {"trend": 0}, {"widest": MOST_PARAMETER[2]}, {"priority": False}, {"words": 0}, {"time": False},
)  # fmt: skip
"""What goes first comes first."""
_NARROW = 8
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
    """With which everything is shown, but for what has its place where room is left over."""
    return _taken(_columns(shape, _Detail(pid=False, same_priority=False), _whole_name(shape))) + 2


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
    wanted = max(LEAST_NAME, shape.longest_name) if shape.names else LEAST_NAME
    return tuple(
        replace(column, width=max(column.width, min(wanted, column.width + spare))) if column.sort == "name" else column
        for column in columns
    )


def _barest(room: int, shape: TableShape) -> ColumnLayout:
    """No room for columns: id, sign, and what tells the job from the others."""
    id_width = min(max(2, len(str(shape.highest_id))), max(1, room - 4))
    columns = [
        QueueColumn("id", id_width, Group.WHO, lambda facts: str(facts.job.id), "id", "i", right=True, before=0),
        QueueColumn("", 1, Group.WHO, sign, "state", "a", before=1),
    ]
    remaining = room - _taken(columns) - 1
    if remaining > 0:
        columns.append(QueueColumn("job", remaining, Group.WHAT, name_alone, "name", "j", look=what_look, before=1))
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
    state = state_cell(short=words is SHORT_STATES) if words is not None else sign
    columns = [
        QueueColumn("id", max(3, len(str(shape.highest_id))), Group.WHO, lambda facts: str(facts.job.id), "id", "i",
                    right=True, before=0),
        QueueColumn("state" if words is not None else "", state_width, Group.WHO, state, "state", "a",
                    look=state_look),
    ]  # fmt: skip
    if detail.priority and (shape.priorities or detail.same_priority):
        columns.append(QueueColumn("pri", 3, Group.WHO, lambda facts: str(facts.job.priority), "pri", "r", right=True))
    if shape.places and detail.place:
        columns.append(QueueColumn("gpu", shape.places, Group.WHO, lambda facts: gpus_of(facts.job), "gpu", "g",
                                right=True, before=1))  # fmt: skip
    return columns


def _what(shape: TableShape, detail: _Detail, name: int) -> list[QueueColumn]:
    columns = []
    for column in shape.parameters:
        title = plain(column.title)
        most = min(detail.widest, max(width(title), column.width))
        columns.append(QueueColumn(title, most, Group.WHAT, parameter(column.name), PARAMETER + column.name,
                                right=column.is_number, look=what_look))  # fmt: skip
    too_narrow = shape.bare_jobs and sum(column.width + 1 for column in columns) <= LEAST_NAME
    if shape.names or too_narrow:
        cell, least = name_beside_parameters, max(name, LEAST_NAME if too_narrow else 0)
        columns.insert(0, QueueColumn("job", least, Group.WHAT, cell, "name", "j", look=what_look))
    return columns


def _when(shape: TableShape, detail: _Detail) -> list[list[QueueColumn]]:
    time = [QueueColumn("time", DURATION_CELLS, Group.TIME, time_cell, TIME, "t", right=True)] if detail.time else []
    then: list[QueueColumn] = []
    if detail.bar:
        then.append(QueueColumn("progress", BAR + PERCENT, Group.WHEN, percent, None, pieces=bar))
    elif detail.percent:
        then.append(QueueColumn("done", 4, Group.WHEN, percent, None, right=True))
    if detail.end:
        then.append(QueueColumn("end", 10 if shape.days else 6, Group.WHEN, end, "end", "e", right=True))
    return [time, then]


def _result(shape: TableShape, detail: _Detail) -> list[QueueColumn]:
    results = shape.results
    number = results.main_number.width
    most = max(number + 2, width(results.main_title))
    columns = [QueueColumn(results.main_title, most, Group.RESULT, main, METRIC, "m", right=True, look=value_look)]
    if detail.last:
        columns.append(QueueColumn("last", number, Group.RESULT, last, None, right=True))
    if detail.trend == 1:
        columns.append(QueueColumn("", 1, Group.RESULT, glyph, before=0, look=trend_look))
    elif detail.trend:
        columns.append(QueueColumn("trend", detail.trend, Group.RESULT, trend, look=trend_look))
    if detail.second:
        most = max(results.second_number.width - 1, width(results.second_title))
        columns.append(QueueColumn(results.second_title, most, Group.RESULT, second, SECOND, right=True,
                                look=value_look))  # fmt: skip
    if detail.peak and shape.peaks:
        columns.append(QueueColumn("peak G", 6, Group.RESULT, peak, "peak", right=True))
    if shape.pids and detail.pid:
        columns.append(QueueColumn("pid", PID, Group.RESULT, pid, right=True))
    return columns
