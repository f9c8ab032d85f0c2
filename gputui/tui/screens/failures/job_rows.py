"""The jobs of one kind of failure as a table: what tells them apart, where they ran and how long. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style

from gputui.core.job import Job, JobId
from gputui.core.views.amounts import DURATION_CELLS, duration_cell
from gputui.core.views.cells import cut
from gputui.core.views.failures import seconds_of_last
from gputui.core.views.in_common import place_of
from gputui.core.views.parameter_columns import Parameters
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.widgets.view_rows import ViewRow

__all__ = ["FailedTable", "job_table"]

MOST_VALUE = 16
LEAST_NAME = 12
GAP = "  "


class TableColumn(NamedTuple):
    title: str
    width: int
    right: bool
    text: Callable[[Job], str]

    def cell(self, text: str) -> str:
        text = cut(text, self.width)
        blanks = " " * (self.width - cell_len(text))
        return blanks + text if self.right else text + blanks


class FailedTable(NamedTuple):
    columns: tuple[TableColumn, ...]

    @property
    def width(self) -> int:
        return 1 + sum(column.width + len(GAP) for column in self.columns)

    def head(self, palette: Palette) -> ViewRow:
        return ViewRow([(f" {GAP.join(column.cell(column.title) for column in self.columns)}", palette.past)])

    def rows(
        self, jobs: Sequence[Job], cursor: JobId | None, marked: set[JobId], palette: Palette, *, focused: bool
    ) -> list[ViewRow]:
        return [self._row(job, job.id == cursor, job.id in marked, palette, focused=focused) for job in jobs]

    def _row(self, job: Job, chosen: bool, marked: bool, palette: Palette, *, focused: bool) -> ViewRow:
        text = GAP.join(column.cell(column.text(job)) for column in self.columns)
        style = palette.text + Style(bold=True) if chosen else palette.text
        return ViewRow([(f" {text}", style)], selected=chosen and focused, marked=marked, value=job.id)


def job_table(
    jobs: Sequence[Job], parameters: Parameters, name_of: Callable[[Job], str], room: int, highest_id: int
) -> FailedTable:
    """As many parameters as there is room for; where no parameter tells jobs apart, their names."""
    fixed_before = [TableColumn("id", max(3, len(str(highest_id))), True, lambda job: str(job.id))]
    gpu = max((len(_gpus(job)) for job in jobs[:200]), default=0)
    fixed_after = [TableColumn("gpu", max(3, min(gpu, 8)), True, _gpus)] if gpu else []
    fixed_after.append(TableColumn("ran", DURATION_CELLS, True, lambda job: duration_cell(seconds_of_last(job))))
    remaining = room - 1 - sum(column.width + len(GAP) for column in (*fixed_before, *fixed_after))
    between = _parameters(parameters, remaining)
    if not between and remaining > len(GAP) + 2:
        longest = max((cell_len(plain(name_of(job))) for job in jobs[:200]), default=LEAST_NAME)
        width = min(remaining - len(GAP), max(LEAST_NAME, longest))
        between = [TableColumn("job", width, False, lambda job: plain(name_of(job)))]
    return FailedTable((*fixed_before, *between, *fixed_after))


def _parameters(parameters: Parameters, room: int) -> list[TableColumn]:
    columns: list[TableColumn] = []
    for column in parameters.columns():
        title = plain(column.title)
        width = min(MOST_VALUE, max(cell_len(title), column.width))
        if width + len(GAP) > room:
            break
        room -= width + len(GAP)
        columns.append(TableColumn(title, width, column.is_number, _value(parameters, column.name)))
    return columns


def _value(parameters: Parameters, name: str) -> Callable[[Job], str]:
    return lambda job: plain(parameters.value(job, name) or "")


def _gpus(job: Job) -> str:
    return ",".join(gpu if len(gpu) <= 4 else f"{gpu[:7]}…" for gpu in place_of(job))
