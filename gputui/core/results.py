"""Results: the metrics that jobs print, how they are compared, and which job is the best.

Results do not influence scheduling.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from itertools import compress, count, pairwise, starmap, zip_longest
from math import inf, isfinite, isnan, nan
from operator import is_not

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .book import median
from .job import BAD_ENDS, Job, JobId, Succeeded
from .regex import lazy_regex
from .state import REMEMBERED

# Results


class Direction(StrEnum):
    """Whether lower or higher values of a metric are better."""

    DOWN = "min"
    UP = "max"
    UNKNOWN = "unknown"


class Point(Struct, frozen=True, array_like=True, gc=False):
    """A point of a curve."""

    step: float | None
    """The epoch, step or iteration that was printed with the value, or None."""
    at: float
    """When the value was read, in Unix seconds."""
    value: float


class Curve(Struct, frozen=True, array_like=True):
    """The values of one metric of an attempt over time."""

    name: str
    points: tuple[Point, ...]
    """At most 200 points plus the best one, in the order in which they were printed."""


class Behind(Struct, frozen=True):
    """How far a running job is behind its siblings, the other runs of its program, at the same step."""

    step: float
    value: float
    siblings: int
    """Number of siblings that have reached the step."""
    median: float
    limit: float
    """The value that three quarters of the siblings reach or surpass at the step."""


class MetricResult(Struct, frozen=True, array_like=True):
    """The results of one metric of an attempt."""

    name: str
    last: float
    best: float
    """The best value according to the metric's direction, or the last value if the direction is unknown."""
    best_step: float | None
    count: int
    """Number of times that the metric was printed."""
    trend: tuple[float, ...] = ()
    """At most eight smoothed values from the second half of the run."""
    beside: tuple[float | None, ...] = ()
    """The values of all metrics at the moment when this metric was best, in the order of `JobResults.metrics`."""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    """`%` if the value was printed with a percent sign, else empty."""
    log: int = 0
    """The log file from which the metric was last read: 0 for stdout, or 1 for a separate stderr file."""

    def by(self, direction: Direction) -> MetricResult:
        """Return the result with its best value in this direction. If the best value changes, its step is unknown."""
        best = {Direction.DOWN: self.low, Direction.UP: self.high}.get(direction, self.last)
        return self if best is None or best == self.best else replace(self, best=best, best_step=None, beside=())


class JobResults(Struct, frozen=True, array_like=True):
    """The results of a job's latest attempt that printed anything."""

    attempt: int
    metrics: tuple[MetricResult, ...] = ()
    progress: float | None = None
    """Progress of the whole job (0 to 1), or None if it is unknown."""
    note: str = ""
    """A note that the job printed about itself."""
    progress_at: float | None = None
    """When `progress` was reached, in Unix seconds."""
    written_at: float | None = None
    """When the job last printed anything, in Unix seconds."""
    longest_pause: float = 0.0
    """The longest pause between two outputs in seconds, including the pause before the first output."""
    outputs: int = 0
    """Number of times that the job printed something, counted at most once a second."""

    def __getitem__(self, name: str) -> MetricResult:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(name)

    def get(self, name: str, direction: Direction | None = None) -> MetricResult | None:
        """Return the result of a metric, or None. `direction` is the better direction as chosen by the user, if any."""
        metric = next((metric for metric in self.metrics if metric.name == name), None)
        return metric.by(direction) if metric is not None and direction is not None else metric

    def at_best(self, name: str, main: MetricResult) -> float | None:
        """Return a metric's value at the checkpoint where `main` was best, so that values of a row belong together."""
        beside = main.beside
        return next((value for metric, value in zip(self.metrics, beside, strict=False) if metric.name == name), None)


_pack = msgspec.msgpack.Encoder().encode


class PackedResults(Mapping[int, JobResults]):
    """An immutable mapping of job ids to results. To save memory, results are unpacked only on access."""

    __slots__ = ("_first", "_packed")

    def __init__(self, first: int = 0, packed: list[bytes | None] | None = None) -> None:
        self._first, self._packed = first, packed or []

    def __getitem__(self, job: int) -> JobResults:
        packed = self.packed(job)
        if packed is None:
            raise KeyError(job)
        return msgspec.msgpack.decode(packed, type=JobResults)

    def __contains__(self, job: object) -> bool:
        return isinstance(job, int) and self.packed(job) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[int]:
        return (job for job, packed in enumerate(self._packed, self._first) if packed is not None)

    def packed(self, job: int) -> bytes | None:
        """Return the packed results of a job, so that the caller can decode only a part of them."""
        place = job - self._first
        return self._packed[place] if 0 <= place < len(self._packed) else None

    def changed_since(self, earlier: PackedResults) -> Iterator[int]:
        """Yield the jobs whose results differ from those in an earlier mapping."""
        old = earlier._packed if earlier._first == self._first else []
        return compress(count(self._first), starmap(is_not, zip_longest(self._packed, old)))

    def with_packed(self, values: Mapping[int, bytes | None]) -> PackedResults:
        """Return a copy with these results replaced, or removed where None. No id may be below the first id."""
        longest = max((job - self._first + 1 for job in values), default=0)
        packed = self._packed + [None] * (longest - len(self._packed))
        for job, value in values.items():
            packed[job - self._first] = value
        return PackedResults(self._first, packed)

    def with_results(self, values: Mapping[int, JobResults | None]) -> PackedResults:
        return self.with_packed({job: None if value is None else _pack(value) for job, value in values.items()})


