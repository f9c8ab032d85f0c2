"""The columns of the queue: their cells, and the choice of the columns that fit a width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial
from itertools import chain

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
    if facts.behind:
        return Look.WARNING
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
    return f"★ {text}" if facts.best else f"« {text}" if facts.behind else text


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


class Detail(Enum):
    """The details of a table, in the order in which they are dropped if there is too little room."""

    PID = 0
    SAME_PRIORITY = 1  # the priority even if all jobs have the same one
    PEAK = 2
    LAST = 3
    TREND_LINE = 4  # else a single glyph
    BAR = 5  # else a percentage
    WIDE_GUTTERS = 6
    LONG_STATES = 7  # else four letters
    PLACE = 8
    END = 9
    SECOND_METRIC = 10
    WIDE_VALUES = 11
    PERCENT = 12
    TREND_GLYPH = 13
    MEDIUM_VALUES = 14
    PRIORITY = 15
    STATE_WORDS = 16  # else only the sign
    TIME = 17


Dropped = Set[Detail]
_DETAILS = tuple(Detail)
_NARROW = Detail.PLACE.value
"""Number of details that are always dropped if the table is narrower than `WIDE`."""


def layout(room: int, shape: TableShape) -> ColumnLayout:
    """Return the most detailed layout that fits in `room` cells."""
    for number in range(_NARROW if room < WIDE else 0, len(_DETAILS) + 1):
        columns = _columns(shape, set(_DETAILS[:number]), _least_name(shape, number))
        if total_width(columns) <= room:
            return ColumnLayout(_with_name(columns, shape, room), room)
    return _barest(room, shape)


def width_needed(shape: TableShape) -> int:
    """Return the width needed to show everything except pids and a priority that is the same for all jobs."""
    return total_width(_columns(shape, {Detail.PID, Detail.SAME_PRIORITY}, _whole_name(shape))) + 2


def _whole_name(shape: TableShape) -> int:
    return min(LONGEST_NAME, max(LEAST_NAME, shape.longest_name))


def _least_name(shape: TableShape, dropped: int) -> int:
    if not shape.names:
        return 0
    if not dropped:
        return _whole_name(shape)
    return min(shape.longest_name, GOOD_NAME) if dropped <= len(_DETAILS) // 2 + 1 else LEAST_NAME


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


def _id_column(cells: int) -> QueueColumn:
    return QueueColumn("id", cells, Group.WHO, lambda facts: str(facts.job.id), "id", "i", right=True, before=0)


def _barest(room: int, shape: TableShape) -> ColumnLayout:
    """Return the layout for a table that is too narrow for more columns: id, sign and name."""
    columns = [
        _id_column(min(max(2, len(str(shape.highest_id))), max(1, room - 4))),
        QueueColumn("", 1, Group.WHO, lambda facts: sign_of(facts.job), "state", "a", before=1),
    ]
    remaining = room - total_width(columns) - 1
    if remaining > 0:
        columns.append(QueueColumn("job", remaining, Group.WHAT, full_name, "name", "j", look=what_look, before=1))
    return ColumnLayout(tuple(columns), room)


def _columns(shape: TableShape, dropped: Dropped, name: int) -> list[QueueColumn]:
    """Return the columns with the blanks before them. Groups are further apart, except for times and progress."""
    gap, gutter = (2, 3) if Detail.WIDE_GUTTERS not in dropped else (1, 2)
    columns: list[QueueColumn] = []
    parts = (_who(shape, dropped), _what(shape, dropped, name), _when(shape, dropped), _result(shape, dropped))
    for column in chain.from_iterable(parts):
        starts = bool(columns) and column.group is not columns[-1].group and column.group is not Group.WHEN
        before = gutter if starts else column.before if column.before >= 0 else gap
        columns.append(replace(column, before=before))
    return columns


def _who(shape: TableShape, dropped: Dropped) -> Iterator[QueueColumn]:
    yield _id_column(max(3, len(str(shape.highest_id))))
    if Detail.STATE_WORDS in dropped:
        yield QueueColumn("", 1, Group.WHO, lambda facts: sign_of(facts.job), "state", "a", look=state_look)
    else:
        short = Detail.LONG_STATES in dropped
        cells = 2 + max(map(len, (SHORT_STATES if short else LONG_STATES).values()))
        yield QueueColumn("state", cells, Group.WHO,
                          lambda facts: f"{sign_of(facts.job)} {state_word(facts.job, short=short)}", "state", "a",
                          look=state_look)  # fmt: skip
    if Detail.PRIORITY not in dropped and (shape.priorities or Detail.SAME_PRIORITY not in dropped):
        yield QueueColumn("pri", 3, Group.WHO, lambda facts: str(facts.job.priority), "pri", "r", right=True)
    if shape.places and Detail.PLACE not in dropped:
        yield QueueColumn("gpu", shape.places, Group.WHO, lambda facts: gpus_of(facts.job), "gpu", "g", right=True,
                          before=1)  # fmt: skip


def _what(shape: TableShape, dropped: Dropped, name: int) -> list[QueueColumn]:
    widest = PARAMETER_WIDTHS[(Detail.WIDE_VALUES in dropped) + (Detail.MEDIUM_VALUES in dropped)]
    columns = []
    for parameter in shape.parameters:
        title = plain(parameter.title)
        cells = min(widest, max(width(title), parameter.width))
        cell = partial(RowFacts.parameter, name=parameter.name)
        columns.append(QueueColumn(title, cells, Group.WHAT, cell, PARAMETER + parameter.name,
                                   right=parameter.is_number, look=what_look))  # fmt: skip
    too_narrow = shape.bare_jobs and sum(column.width + 1 for column in columns) <= LEAST_NAME
    if shape.names or too_narrow:
        least = max(name, LEAST_NAME if too_narrow else 0)
        columns.insert(0, QueueColumn("job", least, Group.WHAT, name_beside_parameters, "name", "j", look=what_look))
    return columns


def _when(shape: TableShape, dropped: Dropped) -> Iterator[QueueColumn]:
    if Detail.TIME not in dropped:
        yield QueueColumn("time", DURATION_CELLS, Group.TIME, time_cell, TIME, "t", right=True)
    if Detail.BAR not in dropped:
        yield QueueColumn("progress", BAR + PERCENT, Group.WHEN, percent, pieces=bar)
    elif Detail.PERCENT not in dropped:
        yield QueueColumn("done", 4, Group.WHEN, percent, right=True)
    if Detail.END not in dropped:
        yield QueueColumn("end", 10 if shape.days else 6, Group.WHEN, end, "end", "e", right=True)


def _result(shape: TableShape, dropped: Dropped) -> Iterator[QueueColumn]:
    results = shape.results
    number, other_number = results.main_number.width, results.second_number.width - 1
    yield QueueColumn(results.main_title, max(number + 2, width(results.main_title)), Group.RESULT,
                      from_main_metric(main), METRIC, "m", right=True, look=value_look)  # fmt: skip
    if Detail.LAST not in dropped:
        yield QueueColumn("last", number, Group.RESULT, from_main_metric(last), right=True)
    if Detail.TREND_LINE not in dropped:
        line = from_main_metric(lambda _, result: trend_line(result.trend))
        yield QueueColumn("trend", TREND, Group.RESULT, line, look=trend_look)
    elif Detail.TREND_GLYPH not in dropped:
        glyph = from_main_metric(lambda _, result: trend_glyph(result.trend))
        yield QueueColumn("", 1, Group.RESULT, glyph, before=0, look=trend_look)
    if Detail.SECOND_METRIC not in dropped:
        yield QueueColumn(results.second_title, max(other_number, width(results.second_title)), Group.RESULT, second,
                          SECOND, right=True, look=value_look)  # fmt: skip
    if Detail.PEAK not in dropped and shape.peaks:
        yield QueueColumn("peak G", 6, Group.RESULT, peak, "peak", right=True)
    if shape.pids and Detail.PID not in dropped:
        yield QueueColumn("pid", PID, Group.RESULT, pid, right=True)
