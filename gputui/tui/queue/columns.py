"""The columns of the queue: their cells, and the choice of the columns that fit a width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial

from gputui.core.amounts import DURATION_CELLS, GIB, duration_cell, moment
from gputui.core.job import Active, Ended, Held, Stopping, Suspended
from gputui.core.results import MetricResult
from gputui.logs.plain import plain
from gputui.tui.text import Piece, blank, ljust, rjust
from gputui.tui.text import bar as progress_bar
from gputui.tui.theme import Look
from gputui.views.format import cut, width
from gputui.views.parameters import ParameterColumn

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


class Group(Enum):
    """A group of columns. A message replaces whole groups."""

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
    """The key that sorts by this column when pressed after `s`."""
    right: bool = False
    look: Callable[[RowFacts], Look] | None = None
    pieces: Callable[[RowFacts], list[Piece]] | None = None
    """A function that returns the pieces of a cell with several looks. They fill the cell exactly."""
    before: int = -1
    """Number of blanks before the column, or -1 for the usual gap."""

    def cell(self, text: str) -> str:
        """Cut or pad a text to the width of the column."""
        return rjust(text, self.width) if self.right else ljust(text, self.width)


@dataclass(frozen=True)
class ColumnLayout:
    columns: tuple[QueueColumn, ...]
    width: int

    def line(self, facts: RowFacts, mark: Piece = (" ", Look.TEXT)) -> list[Piece]:
        """Render a row that is exactly as wide as the layout."""
        pieces: list[Piece] = [mark]
        used, own = 1, look_of(facts)
        for column in self._columns_of(facts):
            used += column.before + column.width
            if column.pieces is not None:
                pieces += [blank(column.before), *column.pieces(facts)]
            else:
                look = column.look(facts) if column.look is not None else own
                pieces.append((" " * column.before + column.cell(column.text(facts)), look))
        pieces.append(blank(self.width - used))
        return _joined(pieces)

    def _columns_of(self, facts: RowFacts) -> Sequence[QueueColumn]:
        """Return the columns of a row.

        A message replaces columns that are empty or less important. If a job has no parameters, its name replaces the
        parameter columns.
        """
        columns: Sequence[QueueColumn] = self.columns
        if self._spans_parameters and not any(map(facts.parameter, self._parameter_names)):
            columns = self._replace(columns, Group.WHAT, Group.WHAT, full_name(facts), what_look(facts))
        if facts.message:
            first = Group.TIME if facts.waits else Group.WHEN  # a waiting job has no time
            look = Look.FAILURE if facts.bad else Look.WARNING
            columns = self._replace(columns, first, None, facts.message, look, brief=facts.brief_message)
        elif facts.remark:
            columns = self._replace(columns, Group.WHEN, Group.WHEN, facts.remark, Look.WARNING)
        return columns

    @cached_property
    def _parameter_names(self) -> list[str]:
        sorts = (column.sort or "" for column in self.columns)
        return [sort.removeprefix(PARAMETER) for sort in sorts if sort.startswith(PARAMETER)]

    @cached_property
    def _spans_parameters(self) -> bool:
        return bool(self._parameter_names) and not any(column.sort == "name" for column in self.columns)

    def _replace(
        self, columns: Sequence[QueueColumn], first: Group, last: Group | None, text: str, look: Look, brief: str = ""
    ) -> Sequence[QueueColumn]:
        """Replace groups of columns with one text. If `last` is None, the text takes the rest of the line.

        `brief` is used if `text` does not fit.
        """
        end = last.value if last is not None else Group.RESULT.value
        replaced = [number for number, column in enumerate(columns) if first.value <= column.group.value <= end]
        if not replaced:
            return columns
        begin, after, before = replaced[0], replaced[-1] + 1, columns[replaced[0]].before
        available = self.width - total_width(columns[:begin]) if last is None else total_width(columns[begin:after])
        room = max(0, available - 1 - before)
        text = text if width(text) <= room else brief or text
        message = QueueColumn("", room, first, lambda _: text, look=lambda _: look, before=before)
        return [*columns[:begin], message, *columns[after:]]

    def text(self, facts: RowFacts) -> str:
        return "".join(text for text, _ in self.line(facts)).rstrip()

    def fold(self, hidden: int) -> list[Piece]:
        """Render the line that replaces folded rows, aligned with the state column."""
        state = next((number for number, column in enumerate(self.columns) if column.sort == "state"), 0)
        indent = total_width(self.columns[:state]) + self.columns[state].before
        return [(ljust(" " * indent + f"⋮ {hidden:,} more waiting", max(0, self.width)), Look.PAST)]

    def header(self, sort: str, *, reverse: bool) -> list[Piece]:
        pieces: list[Piece] = [(" ", Look.PAST)]
        used = 1
        for column in self.columns:
            used += column.before + column.width
            if column.sort is None or column.sort != sort or sort == QUEUE_ORDER:
                pieces.append((" " * column.before + column.cell(column.title), Look.PAST))
                continue
            pieces += _sorted_title(column, "▾" if reverse else "▴")
        pieces.append((" " * max(0, self.width - used), Look.PAST))
        return pieces

    def column_at(self, x: int) -> QueueColumn | None:
        """Return the column at a cell of the line, or None."""
        starts = [total_width(self.columns[:number]) for number in range(len(self.columns) + 1)]
        return next((column for number, column in enumerate(self.columns) if starts[number] <= x < starts[number + 1]),
                    None)  # fmt: skip


def _sorted_title(column: QueueColumn, arrow: str) -> list[Piece]:
    """Render a title with a sort arrow, such as `▴val_loss`. The arrow may use the blank before the column."""
    cells = column.before + column.width
    title = cut(column.title, min(column.width, cells - 1))
    spare = cells - width(title) - 1
    if column.right or spare < column.before:
        left = spare if column.right else column.before - 1
        return [blank(left), (arrow, Look.TEXT), (title, Look.TITLE), blank(spare - left)]
    return [blank(column.before), (title, Look.TITLE), (arrow, Look.TEXT), blank(spare - column.before)]


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Merge adjacent pieces with the same look. Blanks take the look of the piece before them."""
    joined_pieces: list[Piece] = []
    for text, look in pieces:
        if not text:
            continue
        if joined_pieces and (look == joined_pieces[-1][1] or not text.strip()):
            joined_pieces[-1] = (joined_pieces[-1][0] + text, joined_pieces[-1][1])
        else:
            joined_pieces.append((text, look))
    return joined_pieces


