"""The results of all jobs, the metric they are compared by, and the best job."""

from __future__ import annotations

from array import array
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from math import inf, isfinite, isnan, nan

import msgspec
from msgspec import Struct

from .eta import Paces
from .job import BAD_ENDS, Job, JobId, Succeeded
from .results import (
    Curve,
    Direction,
    JobResults,
    MainMetric,
    MetricResult,
    PackedResults,
    Point,
    direction_of,
    name_words,
)

_VALIDATION = frozenset(("val", "valid", "validation", "vali", "eval", "evaluation", "dev", "holdout", "heldout"))
_TRAINING = frozenset(("train", "training", "trn", "tr", "learn"))
_NO_AIM = frozenset(("mfu", "hfu", "l1", "l2", "correct"))
"""Words in names of metrics of progress or speed, by which jobs are compared only if there is no other."""


class _BriefMetric(Struct, frozen=True, array_like=True, gc=False):
    name: str
    last: float
    best: float
    best_step: msgspec.Raw
    count: msgspec.Raw
    trend: msgspec.Raw = msgspec.Raw()
    beside: msgspec.Raw = msgspec.Raw()
    low: float | None = None
    high: float | None = None


class _Brief(Struct, frozen=True, array_like=True):
    """The part of JobResults that is needed to compare jobs. It is fast to unpack."""

    attempt: int
    metrics: tuple[_BriefMetric, ...] = ()


def _brief(packed: bytes) -> _Brief:
    return msgspec.msgpack.decode(packed, type=_Brief)


class ResultBook:
    """The results of all jobs of a session. They do not influence scheduling."""

    def __init__(self, first_id: JobId, wanted: MainMetric | None = None) -> None:
        self.results = PackedResults(first_id)
        self.metric: MainMetric | None = wanted
        self.chosen = wanted
        """The metric that the user chose for this session, or None."""
        self.best: JobId | None = None
        self.paces = Paces()
        self._first = first_id
        self._jobs_with: Counter[str] = Counter()
        """Number of jobs that printed each metric."""
        self._asked: Counter[MainMetric] = Counter()
        """Number of jobs that name each metric in their settings."""
        self._values = array("d")
        """Value of the main metric for each job, or nan if the job has none or failed."""

    def load(self, packed: Mapping[JobId, bytes], job_of: Callable[[JobId], Job]) -> None:
        """Load stored results. Unreadable results are ignored, and will be read from the logs again."""
        readable: dict[JobId, bytes] = {}
        printed: Counter[tuple[str, ...]] = Counter()
        for job_id, results in packed.items():
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                printed[tuple(metric.name for metric in msgspec.msgpack.decode(results, type=JobResults).metrics)] += 1
                readable[job_id] = results
        self.results = self.results.with_packed(readable)
        for names, jobs in printed.items():
            self._jobs_with.update(dict.fromkeys(names, jobs))
        self._judge(job_of)

    def put(self, news: Mapping[JobId, JobResults], job_of: Callable[[JobId], Job]) -> None:
        for job_id, results in news.items():
            before = self.results.packed(job_id)
            if before is not None:
                self._jobs_with.subtract(metric.name for metric in _brief(before).metrics)
            self._jobs_with.update(metric.name for metric in results.metrics)
        self.results = self.results.with_results(news)
        if self._guess() != self.metric:
            self.note_paces(map(job_of, news))
            self._judge(job_of)
        else:
            self.refresh(news, job_of)

    def ask(self, metrics: Iterable[MainMetric], job_of: Callable[[JobId], Job]) -> None:
        """Count the metrics that new jobs name in their settings."""
        before = self._guess()
        self._asked.update(metrics)
        if self._guess() != before:
            self._judge(job_of)

    def choose(self, metric: MainMetric | None, job_of: Callable[[JobId], Job]) -> None:
        """Set the user's choice of a metric, or None to guess."""
        self.chosen = metric
        self._judge(job_of)

    @property
    def names(self) -> list[str]:
        """All metrics, most frequent first."""
        return [name for name, count in self._jobs_with.most_common() if count > 0]

    def refresh(self, changed: Iterable[JobId], job_of: Callable[[JobId], Job]) -> None:
        """Update the best job after the results or states of these jobs have changed."""
        best = self._value(self.best)
        rescan = False
        for job_id in changed:
            job = job_of(job_id)
            self.note_paces((job,))
            if job_id in self.results:
                self._enter(job_id, self._worth(job))
                rescan = rescan or job_id == self.best or self._beats(self._value(job_id), best)
        if rescan:
            self._find_best()

    def note_paces(self, jobs: Iterable[Job]) -> None:
        """Note the longest pauses of succeeded jobs."""
        for job in jobs:
            if isinstance(job.state, Succeeded):
                self.paces.note(job, self.results.get(job.id))

    def _judge(self, job_of: Callable[[JobId], Job]) -> None:
        self.metric = self._guess()
        self._values = array("d")
        for job_id in self.results:
            self._enter(job_id, self._worth(job_of(job_id)))
        self._find_best()

    def _guess(self) -> MainMetric | None:
        if self.chosen is not None:
            return self.chosen
        if self._asked:
            return max(self._asked, key=lambda metric: (self._asked[metric], metric.name))
        return guess_main_metric(self._jobs_with)

    def _worth(self, job: Job) -> float:
        if self.metric is None or job.archived or job.state.name in BAD_ENDS:
            return nan
        packed = self.results.packed(job.id)
        name, direction = self.metric.name, self.metric.direction
        for metric in _brief(packed).metrics if packed is not None else ():
            if metric.name == name:
                best = metric.low if direction is Direction.DOWN else metric.high
                return best if best is not None else nan
        return nan

    def _value(self, job_id: JobId | None) -> float:
        place = job_id - self._first if job_id is not None else -1
        return self._values[place] if 0 <= place < len(self._values) else nan

    def _enter(self, job_id: JobId, value: float) -> None:
        missing = job_id - self._first + 1 - len(self._values)
        if missing > 0:
            self._values.extend([nan] * missing)
        self._values[job_id - self._first] = value

    def _beats(self, value: float, best: float) -> bool:
        if isnan(value) or isnan(best):
            return not isnan(value)
        return value < best if self.metric is not None and self.metric.direction is Direction.DOWN else value > best

    def _find_best(self) -> None:
        """Find the best job. If several are equally good, choose the first."""
        finite = [value for value in self._values if not isnan(value)]
        self.best = None
        if finite and self.metric is not None and self.metric.direction is not Direction.UNKNOWN:
            best = min(finite) if self.metric.direction is Direction.DOWN else max(finite)
            self.best = self._values.index(best) + self._first