NO_RESULTS = PackedResults()


class MainMetric(Struct, frozen=True):
    """The metric by which the jobs of a session are compared."""

    name: str
    direction: Direction
    is_chosen: bool = False
    """Whether the user chose the metric. If not, it was guessed."""


# The metric that the user wants


LONGEST_PATTERN = 500
UNNAMED = "metric"
"""The name of a metric whose pattern does not give it one."""
_ENDS = {"max": Direction.UP, "up": Direction.UP, "min": Direction.DOWN, "down": Direction.DOWN}
_FORM = lazy_regex(r"\s*(?P<name>[^/\s]\S*)?\s*(?:/(?P<pattern>.+)/)?\s*(?P<end>max|min|up|down)?\s*", re.DOTALL)
_REPEATED_GROUP = lazy_regex(r"\((?:[^()\\]|\\.)*[*+}|](?:[^()\\]|\\.)*\)[*+{]")


class WantedMetric(Struct, frozen=True):
    """The metric that the user wants, and how to find it in the output."""

    name: str | None = None
    direction: Direction | None = None
    """The better direction, or None to guess it from the name."""
    pattern: str | None = None
    """A regular expression. Its group `value` or its first group is the number. A group `name`, if any, is the name."""


def parse_wanted_metric(text: str) -> WantedMetric:
    """Parse `val_acc`, `val_acc max`, `/best: ([0-9.]+)/` or `score /best: (.+)/ max`, or raise ValueError."""
    match = _FORM.fullmatch(text)
    if match is None or not (match["name"] or match["pattern"]):
        raise ValueError(f"invalid metric {text!r}: use a name or /regex/, optionally followed by max or min")
    name, pattern, end = match["name"], match["pattern"], match["end"]
    if name in _ENDS and end is None and pattern is None:
        raise ValueError(f"no metric name in {text!r}; write it before {name}")
    if pattern is not None:
        _check(pattern)
    return WantedMetric(name, _ENDS[end] if end else None, pattern)


def _check(pattern: str) -> None:
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"regex has {len(pattern)} characters; the limit is {LONGEST_PATTERN}")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"invalid regex /{pattern}/: {error}") from None
    if _REPEATED_GROUP.search(pattern) is not None:
        raise ValueError(f"/{pattern}/ repeats a group that contains * + or |, which can take forever")
    if not compiled.groups:
        raise ValueError(f"/{pattern}/ has no group; put parentheses around the number")


# Names of metrics


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_DOWN = _set(
    """loss losses nll cost err error errors mse rmse mae mape smape msle rmsle ppl perplexity wer cer ter der eer
    fid kid lpips hd hd95 brier ece regret xent bpc bpb l1 l2 nmse logloss mlogloss crossentropy rmspe mpe mase crps
    objective energy residual divergence aic bic distortion inertia violations mcd fvd epe ate rpe chamfer
    pae ade fde mpjpe bce kld
    verlust fehler perte erreur pérdida perda perdita errore потери ошибка 损失 損失 误差 誤差 困惑度 손실 오차"""
)
_UP = _set(
    """acc accuracy prec precision recall f1 fscore fbeta auc auroc auprc roc ap map iou miou giou dice bleu sacrebleu
    rouge rouge1 rouge2 rougel meteor psnr ssim r2 ndcg mrr hit hits top1 top5 reward rewards rew return returns ret
    eprewmean score success elo elbo variance correct kappa mcc jaccard specificity sensitivity pck pq likelihood
    loglik em mfu plddt ptm iptm mota hota idf1 sdr sisdr pesq stoi concordance qwk
    winrate lddt gdt ar pass cider spice bertscore pearson spearman corr correlation silhouette margins
    genauigkeit trefferquote précision exactitude rappel justesse precisión exactitud precisão acurácia precisione
    accuratezza точность полнота 精度 准确率 準確率 正确率 正解率 精确率 召回率 奖励 報酬 정확도 재현율 보상"""
)
_NEITHER = _set(
    """lr rate norm gnorm kl entropy length len lengths time seconds scale weight weights std size count memory temp
    temperature epoch step iter"""
)
_DECIDES_AT_THE_END = frozenset({"rate", "std", "epoch", "step", "iter", "weight", "weights"})
"""Words that decide the direction only if no other word does. `error` decides in `error_rate`."""
_OPPOSITE = frozenset({"neg", "negative"})
_GLUED = ("loss", "error", "accuracy", "reward", "score", "acc", "rmse", "precision", "recall", "entropy",
          "verlust", "fehler", "genauigkeit", "损失", "損失", "误差", "誤差", "精度", "准确率", "正确率", "正解率",
          "召回率", "奖励", "손실", "정확도")  # fmt: skip