def look_of(facts: RowFacts) -> Look:
    """Return the look for the id, state, GPUs and times of a job."""
    state = facts.job.state
    if isinstance(state, Ended):
        return Look.FAILURE if facts.bad else Look.PAST
    if isinstance(state, Suspended | Stopping | Held):
        return Look.WARNING
    return Look.RUNNING if isinstance(state, Active) and not facts.waits else Look.TEXT


# Cells


BAR = 10
PERCENT = 5
"""Number of cells for the percentage after a progress bar."""


def state_look(facts: RowFacts) -> Look:
    look = look_of(facts)
    return Look.PAST if look is Look.TEXT else look


def what_look(facts: RowFacts) -> Look:
    if facts.best:
        return Look.BEST
    look = look_of(facts)
    return Look.TEXT if look in (Look.RUNNING, Look.WARNING) else look


def value_look(facts: RowFacts) -> Look:
    if facts.best:
        return Look.BEST
    look = look_of(facts)
    return Look.TEXT if look is Look.PAST else look


def trend_look(facts: RowFacts) -> Look:
    return Look.RUNNING if look_of(facts) is Look.RUNNING else Look.PAST


def pid(facts: RowFacts) -> str:
    return str(facts.context.pids.get(facts.job.id, ""))


def name_beside_parameters(facts: RowFacts) -> str:
    """Return the name of a job, or else the part of its command that differs besides the parameters. A job without
    distinguishing parameters gets its full name.
    """
    parameters, job = facts.context.parameters, facts.job
    return plain(job.spec.name or parameters.rest(job) or ("" if parameters.label(job) else parameters.of(job)))


def full_name(facts: RowFacts) -> str:
    return plain(facts.context.parameters.of(facts.job))


def time_cell(facts: RowFacts) -> str:
    if facts.waits:
        return ""
    seconds = seconds_of(facts.job, facts.context.now)
    return duration_cell(seconds) if seconds is not None else ""


def percent(facts: RowFacts) -> str:
    fraction = facts.progress
    return f"{int(fraction * 100)}%" if fraction is not None else ""


def bar(facts: RowFacts) -> list[Piece]:
    fraction = facts.progress
    if fraction is None:
        return [blank(BAR + PERCENT)]
    look = look_of(facts)
    return [*progress_bar(min(1.0, fraction), BAR, look), (f"{percent(facts):>{PERCENT}}", look)]


def end(facts: RowFacts) -> str:
    ends = facts.ends
    if ends is None:
        return ""
    at, estimated = ends
    return f"{'≈' if estimated else ''}{moment(at, facts.context.now)}"


def from_main_metric(text: Callable[[RowFacts, MetricResult], str]) -> Callable[[RowFacts], str]:
    """Return a function that renders a cell from the main metric. The cell is empty if the job has no result."""
    return lambda facts: text(facts, facts.main) if facts.main is not None else ""