def guess_main_metric(jobs_with: Mapping[str, int]) -> MainMetric | None:
    """Choose a metric that many jobs print, preferably one from validation with a known direction."""
    most = max(jobs_with.values(), default=0)
    names = [name for name, count in jobs_with.items() if count > 0 and count * 2 >= most]
    if not names:
        return None
    name = max(names, key=lambda candidate: (_rank(candidate), jobs_with[candidate]))
    return MainMetric(name, direction_of(name))


def _rank(name: str) -> tuple[bool, int, int]:
    words = set(name_words(name))
    is_aim = direction_of(name) is not Direction.UNKNOWN and not _NO_AIM & words
    phase = 3 if _VALIDATION & words else 2 if "test" in words else 0 if _TRAINING & words else 1
    kind = 2 if "loss" in words or "loss" in name.lower() else 1
    return is_aim, phase, kind - len(words)


# Results of one attempt


MOST_POINTS = 200
MOST_METRICS = 32
"""Maximum number of metrics per attempt. Beyond it, a metric that was printed only once makes room."""
TREND = 8


class Series(Struct):
    """The values of one metric of a running attempt so far."""

    name: str
    direction: Direction
    last: float
    best: Point
    count: int = 0
    low: float = inf
    high: float = -inf
    points: list[Point] = []
    every: int = 1
    """Number of readings per point of the curve. The latest reading is always kept."""
    beside: dict[str, float] = {}
    """Values of the other metrics when this one was best."""
    is_open: bool = False
    """Whether the best value is the latest one, so that other metrics of the same step may still follow."""
    unit: str = ""
    log: int = 0

    def take(self, point: Point) -> bool:
        """Add a reading and return whether it is the best so far."""
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
        """Return smoothed values of the second half of the curve."""
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
    """All metrics of an attempt. This is plain data, so that the next scheduler can continue with it."""

    series: dict[str, Series] = {}

    def take(
        self, name: str, point: Point, direction: Direction | None = None, *, unit: str = "", log: int = 0
    ) -> None:
        """Add a reading. `direction` is the user's choice, or None to guess. `log` is the number of the log file."""
        series = self.series.get(name)
        if series is None:
            if len(self.series) >= MOST_METRICS:
                once = next((series.name for series in self.series.values() if series.count == 1), None)
                if once is None:
                    return
                del self.series[once]
            series = Series(name, direction or direction_of(name), point.value, point)
            self.series[name] = series
        series.unit, series.log = unit, log
        for other in self.series.values():
            # A value that is printed after the best one, but at the same step, belongs to the same checkpoint.
            is_same_step = point.step == other.best.step and (point.step is not None or name not in other.beside)
            if other.is_open and other.name != name and is_same_step:
                other.beside[name] = point.value
        if series.take(point):
            series.beside = {other.name: other.last for other in self.series.values() if other is not series}

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
