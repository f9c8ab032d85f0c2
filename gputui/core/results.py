"""Results: the metrics that jobs print, their better directions, and the metric that the user wants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import compress, count, starmap, zip_longest
from operator import is_not

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.regex import lazy_regex

# Results


class Direction(StrEnum):
    """Whether lower or higher values of a metric are better."""

    DOWN = "min"
    UP = "max"
    UNKNOWN = "unknown"


class Point(Struct, frozen=True, array_like=True, gc=False):
    """A point of a curve."""

    step: float | None
    """The epoch, step or iteration printed with the value, or None."""
    at: float
    """When the value was read, in Unix seconds."""
    value: float


class Curve(Struct, frozen=True, array_like=True):
    """The values of one metric of an attempt over time."""

    name: str
    points: tuple[Point, ...]
    """At most 200 points and the best one, in the order in which they were printed."""


class Behind(Struct, frozen=True):
    """How far a running job is behind its siblings, the other runs of its program, at the same step."""

    step: float
    value: float
    siblings: int
    """Number of siblings that have reached the step."""
    median: float
    limit: float
    """The value that three quarters of the siblings reach at the step."""


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
    """The values of all metrics when this one was best, in the order of `JobResults.metrics`."""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    """`%` if the value was printed with a percent sign, else empty."""
    log: int = 0
    """The log file from which the metric was last read: 0 for stdout, 1 for stderr if it has its own file."""

    def by(self, direction: Direction) -> MetricResult:
        """Return the result with the best value for this direction. If it is another value, its step is unknown."""
        best = {Direction.DOWN: self.low, Direction.UP: self.high}.get(direction, self.last)
        return self if best is None or best == self.best else replace(self, best=best, best_step=None, beside=())


class JobResults(Struct, frozen=True, array_like=True):
    """The results of the latest attempt of a job that printed anything."""

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
        """Return the result of a metric, or None. `direction` is the better direction if the user chose it."""
        metric = next((metric for metric in self.metrics if metric.name == name), None)
        return metric.by(direction) if metric is not None and direction is not None else metric

    def at_best(self, name: str, main: MetricResult) -> float | None:
        """Return a metric at the checkpoint where `main` was best, so that all values of a row belong together."""
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
        """Yield the jobs that have other results than in an earlier mapping."""
        old = earlier._packed if earlier._first == self._first else []
        return compress(count(self._first), starmap(is_not, zip_longest(self._packed, old)))

    def with_packed(self, values: Mapping[int, bytes | None]) -> PackedResults:
        """Return a copy with these results replaced, or removed if None. No id may precede the first one."""
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
"""The name of a metric that is found by a pattern without a name."""
_ENDS = {"max": Direction.UP, "up": Direction.UP, "min": Direction.DOWN, "down": Direction.DOWN}
_FORM = lazy_regex(r"\s*(?P<name>[^/\s]\S*)?\s*(?:/(?P<pattern>.+)/)?\s*(?P<end>max|min|up|down)?\s*", re.DOTALL)
_REPEATED_GROUP = lazy_regex(r"\((?:[^()\\]|\\.)*[*+}|](?:[^()\\]|\\.)*\)[*+{]")


class WantedMetric(Struct, frozen=True):
    """The metric that the user wants, and how to find it in the output."""

    name: str | None = None
    direction: Direction | None = None
    """The better direction, or None to guess it from the name."""
    pattern: str | None = None
    """A regular expression with the number as its group `value` or first group, and perhaps the name as `name`."""


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
"""Words that decide the direction only if the name contains no other known word: `error_rate`, `train_loss_step`."""
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