def main(facts: RowFacts, result: MetricResult) -> str:
    text = facts.context.shape.main_number.text(result.best)
    return f"★ {text}" if facts.best else text


def last(facts: RowFacts, result: MetricResult) -> str:
    return facts.context.shape.main_number.text(result.last)


def second(facts: RowFacts) -> str:
    value = facts.second
    return facts.context.shape.second_number.text(value) if value is not None else ""


def peak(facts: RowFacts) -> str:
    job = facts.job
    usage = job.attempts[-1].usage if job.attempts and isinstance(job.state, Ended) else None
    used = usage.gpu_peak_memory if usage is not None else None
    return f"{used / GIB:.1f}" if used is not None else ""


# Layouts


WIDE = 100
"""Minimum width in cells for bars, long texts and wider gutters in rows."""
PARAMETER_WIDTHS = (14, 10, 8)
"""Maximum width of a parameter column, followed by the smaller widths used if there is too little room."""
LEAST_NAME, GOOD_NAME, LONGEST_NAME = 12, 24, 60
PID = 7
"""Number of digits of the largest pid on Linux."""


@dataclass(frozen=True)
class TableShape:
    """What the jobs need to show, regardless of the width of the table."""

    highest_id: int
    parameters: Sequence[ParameterColumn] = ()
    names: bool = True
    """Whether names need a column because jobs are named or differ in more than their parameters."""
    bare_jobs: bool = False
    """Whether some jobs have none of the parameters. Their names then replace the parameter columns."""
    longest_name: int = GOOD_NAME
    priorities: bool = False
    """Whether the jobs have different priorities."""
    places: int = 3
    """Width of the column of GPUs, or 0 if all jobs have the same GPUs or none."""
    results: ResultShape = NO_RESULT_SHAPE
    days: bool = False
    """Whether times must include the day."""
    peaks: bool = False
    pids: bool = False
    """Whether commands run on this machine, so that their pids can be shown."""


@dataclass(frozen=True)
class DetailLevel:
    """The level of detail of a table."""

    pid: bool = True
    same_priority: bool = True
    """Whether to show the priority even if all jobs have the same one."""
    peak: bool = True
    last: bool = True
    trend: int = TREND
    """Width of the trend: 1 for a single glyph, or 0 for none."""
    bar: bool = True
    tight: bool = False
    """Whether to use narrow gutters."""
    words: int = 2
    """How to show the state: 2 for the full name, 1 for four letters, or 0 for just the sign."""
    place: bool = True
    end: bool = True
    second: bool = True
    percent: bool = True
    priority: bool = True
    time: bool = True
    widest: int = PARAMETER_WIDTHS[0]


_STEPS: tuple[dict[str, object], ...] = (
    {"pid": False}, {"same_priority": False}, {"peak": False}, {"last": False}, {"trend": 1}, {"bar": False},
    {"tight": True}, {"words": 1},
    {"place": False}, {"end": False}, {"second": False}, {"widest": PARAMETER_WIDTHS[1]}, {"percent": False},
    {"trend": 0}, {"widest": PARAMETER_WIDTHS[2]}, {"priority": False}, {"words": 0}, {"time": False},
)  # fmt: skip
"""The details in the order in which they are dropped."""
_NARROW = 8
"""Number of steps that are always taken if the table is narrower than `WIDE`."""


def layout(room: int, shape: TableShape) -> ColumnLayout:
    """Return the most detailed layout that fits in `room` cells."""
    detail = DetailLevel()
    for number, step in enumerate((None, *_STEPS)):
        detail = replace(detail, **step) if step is not None else detail  # type: ignore[arg-type]  # fields by name
        if number < _NARROW and room < WIDE:
            continue
        columns = _columns(shape, detail, _least_name(shape, number))
        if total_width(columns) <= room:
            return ColumnLayout(_with_name(columns, shape, room), room)
    return _barest(room, shape)


def width_needed(shape: TableShape) -> int:
    """Return the width needed to show everything except pids and a priority that is the same for all jobs."""
    return total_width(_columns(shape, DetailLevel(pid=False, same_priority=False), _whole_name(shape))) + 2


def _whole_name(shape: TableShape) -> int:
    return min(LONGEST_NAME, max(LEAST_NAME, shape.longest_name))


def _least_name(shape: TableShape, dropped: int) -> int:
    if not shape.names:
        return 0
    if not dropped:
        return _whole_name(shape)
    return min(shape.longest_name, GOOD_NAME) if dropped <= len(_STEPS) // 2 + 1 else LEAST_NAME


def total_width(columns: Sequence[QueueColumn]) -> int:
    return 1 + sum(column.before + column.width for column in columns)


