"""The queue's columns: which ones a width has room for, and what each says of a job. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from rich.cells import cell_len, set_cell_size

from gputui.core.job import Job, JobId, StateName
from gputui.core.views.naming import Names
from gputui.core.views.signs import SIGNS
from gputui.logs.plain import plain

from .rows import PARAMETER, QUEUE_ORDER, TIME, Rows
from .words import gpus_of, note_of, state_words, time_of

LEAST_NAME, LEAST_NOTE = 12, 12
MOST_PARAMETER = 14
WIDE_ENOUGH_FOR_PRIORITY, WIDE_ENOUGH_FOR_TIME, WIDE_ENOUGH_FOR_GPU, WIDE_ENOUGH_FOR_STATE = 46, 30, 40, 20
LONGEST_STATE = max(len(name) for name in StateName) + 2


@dataclass
class Told:
    """What rows say besides what the job itself knows."""

    names: Names
    whys: Mapping[JobId, str] = field(default_factory=dict)
    progress: Mapping[JobId, str] = field(default_factory=dict)
    now: float = 0.0

    def forget(self, jobs: Iterable[JobId]) -> None:
        """What was said of jobs that are no longer what they were: why one waits is wrong of one that runs."""
        gone = self.whys.keys() & jobs
        if gone:
            self.whys = {job: words for job, words in self.whys.items() if job not in gone}


@dataclass(frozen=True)
class QueueColumn:
    title: str
    width: int
    text: Callable[[Job, Told], str]
    sort: str | None = None
    right: bool = False

    def cell(self, text: str) -> str:
        """Exactly as wide as the column."""
        if text.isascii() and len(text) <= self.width:
            return text.rjust(self.width) if self.right else text.ljust(self.width)
        if cell_len(text) > self.width:
            return set_cell_size(set_cell_size(text, max(0, self.width - 1)) + "…", self.width)
        blanks = " " * (self.width - cell_len(text))
        return blanks + text if self.right else text + blanks


@dataclass(frozen=True)
class ColumnLayout:
    columns: tuple[QueueColumn, ...]
    spills: bool = False
    """The last column is a note: where there is none, the column before it has its room too."""

    def line(self, job: Job, told: Told, mark: str = " ") -> str:
        texts = [column.text(job, told) for column in self.columns]
        if self.spills and not texts[-1]:
            *before, name, note = self.columns
            wide = replace(name, width=name.width + 1 + note.width)
            return mark + " ".join(column.cell(text) for column, text in zip((*before, wide), texts, strict=False))
        return mark + " ".join(column.cell(text) for column, text in zip(self.columns, texts, strict=True))

    def header(self, rows: Rows) -> str:
        return " " + " ".join(column.cell(self._title(column, rows)) for column in self.columns)

    def _title(self, column: QueueColumn, rows: Rows) -> str:
        if column.sort != rows.sort or rows.sort == QUEUE_ORDER:
            return column.title
        return column.title[: max(0, column.width - 1)] + ("▴" if rows.reverse else "▾")

    def column_at(self, x: int) -> QueueColumn | None:
        """The column under a click."""
        left = 1
        for column in self.columns:
            if left <= x < left + column.width + 1:
                return column
            left += column.width + 1
        return None


def layout(width: int, rows: Rows, highest_id: int, longest_name: int, *, progress: bool = False) -> ColumnLayout:
    """`longest_name`: of the rows in sight. Every line is exactly `width` cells wide."""
    fixed = _fixed(width, highest_id, progress=progress)
    left = width - 1 - sum(column.width + 1 for column in fixed)
    parameters = _parameters(rows, left)
    if parameters:
        left -= sum(column.width + 1 for column in parameters)
        return ColumnLayout((*fixed, *parameters, QueueColumn("", left, _rest)))
    name = min(max(LEAST_NAME, longest_name), left * 3 // 5)
    if name < LEAST_NAME or left - name - 1 < LEAST_NOTE:
        return ColumnLayout((*fixed, QueueColumn("job", left, _name, "name")))
    return ColumnLayout(
        (*fixed, QueueColumn("job", name, _name, "name"), QueueColumn("", left - name - 1, _note)), spills=True
    )


def _fixed(width: int, highest_id: int, *, progress: bool) -> list[QueueColumn]:
    """Those that are as wide as they are; a narrow line does without the ones that matter least."""
    id_width = min(max(3, len(str(highest_id))), max(1, width - 3))
    columns = [QueueColumn("id", id_width, lambda job, _: str(job.id), "id", right=True)]
    if width >= WIDE_ENOUGH_FOR_STATE + id_width:
        columns.append(QueueColumn("state", LONGEST_STATE, lambda job, _: state_words(job), "state"))
    elif width >= id_width + 5:
        columns.append(QueueColumn("", 1, lambda job, _: SIGNS[job.state.name], "state"))
    if width >= WIDE_ENOUGH_FOR_PRIORITY:
        columns.append(QueueColumn("pri", 3, lambda job, _: str(job.priority), "pri", right=True))
    if width >= WIDE_ENOUGH_FOR_GPU:
        columns.append(QueueColumn("gpu", 3 if width < 90 else 6, lambda job, _: gpus_of(job)))
    if width >= WIDE_ENOUGH_FOR_TIME + id_width:
        columns.append(QueueColumn("time", 8, lambda job, told: time_of(job, told.now), TIME, right=True))
    if progress and width >= WIDE_ENOUGH_FOR_PRIORITY:
        columns.append(QueueColumn("done", 4, lambda job, told: told.progress.get(job.id, ""), right=True))
    return columns


def _parameters(rows: Rows, left: int) -> list[QueueColumn]:
    """Columns of their own for parameters, when all of them fit in half the room."""
    made = []
    for name, longest in rows.params.items():
        width = min(MOST_PARAMETER, max(cell_len(plain(name)) + 1, longest))
        made.append(QueueColumn(plain(name), width, _parameter(name), PARAMETER + name))
    return made if made and sum(column.width + 1 for column in made) <= left // 2 else []


def _parameter(name: str) -> Callable[[Job, Told], str]:
    return lambda job, told: plain(job.spec.params.get(name, ""))


def _name(job: Job, told: Told) -> str:
    return plain(told.names.of(job))


def _rest(job: Job, told: Told) -> str:
    """Beside columns of parameters: a name only where the parameters do not tell it."""
    name = _name(job, told) if job.spec.name or not job.spec.params else ""
    return "  ".join(part for part in (name, _note(job, told)) if part)


def _note(job: Job, told: Told) -> str:
    return note_of(job, told.now) or told.whys.get(job.id, "")