_LETTERS = lazy_regex(r"(?<=[a-z]{3})\d")
_CAMEL = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_APART = lazy_regex(r"[\W_]+")


@lru_cache(maxsize=4096)
def name_words(name: str) -> tuple[str, ...]:
    """Split a name into lowercase words. `valLoss`, `val_loss` and `Val. Loss` give the same words."""
    return tuple(word.lower() for word in _APART.split(_CAMEL.sub(" ", name)) if word)


@lru_cache(maxsize=4096)
def direction_of(name: str) -> Direction:
    """Guess the better direction from the last known word: down for `val_loss`, up for `loss_acc`, unknown for `lr`."""
    if name.startswith("-"):
        return _reversed(direction_of(name[1:]))
    words = name_words(name)
    known = [
        (number, direction) for number, word in enumerate(words) if (direction := _direction_of_word(word)) is not None
    ]
    if not known:
        return Direction.UNKNOWN
    sure = [entry for entry in known if words[entry[0]] not in _DECIDES_AT_THE_END]
    number, direction = (sure or known)[-1]
    if words[number] == "entropy" and "cross" in words[:number]:
        direction = Direction.DOWN
    return _reversed(direction) if _OPPOSITE.intersection(words[:number]) else direction


def _direction_of_word(word: str) -> Direction | None:
    for form in (
        word,
        word.rstrip("0123456789"),
        next((end for end in _GLUED if word.endswith(end)), ""),
        _LETTERS.split(word)[0],
    ):
        if form in _DOWN:
            return Direction.DOWN
        if form in _UP:
            return Direction.UP
        if form in _NEITHER:
            return Direction.UNKNOWN
    return None


def _reversed(direction: Direction) -> Direction:
    return {Direction.UP: Direction.DOWN, Direction.DOWN: Direction.UP}.get(direction, direction)


# Results of one attempt


MOST_POINTS = 200
MOST_METRICS = 32
"""Maximum number of metrics per attempt. If there are more, a metric that was printed only once is dropped."""
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
    """Number of readings for each point of the curve. The latest reading is always kept."""
    beside: dict[str, float] = {}
    """Values of the other metrics at the moment when this metric was best."""
    is_open: bool = False
    """Whether the latest value is the best one. If it is, other metrics of the same step may still follow."""
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
    """All metrics of an attempt, as plain data that can be passed on to the next scheduler."""

    series: dict[str, Series] = {}

    def take(
        self, name: str, point: Point, direction: Direction | None = None, *, unit: str = "", log: int = 0
    ) -> None:
        """Add a reading. `direction` is the user's choice, or None to guess it. `log` is the number of the log file."""
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


# Usual pauses between outputs


NO_PACES: Mapping[str, float] = {}


class Paces:
    """The usual pause of each group: the median of the longest pauses between outputs of its last successful jobs."""

    def __init__(self) -> None:
        self._pauses: dict[str, dict[JobId, float]] = {}
        self._outdated: set[str] = set()
        self._usual: Mapping[str, float] = NO_PACES

    def note(self, job: Job, results: JobResults | None) -> None:
        """Add the longest pause of a job that has succeeded. If it printed nothing, this is its whole duration."""
        if not isinstance(job.state, Succeeded):
            return
        attempt = job.attempts[-1]
        pause = attempt.seconds
        if results is not None and results.attempt == attempt.number and results.written_at is not None:
            pause = max(results.longest_pause, attempt.ended - results.written_at)
        pauses = self._pauses.setdefault(job.spec.group, {})
        if pauses.get(job.id) != pause:
            pauses[job.id] = pause
            self._outdated.add(job.spec.group)
            if len(pauses) > REMEMBERED:
                del pauses[next(iter(pauses))]

    def usual(self) -> Mapping[str, float]:
        """Return the usual pause of each group. The mapping is never modified, so that snapshots can share it."""
        if self._outdated:
            changed = {group: median(self._pauses[group].values()) for group in self._outdated}
            self._usual = {**self._usual, **changed}
            self._outdated.clear()
        return self._usual


# Results of all jobs


_VALIDATION = frozenset(("val", "valid", "validation", "vali", "eval", "evaluation", "dev", "holdout", "heldout"))
_TRAINING = frozenset(("train", "training", "trn", "tr", "learn"))
_NO_AIM = frozenset(("mfu", "hfu", "l1", "l2", "correct"))
"""Words that mark a metric as progress or speed. Jobs are compared by such a metric only if there is no other."""


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
        """Value of the main metric of each job, or nan if the job has no value or has failed."""

    def load(self, packed: Mapping[JobId, bytes], job_of: Callable[[JobId], Job]) -> None:
        """Load stored results. Unreadable results are ignored and will be read from the logs again."""
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
    """Choose a metric that many jobs print, preferably a validation metric with a known direction."""
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
