"""The queue's columns: what each says of a job, in which look, and lines made of them. Pure.

Four groups with a wider gutter between them: who (id, state, GPU), what (the parameters that differ), when (time,
progress, end), result. Which ones a width has room for is decided in `column_choice`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from rich.cells import cell_len as width  # as the screen itself counts

from gputui.core.job import Active, Ended, StateName

from .row_facts import RowFacts
from .sorting import QUEUE_ORDER
from .words import cut

__all__ = ["BLANK", "ColumnLayout", "Group", "Piece", "QueueColumn", "look_of"]

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
        """Where a row has a message, it stands in the place of those that would be empty or matter less."""
        message, remark = facts.message, facts.remark
        if message:
            first = _message_from(facts)
            place = next((n for n, column in enumerate(self.columns) if column.group.value >= first), None)
            return (
                self.columns if place is None else self._with(place, len(self.columns), message, _message_look(facts))
            )
        if remark:
            there = [number for number, column in enumerate(self.columns) if column.group is Group.WHEN]
            return self._with(there[0], there[-1] + 1, remark, "warning") if there else self.columns
        return self.columns

    def _with(self, first: int, after: int, text: str, look: str) -> Sequence[QueueColumn]:
        """With one text in the place of some columns; at the end of the line it has all that is left."""
        begin = self._place(self.columns[first]) + self.columns[first].before
        end = self._place(self.columns[after]) if after < len(self.columns) else self.width - 1
        message = QueueColumn(
            "", max(0, end - begin), Group.WHEN, lambda _: text, look=lambda _: look, before=self.columns[first].before
        )  # fmt: skip
        return [*self.columns[:first], message, *self.columns[after:]]

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


def _message_from(facts: RowFacts) -> int:
    """A job that waits has no time either."""
    return Group.TIME.value if facts.waits else Group.WHEN.value


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
