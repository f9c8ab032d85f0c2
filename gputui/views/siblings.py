"""Siblings: runs of the same program in the same group, compared at the same step.

If a run printed no value at a step, the value of its latest earlier step is used. Nothing is interpolated.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import isfinite

from msgspec import Struct

from gputui.core.book import median
from gputui.core.job import JobId, JobSpec
from gputui.core.parameters import program_of
from gputui.core.results import Behind, Direction, Point

from .format import value_text

FEWEST_SIBLINGS = 5
"""Minimum number of siblings that must have reached a step before a run is judged at this step."""
FEWEST_STEPS = 5
"""Minimum number of steps that a run must have printed before it is judged."""
STEPS_BEHIND = 3
"""Number of steps, counted from the latest one, at which a run must be behind."""
EARLY = 0.2
"""Share of the usual length of a run. A run is not judged earlier, because runs begin differently."""
MOST_SIBLINGS = 100
"""Maximum number of curves that are kept per family. The newest curves are kept."""
MOST_FAMILIES = 32

Family = tuple[str, str]


def family_of(spec: JobSpec) -> Family:
    """Return what siblings have in common: their group and their program."""
    return spec.group, spec.task or _program(spec.command)


_program = lru_cache(maxsize=4096)(program_of)


class StepCurve:
    """The finite values of a curve, one for each step. If a step was printed several times, its last value counts."""

    __slots__ = ("steps", "values")

    def __init__(self, points: Iterable[Point]) -> None:
        by_step: dict[float, float] = {}
        for point in points:
            if point.step is not None and isfinite(point.value):
                by_step[point.step] = point.value
        self.steps = array("d", sorted(by_step))
        self.values = array("d", (by_step[step] for step in self.steps))

    def at(self, step: float) -> float | None:
        """Return the value at a step, or None if the curve begins after the step or ends before it."""
        place = bisect_right(self.steps, step) - 1
        return self.values[place] if place >= 0 and step <= self.steps[-1] else None


class StepStatistics(Struct, frozen=True):
    """The values of siblings at one step."""

    step: float
    count: int
    low: float
    """The value that a quarter of the siblings do not exceed."""
    median: float
    high: float
    """The value that three quarters of the siblings do not exceed."""


def statistics_at(curves: Iterable[StepCurve], step: float) -> StepStatistics | None:
    """Return the statistics of the curves that have a value at a step, or None if there are none."""
    values = sorted(value for curve in curves if (value := curve.at(step)) is not None)
    if not values:
        return None
    last = len(values) - 1
    return StepStatistics(step, len(values), values[last // 4], median(values), values[last - last // 4])


def statistics_by_step(
    curves: Sequence[StepCurve], *, fewest: int = 3, most_steps: int = 200
) -> tuple[StepStatistics, ...]:
    """Return statistics for at most `most_steps` steps at which at least `fewest` curves have a value."""
    steps = sorted({step for curve in curves for step in curve.steps})
    every = -(-len(steps) // most_steps) or 1
    found = (statistics_at(curves, step) for step in steps[::-1][::every][::-1])
    return tuple(at_step for at_step in found if at_step is not None and at_step.count >= fewest)


def behind(
    points: Iterable[Point], siblings: Sequence[StepCurve], direction: Direction, progress: float | None = None
) -> Behind | None:
    """Return how far a run is behind its siblings, or None if it is not clearly behind or it is too early to tell.

    A run is clearly behind if it is worse than three quarters of its siblings at each of its latest steps.
    `progress` is the run's progress from 0 to 1.
    """
    if direction is Direction.UNKNOWN or len(siblings) < FEWEST_SIBLINGS or (progress is not None and progress < EARLY):
        return None
    own = StepCurve(_complete(points))
    usual_length = median(curve.steps[-1] for curve in siblings)
    if len(own.steps) < FEWEST_STEPS or own.steps[-1] < EARLY * usual_length:
        return None
    latest = [statistics_at(siblings, step) for step in own.steps[-STEPS_BEHIND:]]
    for value, others in zip(own.values[-STEPS_BEHIND:], latest, strict=True):
        if others is None or others.count < FEWEST_SIBLINGS:
            return None
        if value <= others.high if direction is Direction.DOWN else value >= others.low:
            return None
    others = latest[-1]
    assert others is not None
    limit = others.high if direction is Direction.DOWN else others.low
    return Behind(others.step, own.values[-1], others.count, others.median, limit)


def behind_words(verdict: Behind, metric: str) -> str:
    """Describe a verdict: `is behind at step 15: loss 2.07; median of 8 similar runs 0.92, 3 in 4 at …`."""
    value, middle, limit = (value_text(each) for each in (verdict.value, verdict.median, verdict.limit))
    runs = f"median of {verdict.siblings} similar runs {middle}, 3 in 4 at {limit} or better"
    return f"is behind at step {verdict.step:g}: {metric} {value}; {runs}"


def _complete(points: Iterable[Point]) -> list[Point]:
    """Return the points, without the last step if steps are printed several times. More of that step may follow."""
    ordered = [point for point in points if point.step is not None]
    repeats = any(before.step == after.step for before, after in pairwise(ordered))
    return [point for point in ordered if point.step != ordered[-1].step] if repeats else ordered


class SiblingBook:
    """The curves of the main metric of the newest runs of each family."""

    def __init__(self) -> None:
        self._families: dict[Family, dict[JobId, StepCurve]] = {}

    def __contains__(self, family: Family) -> bool:
        return family in self._families

    def learn(self, family: Family, job: JobId, points: Iterable[Point]) -> None:
        """Add or replace the curve of a job. The oldest curve or family is forgotten if there are too many."""
        curves = self._families.pop(family, None) or {}
        self._families[family] = curves
        if len(self._families) > MOST_FAMILIES:
            del self._families[next(iter(self._families))]
        curve = StepCurve(points)
        if curve.steps:
            curves[job] = curve
        if len(curves) > MOST_SIBLINGS:
            del curves[next(iter(curves))]

    def siblings(self, family: Family, job: JobId) -> list[StepCurve]:
        """Return the curves of the other jobs of a family."""
        return [curve for other, curve in self._families.get(family, {}).items() if other != job]
