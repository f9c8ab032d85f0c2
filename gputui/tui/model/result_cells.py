"""What jobs printed as numbers, as cells of the queue: how many decimals a column has, trends, the best. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gputui.core.job import JobId
from gputui.core.metric_names import direction_of, words_of
from gputui.core.results import Direction, JobResults, MetricResult
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain

__all__ = [
    "NO_RESULT_SHAPE",
    "BestResult",
    "NumberShape",
    "ResultShape",
    "best_result",
    "result_shape",
    "trend_glyph",
    "trend_line",
]

NO_NAME = "result"
"""The heading before the first name is read."""
STEPS = "▁▂▃▄▅▆"
TREND = 8
FINEST = 0.06
"""A trend is never drawn finer than this share of the value: what is flat looks flat."""
FALLING, RISING = "▾", "▴"
LONGEST_TITLE = 12
SMALL = 0.001
"""Below it decimals tell nothing."""


@dataclass(frozen=True)
class NumberShape:
    """How the values of one column are written: all alike."""

    decimals: int = 4
    scientific: bool = False

    @classmethod
    def of(cls, value: float, most: int = 4) -> NumberShape:
        size = abs(value)
        if not math.isfinite(size):
            return cls(most)
        if 0 < size < SMALL or size >= 1e6:
            return cls(2, True)
        return cls(max(0, min(most, 4 if size < 10 else 3 if size < 100 else 2 if size < 1000 else 1)))

    @property
    def width(self) -> int:
        return 8 if self.scientific else 6

    def text(self, value: float) -> str:
        if not math.isfinite(value):
            return str(value)
        written = f"{value:.{self.decimals}e}" if self.scientific else f"{value:.{self.decimals}f}"
        return written if len(written) <= self.width + 1 else f"{value:.1e}"


@dataclass(frozen=True)
class ResultShape:
    """Which metrics are columns, and how their values are written."""

    main: str | None = None
    second: str | None = None
    main_number: NumberShape = NumberShape()
    second_number: NumberShape = NumberShape(1)
    main_unit: str = ""
    second_unit: str = ""

    @property
    def main_title(self) -> str:
        return _title(self.main, self.main_unit) if self.main is not None else NO_NAME

    @property
    def second_title(self) -> str:
        return _title(self.second, self.second_unit) if self.second is not None else ""


NO_RESULT_SHAPE = ResultShape()
"""Before the first name is read."""


@dataclass(frozen=True)
class BestResult:
    job: JobId
    text: str


def best_result(snapshot: Snapshot) -> BestResult | None:
    results = snapshot.results.get(snapshot.best) if snapshot.best is not None else None
    metric_result = results.get(snapshot.metric.name) if results is not None and snapshot.metric is not None else None
    if metric_result is None or snapshot.best is None:
        return None
    return BestResult(snapshot.best, NumberShape.of(metric_result.best).text(metric_result.best))


def result_shape(snapshot: Snapshot, seen: JobResults | None, before: ResultShape) -> ResultShape:
    """`seen`: of any job that has results, where the best is not known yet."""
    metric = snapshot.metric
    if metric is None:
        return ResultShape()
    best = snapshot.results.get(snapshot.best) if snapshot.best is not None else None
    results = best or seen
    main = results.get(metric.name) if results is not None else None
    if results is None or main is None:
        return ResultShape(metric.name)
    keeps = before.main == metric.name and before.second is not None
    second = before.second if keeps else second_metric(results, metric.name, metric.direction)
    beside = results.get(second) if second is not None else None
    other = _second_shape(beside.last) if beside is not None else before.second_number
    second_unit = beside.unit if beside is not None else before.second_unit
    return ResultShape(metric.name, second, NumberShape.of(main.best), other, main.unit, second_unit)


def second_metric(results: JobResults, main: str, direction: Direction) -> str | None:
    """The one that tells most beside the main one: of the other direction, and measured on the same data."""
    phase = set(words_of(main)) & {"val", "valid", "validation", "eval", "test", "dev"}

    def rank(metric: MetricResult) -> tuple[bool, bool, bool]:
        good = direction_of(metric.name)
        return good is Direction.UNKNOWN, good is direction, bool(phase) and not phase & set(words_of(metric.name))

    others = [metric for metric in results.metrics if metric.name != main]
    telling = [metric for metric in others if direction_of(metric.name) is not Direction.UNKNOWN]
    return min(telling, key=rank).name if telling else None


def _second_shape(value: float) -> NumberShape:
    shape = NumberShape.of(value)
    return shape if shape.scientific else NumberShape(3 if abs(value) < 2 else 1)


def _title(name: str, unit: str) -> str:
    """Short enough for a heading: of `eval/cls/accuracy` the end; with its unit, which cells do not repeat."""
    name = plain(name)
    name = name if len(name) <= LONGEST_TITLE else name.replace("/", ".").rpartition(".")[2][-LONGEST_TITLE:]
    return f"{name} {plain(unit)}".rstrip()


def trend_line(trend: Sequence[float], cells: int = TREND) -> str:
    """The course of a run's second half, from low to high."""
    values = [value for value in trend if math.isfinite(value)][-cells:]
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    scale = max(high - low, FINEST * max(abs(low), abs(high)))
    if scale <= 0:
        return STEPS[0] * len(values)
    return "".join(STEPS[min(len(STEPS) - 1, int((value - low) / scale * len(STEPS)))] for value in values)


def trend_glyph(trend: Sequence[float]) -> str:
    """Still falling, or rising; nothing for what is flat."""
    values = [value for value in trend if math.isfinite(value)]
    if len(values) < 3:
        return ""
    recent, size = values[-1] - values[len(values) // 2], max(map(abs, values))
    if abs(recent) < FINEST / 3 * size:
        return ""
    return RISING if recent > 0 else FALLING
