"""The heat map of two parameters: the median of the main metric for each pair of their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import sqrt

from msgspec import Struct

from gputui.core.results import Direction

from .parameters import number_of
from .results_table import ParameterEffect, ResultsRow, ResultsTable, compared, quantile

SHADES = 6
MOST_PARAMETERS = 5
"""Maximum number of parameters that are combined into pairs. Those with the largest effects are used."""


class Axis(Struct, frozen=True):
    name: str
    title: str
    values: tuple[str, ...]


class HeatCell(Struct, frozen=True):
    """A cell of a heat map: the jobs that have one pair of values."""

    median: float | None = None
    """Median result of the succeeded jobs, or None if there are none."""
    runs: int = 0
    """Number of succeeded jobs with a result."""
    failed: int = 0
    shade: int = 0
    """The rank of the median among all cells: `SHADES - 1` for the best ones, 0 for the worst ones."""


class HeatMap(Struct, frozen=True):
    rows: Axis
    columns: Axis
    cells: tuple[tuple[HeatCell, ...], ...]
    best: tuple[int, int]
    """Row and column of the cell with the best median."""

    @property
    def title(self) -> str:
        return f"{self.rows.title} × {self.columns.title}"

    def same_cell(self, other: HeatMap, cell: tuple[int, int]) -> tuple[int, int] | None:
        """Return the row and column of the cell with the same values as `cell` of `other`, or None if there is none."""
        row, column = other.rows.values[cell[0]], other.columns.values[cell[1]]
        if self.title != other.title or row not in self.rows.values or column not in self.columns.values:
            return None
        return self.rows.values.index(row), self.columns.values.index(column)


def heat_maps(
    table: ResultsTable, effects: Sequence[ParameterEffect], failed: Iterable[Mapping[str, str]]
) -> tuple[HeatMap, ...]:
    """Return the maps of all pairs of parameters, those with the largest effects first.

    `effects` are those of the table, and `failed` contains the parameters of each failed job.
    """
    failed, rows = tuple(failed), compared(table)
    pairs = sorted(combinations(range(min(len(effects), MOST_PARAMETERS)), 2), key=lambda pair: pair[::-1])
    is_down = table.metric is not None and table.metric.direction is Direction.DOWN
    return tuple(_heat_map(rows, effects[first], effects[second], failed, is_down) for first, second in pairs)


def _heat_map(
    succeeded: Sequence[ResultsRow],
    first: ParameterEffect,
    second: ParameterEffect,
    failed: Sequence[Mapping[str, str]],
    is_down: bool,
) -> HeatMap:
    if len(second.values) > len(first.values):  # there is more room for rows than for columns
        first, second = second, first
    rows = Axis(first.name, first.title, tuple(effect.value for effect in first.values))
    values = [effect.value for effect in second.values]
    if all(number_of(value) is not None for value in values):
        values.reverse()
    columns = Axis(second.name, second.title, tuple(values))
    results: dict[tuple[str | None, str | None], list[float]] = {}
    for row in succeeded:
        if row.best is not None:
            results.setdefault((row.params.get(rows.name), row.params.get(columns.name)), []).append(row.best)
    medians = {key: quantile(sorted(several), 0.5) for key, several in results.items()}
    shown = [key for row in rows.values for column in columns.values if (key := (row, column)) in medians]
    ranks = {key: rank for rank, key in enumerate(sorted(shown, key=medians.__getitem__, reverse=not is_down))}
    failures = Counter((params.get(rows.name), params.get(columns.name)) for params in failed)

    def cell(row: str, column: str) -> HeatCell:
        key, count = (row, column), failures[row, column]
        if key not in ranks:
            return HeatCell(failed=count)
        shade = SHADES - 1 - ranks[key] * SHADES // len(ranks)
        return HeatCell(medians[key], len(results[key]), count, shade)

    best_row, best_column = min(ranks, key=ranks.__getitem__, default=(rows.values[0], columns.values[0]))
    return HeatMap(
        rows, columns,
        tuple(tuple(cell(row, column) for column in columns.values) for row in rows.values),
        (rows.values.index(best_row or ""), columns.values.index(best_column or "")),
    )  # fmt: skip


def around(axis: Axis, index: int) -> tuple[str, ...]:
    """Return a value of an axis and the values half a step below and above it, or only the value if not a number."""
    numbers = sorted(number for value in axis.values if (number := number_of(value)) is not None)
    value = number_of(axis.values[index])
    if value is None or len(numbers) < len(axis.values) or len(numbers) < 2:
        return (axis.values[index],)
    place = numbers.index(value)
    below = _between(value, numbers[place - 1], numbers) if place else _beyond(value, numbers[1], numbers)
    above = numbers[place + 1 : place + 2]
    higher = _between(value, above[0], numbers) if above else _beyond(value, numbers[place - 1], numbers)
    return tuple(dict.fromkeys((below, axis.values[index], higher)))


def _between(value: float, other: float, numbers: Sequence[float]) -> str:
    """Return the number halfway between two neighbors: the geometric mean if they are far apart, else the mean."""
    middle = sqrt(value * other) if _is_spread(value, other) else (value + other) / 2
    if _are_whole(numbers):
        return f"{round(middle)}"
    return f"{middle:.1g}" if _is_spread(numbers[0], numbers[-1]) else f"{middle:.3g}"


def _beyond(value: float, neighbor: float, numbers: Sequence[float]) -> str:
    """Return the number that is half a step outside the range of the axis, next to its first or last value."""
    beyond = value * sqrt(value / neighbor) if _is_spread(value, neighbor) else value + (value - neighbor) / 2
    if _are_whole(numbers):
        return f"{round(beyond)}" if round(beyond) > 0 or value <= 0 else f"{value:g}"
    return f"{beyond:.1g}" if _is_spread(numbers[0], numbers[-1]) else f"{beyond:.3g}"


def _are_whole(numbers: Iterable[float]) -> bool:
    return all(number == int(number) for number in numbers)


def _is_spread(value: float, other: float) -> bool:
    """Return whether two numbers are so far apart that a step between them is a factor and not a difference."""
    return min(value, other) > 0 and max(value, other) / min(value, other) >= 3


def find_map(maps: Sequence[HeatMap], names: Sequence[str]) -> HeatMap | None:
    """Return the map of two parameters, given by name or title in any order, or None if there is none."""
    wanted = sorted(names)
    for each in maps:
        for pair in ((each.rows.name, each.columns.name), (each.rows.title, each.columns.title)):
            if sorted(pair) == wanted:
                return each
    return None
