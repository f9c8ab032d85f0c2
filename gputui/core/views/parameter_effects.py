"""What each parameter did to the result: for each value the best, the median and the range, on one scale. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, log10

from msgspec import Struct

from gputui.core.job import StateName
from gputui.core.results import Direction

from .parameter_columns import sort_key
from .results_table import ResultsRow, ResultsTable

__all__ = ["ParameterEffect", "ValueEffect", "compared", "effects", "noise_of_seeds", "scale_of"]

MOST_VALUES = 8
SEEDS = ("seed", "random_seed", "rng_seed", "seed_everything", "random_state")


class ValueEffect(Struct, frozen=True):
    value: str
    count: int
    best: float
    median: float
    low: float
    lower: float
    """Quartiles."""
    upper: float
    high: float
    has_best: bool
    """The best of these jobs has this value."""


class ParameterEffect(Struct, frozen=True):
    name: str
    title: str
    values: tuple[ValueEffect, ...]
    """Numbers in their own order, largest first; words by their median."""
    more: int = 0
    """Further values, which are not shown."""


def effects(table: ResultsTable) -> tuple[ParameterEffect, ...]:
    """Of every parameter in which jobs that succeeded differ; what moves the median most comes first, seeds last."""
    rows = compared(table)
    if table.metric is None or table.metric.direction is Direction.UNKNOWN or not rows:
        return ()
    is_down = table.metric.direction is Direction.DOWN
    candidates = [_effect(column.name, column.title, column.is_number, rows, is_down) for column in table.columns]
    shown = [effect for effect in candidates if effect is not None and len(effect.values) > 1]
    return tuple(sorted(shown, key=lambda effect: (is_seed(effect.name), -_spread(effect))))


def _effect(
    name: str, title: str, is_number: bool, rows: Sequence[ResultsRow], is_down: bool
) -> ParameterEffect | None:
    by_value: dict[str, list[float]] = {}
    for row in rows:
        if (value := row.params.get(name)) is not None and row.best is not None:
            by_value.setdefault(value, []).append(row.best)
    if len(by_value) > max(MOST_VALUES, len(rows) // 2):
        return None  # nearly every job has a value of its own
    values = [_value(value, results, rows[0].params.get(name), is_down) for value, results in by_value.items()]
    if is_number:
        values.sort(key=lambda effect: sort_key(effect.value), reverse=True)
    else:
        values.sort(key=lambda effect: effect.median, reverse=not is_down)
    return ParameterEffect(name, title, tuple(values[:MOST_VALUES]), max(0, len(values) - MOST_VALUES))


def _value(value: str, results: list[float], winner: str | None, is_down: bool) -> ValueEffect:
    ordered = sorted(results)
    best = ordered[0] if is_down else ordered[-1]
    median, low, lower, upper, high = (quantile(ordered, part) for part in (0.5, 0.0, 0.25, 0.75, 1.0))
    return ValueEffect(value, len(results), best, median, low, lower, upper, high, value == winner)


def quantile(ordered: Sequence[float], part: float) -> float:
    place = (len(ordered) - 1) * part
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def noise_of_seeds(table: ResultsTable) -> float | None:
    """The median distance between jobs that differ in nothing but their seed; None: there are no such jobs."""
    groups: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for row in compared(table):
        if any(is_seed(name) for name in row.params) and row.best is not None:
            rest = tuple(sorted((name, value) for name, value in row.params.items() if not is_seed(name)))
            groups.setdefault(rest, []).append(row.best)
    apart = sorted(max(results) - min(results) for results in groups.values() if len(results) > 1)
    return quantile(apart, 0.5) if apart else None


def is_seed(name: str) -> bool:
    return name.rpartition(".")[2].replace("-", "_").lower() in SEEDS


def scale_of(shown: Iterable[ParameterEffect]) -> tuple[float, float]:
    """Round ends of the one scale that all ranges stand on; a few hopeless values do not make the others a dot."""
    values = [value for effect in shown for value in effect.values]
    low = min((value.low for value in values), default=0.0)
    high = max((value.high for value in values), default=1.0)
    uppers = sorted(value.upper for value in values)
    if uppers and high - low > 8 * (quantile(uppers, 0.75) - low) > 0:
        high = low + 4 * (quantile(uppers, 0.75) - low)
    if high <= low:
        return low - 0.5, high + 0.5
    unit = _round_unit((high - low) / 4)
    return unit * (low // unit), unit * -(-high // unit)


def _round_unit(size: float) -> float:
    power = 10.0 ** floor(log10(size))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= size)


def compared(table: ResultsTable) -> list[ResultsRow]:
    """Jobs that came to their end: what one has reached that runs or was killed says little of its parameters."""
    return [row for row in table.rows if row.state is StateName.SUCCEEDED and row.best is not None]


def _spread(effect: ParameterEffect) -> float:
    medians = [value.median for value in effect.values]
    return max(medians) - min(medians)
