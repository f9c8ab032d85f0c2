"""What jobs printed as numbers under a name: the shapes that every room uses. How they are read is not known here."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

__all__ = ["Curve", "Direction", "JobResults", "MainMetric", "MetricResult", "Point"]


class Direction(StrEnum):
    """Which way of a metric is the good one."""

    DOWN = "min"
    UP = "max"
    UNKNOWN = "unknown"


class Point(Struct, frozen=True, array_like=True, gc=False):
    """One value of a curve."""

    step: float | None
    """The epoch, step or iteration that was printed with it, if any was."""
    at: float
    """When it was read, in Unix seconds."""
    value: float


class Curve(Struct, frozen=True, array_like=True):
    """How one metric of one attempt went."""

    name: str
    points: tuple[Point, ...]
    """At most 200 and its best one, in the order in which they were printed."""


class MetricResult(Struct, frozen=True, array_like=True):
    """One metric of one attempt."""

    name: str
    last: float
    best: float
    """By the metric's direction; the last one where that is not known."""
    best_step: float | None
    count: int
    """How often it was printed."""
    trend: tuple[float, ...] = ()
    """At most 8 smoothed values of the second half of the run."""
    beside: tuple[float | None, ...] = ()
    """Where this metric was best: the value of each metric of the attempt, in the order of `JobResults.metrics`."""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    """`%`, where it was printed so."""
    log: int = 0
    """Which of the attempt's files it was read from last: 0 its output, 1 its errors, where those are apart."""

    def best_by(self, direction: Direction) -> float:
        """For whoever knows which direction is good, whatever the name says."""
        best = {Direction.DOWN: self.low, Direction.UP: self.high}.get(direction, self.last)
        return self.best if best is None else best


class JobResults(Struct, frozen=True, array_like=True):
    """What the newest attempt of a job that printed anything has come to."""

    attempt: int
    metrics: tuple[MetricResult, ...] = ()
    progress: float | None = None
    """Of the whole job, 0 to 1."""
    note: str = ""
    """What the job itself wants to be said of it."""
    progress_at: float | None = None
    """When its progress came to that, in Unix seconds."""

    def __getitem__(self, name: str) -> MetricResult:
        """Raises KeyError."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(name)

    def get(self, name: str) -> MetricResult | None:
        return next((metric for metric in self.metrics if metric.name == name), None)

    def at_best(self, name: str, main: str) -> float | None:
        """The value of one metric at the checkpoint where the main one was best, so that a row is one checkpoint."""
        best = self.get(main)
        beside = best.beside if best is not None else ()
        return next((value for metric, value in zip(self.metrics, beside, strict=False) if metric.name == name), None)


class MainMetric(Struct, frozen=True):
    """What jobs of a session are compared by."""

    name: str
    direction: Direction
    is_chosen: bool = False
    """By the user, not guessed."""
