"""What an attempt's readings add up to: for each metric its last, its best, and a curve of bounded length. Pure."""

from __future__ import annotations

from bisect import bisect
from itertools import pairwise
from math import inf, isfinite, isnan

from msgspec import Struct

from gputui.core.metric_names import direction_of

from .shapes import Curve, Direction, JobResults, MetricResult, Point

__all__ = ["AttemptSeries", "Series"]

MOST_POINTS = 200
MOST_METRICS = 32
"""Of one attempt. One that was met only once gives its place to a new one."""
TREND = 8


class Series(Struct):
    """One metric of one attempt, as it goes on."""

    name: str
    direction: Direction
    last: float
    best: Point
    count: int = 0
    low: float = inf
    high: float = -inf
    points: list[Point] = []
    every: int = 1
    """One in so many readings stays on the curve; the newest always stands at its end."""
    beside: dict[str, float] = {}
    """The values of the other metrics where this one was best."""
    is_open: bool = False
    """No reading since the best one: what is printed with it may still follow."""
    unit: str = ""
    log: int = 0

    def take(self, point: Point) -> bool:
        """Whether it is the best so far."""
        self.last, self.count = point.value, self.count + 1
        if isfinite(point.value):
            self.low, self.high = min(self.low, point.value), max(self.high, point.value)
        if self.points and (self.count - 2) % self.every:
            self.points[-1] = point
        else:
            self._add(point)
        is_best = self.count == 1 or self._is_better(point.value)
        if is_best:
            self.best = point
        self.is_open = is_best
        return is_best

    def _add(self, point: Point) -> None:
        if len(self.points) >= MOST_POINTS:
            self.points = self.points[1::2]
            self.every *= 2
        self.points.append(point)

    def _is_better(self, value: float) -> bool:
        if isnan(value) and not isnan(self.best.value):
            return self.direction is Direction.UNKNOWN
        if self.direction is Direction.UNKNOWN or isnan(self.best.value):
            return True
        return value < self.best.value if self.direction is Direction.DOWN else value > self.best.value

    def curve(self) -> Curve:
        points = list(self.points)
        if self.best not in points:
            points.insert(bisect(points, self.best.at, key=lambda point: point.at), self.best)
        return Curve(self.name, tuple(points))

    def trend(self) -> tuple[float, ...]:
        """The second half, smoothed."""
        values = [point.value for point in self.points[len(self.points) // 2 :] if isfinite(point.value)]
        parts = min(TREND, len(values))
        edges = [round(number * len(values) / parts) for number in range(parts + 1)] if parts else []
        return tuple(_short(sum(values[start:end]) / (end - start)) for start, end in pairwise(edges))

    def result(self, names: list[str]) -> MetricResult:
        beside = tuple(self.best.value if name == self.name else self.beside.get(name) for name in names)
        finite = isfinite(self.low)
        return MetricResult(
            self.name, self.last, self.best.value, self.best.step, self.count, self.trend(), beside,
            self.low if finite else None, self.high if finite else None, self.unit, self.log,
        )  # fmt: skip


class AttemptSeries(Struct):
    """All metrics of one attempt; plain data, so that the next owner can go on with it."""

    series: dict[str, Series] = {}

    def take(
        self, name: str, point: Point, direction: Direction | None = None, *, unit: str = "", log: int = 0
    ) -> None:
        """`direction`: as the user said it; None: guess it from the name. `log`: the number of the file."""
        series = self.series.get(name)
        if series is None:
            if not self._has_room():
                return
            series = Series(name, direction or direction_of(name), point.value, point)
            self.series[name] = series
        series.unit, series.log = unit, log
        self._beside_others(name, point)
        if series.take(point):
            series.beside = {other.name: other.last for other in self.series.values() if other is not series}

    def _has_room(self) -> bool:
        if len(self.series) >= MOST_METRICS:
            once = next((series.name for series in self.series.values() if series.count == 1), None)
            if once is None:
                return False
            del self.series[once]
        return True

    def _beside_others(self, name: str, point: Point) -> None:
        """What is printed after a best value, but at the same step, belongs to it."""
        for other in self.series.values():
            if other.is_open and other.name != name:
                value_beside = other.beside.get(name)
                if point.step == other.best.step and (point.step is not None or value_beside is None):
                    other.beside[name] = point.value

    def results(
        self, attempt: int, progress: float | None = None, note: str = "", progress_at: float | None = None
    ) -> JobResults:
        names = list(self.series)
        metrics = tuple(series.result(names) for series in self.series.values())
        return JobResults(attempt, metrics, progress, note, progress_at)

    def curves(self) -> tuple[Curve, ...]:
        return tuple(series.curve() for series in self.series.values())


def _short(value: float) -> float:
    return float(f"{value:.6g}")