def _with_name(columns: list[QueueColumn], shape: TableShape, room: int) -> tuple[QueueColumn, ...]:
    """Give the remaining room to the column of names, up to the width that the names need."""
    spare = room - 1 - total_width(columns)
    wanted = max(LEAST_NAME, shape.longest_name) if shape.names else LEAST_NAME
    return tuple(
        replace(column, width=max(column.width, min(wanted, column.width + spare))) if column.sort == "name" else column
        for column in columns
    )


def _barest(room: int, shape: TableShape) -> ColumnLayout:
    """Return the layout for a table that is too narrow for more columns: id, sign and name."""
    id_width = min(max(2, len(str(shape.highest_id))), max(1, room - 4))
    columns = [
        QueueColumn("id", id_width, Group.WHO, lambda facts: str(facts.job.id), "id", "i", right=True, before=0),
        QueueColumn("", 1, Group.WHO, lambda facts: sign_of(facts.job), "state", "a", before=1),
    ]
    remaining = room - total_width(columns) - 1
    if remaining > 0:
        columns.append(QueueColumn("job", remaining, Group.WHAT, full_name, "name", "j", look=what_look, before=1))
    return ColumnLayout(tuple(columns), room)


def _columns(shape: TableShape, detail: DetailLevel, name: int) -> list[QueueColumn]:
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


def _who(shape: TableShape, detail: DetailLevel) -> list[QueueColumn]:
    words = (None, SHORT_STATES, LONG_STATES)[detail.words]
    state_width = 1 if words is None else 2 + max(map(len, words.values()))

    def state(facts: RowFacts) -> str:
        sign = sign_of(facts.job)
        return f"{sign} {state_word(facts.job, short=words is SHORT_STATES)}" if words is not None else sign

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


def _what(shape: TableShape, detail: DetailLevel, name: int) -> list[QueueColumn]:
    columns = []
    for column in shape.parameters:
        title = plain(column.title)
        most = min(detail.widest, max(width(title), column.width))
        cell = partial(RowFacts.parameter, name=column.name)
        columns.append(QueueColumn(title, most, Group.WHAT, cell, PARAMETER + column.name, right=column.is_number,
                                look=what_look))  # fmt: skip
    too_narrow = shape.bare_jobs and sum(column.width + 1 for column in columns) <= LEAST_NAME
    if shape.names or too_narrow:
        least = max(name, LEAST_NAME if too_narrow else 0)
        columns.insert(0, QueueColumn("job", least, Group.WHAT, name_beside_parameters, "name", "j", look=what_look))
    return columns


def _when(shape: TableShape, detail: DetailLevel) -> list[list[QueueColumn]]:
    time = [QueueColumn("time", DURATION_CELLS, Group.TIME, time_cell, TIME, "t", right=True)] if detail.time else []
    then: list[QueueColumn] = []
    if detail.bar:
        then.append(QueueColumn("progress", BAR + PERCENT, Group.WHEN, percent, None, pieces=bar))
    elif detail.percent:
        then.append(QueueColumn("done", 4, Group.WHEN, percent, None, right=True))
    if detail.end:
        then.append(QueueColumn("end", 10 if shape.days else 6, Group.WHEN, end, "end", "e", right=True))
    return [time, then]


def _result(shape: TableShape, detail: DetailLevel) -> list[QueueColumn]:
    results = shape.results
    number = results.main_number.width
    most = max(number + 2, width(results.main_title))
    columns = [
        QueueColumn(
            results.main_title, most, Group.RESULT, from_main_metric(main), METRIC, "m", right=True, look=value_look
        )
    ]
    if detail.last:
        columns.append(QueueColumn("last", number, Group.RESULT, from_main_metric(last), right=True))
    if detail.trend == 1:
        glyph = from_main_metric(lambda _, result: trend_glyph(result.trend))
        columns.append(QueueColumn("", 1, Group.RESULT, glyph, before=0, look=trend_look))
    elif detail.trend:
        line = from_main_metric(lambda _, result: trend_line(result.trend))
        columns.append(QueueColumn("trend", detail.trend, Group.RESULT, line, look=trend_look))
    if detail.second:
        most = max(results.second_number.width - 1, width(results.second_title))
        columns.append(QueueColumn(results.second_title, most, Group.RESULT, second, SECOND, right=True,
                                look=value_look))  # fmt: skip
    if detail.peak and shape.peaks:
        columns.append(QueueColumn("peak G", 6, Group.RESULT, peak, "peak", right=True))
    if shape.pids and detail.pid:
        columns.append(QueueColumn("pid", PID, Group.RESULT, pid, right=True))
    return columns
