"""Results: numbers that jobs print under a name, and which metrics the user wants."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

# ---- What jobs printed as numbers under a name ----


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

    def by(self, direction: Direction) -> MetricResult:
        """As it is where this direction is the good one, whatever its name says; where that was is not kept."""
        best = {Direction.DOWN: self.low, Direction.UP: self.high}.get(direction, self.last)
        return self if best is None or best == self.best else replace(self, best=best, best_step=None, beside=())


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
    written_at: float | None = None
    """When it last printed anything, in Unix seconds."""
    longest_pause: float = 0.0
    """Seconds; of those between its start and its outputs until then."""
    outputs: int = 0
    """How often it was seen to have printed something, at most once a second."""

    def __getitem__(self, name: str) -> MetricResult:
        """Raises KeyError."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(name)

    def get(self, name: str, direction: Direction | None = None) -> MetricResult | None:
        """`direction`: which one is good, where that is known better than by the name."""
        metric = next((metric for metric in self.metrics if metric.name == name), None)
        return metric.by(direction) if metric is not None and direction is not None else metric

    def at_best(self, name: str, main: MetricResult) -> float | None:
        """The value of one metric at the checkpoint where the main one was best, so that a row is one checkpoint."""
        beside = main.beside
        return next((value for metric, value in zip(self.metrics, beside, strict=False) if metric.name == name), None)


class MainMetric(Struct, frozen=True):
    """What jobs of a session are compared by."""

    name: str
    direction: Direction
    is_chosen: bool = False
    """By the user, not guessed."""


# ---- What a user wants to have read ----


LONGEST_PATTERN = 500
UNNAMED = "metric"
"""What is found by an expression that names nothing."""
_ENDS = {"max": Direction.UP, "up": Direction.UP, "min": Direction.DOWN, "down": Direction.DOWN}
_FORM = re.compile(r"\s*(?P<name>[^/\s]\S*)?\s*(?:/(?P<pattern>.+)/)?\s*(?P<end>max|min|up|down)?\s*", re.DOTALL)
_REPEATED_GROUP = re.compile(r"\((?:[^()\\]|\\.)*[*+}|](?:[^()\\]|\\.)*\)[*+{]")


class WantedMetric(Struct, frozen=True):
    """The metric that matters to the user, and how it is found."""

    name: str | None = None
    direction: Direction | None = None
    """None: guess it from the name."""
    pattern: str | None = None
    """Its group `value`, else its first one, is the number; a group `name` names it."""


def wanted_of(text: str) -> WantedMetric:
    """Of `val_acc`, `val_acc max`, `/best: ([0-9.]+)/` or `score /best: (.+)/ max`; ValueError says what is wrong."""
    match = _FORM.fullmatch(text)
    if match is None or not (match["name"] or match["pattern"]):
        raise ValueError(f"{text!r} is no metric; write a name, or /regular expression/, and max or min after it")
    name, pattern, end = match["name"], match["pattern"], match["end"]
    if name in _ENDS and end is None and pattern is None:
        raise ValueError(f"{text!r} names no metric; write its name before {name}")
    if pattern is not None:
        _check(pattern)
    return WantedMetric(name, _ENDS[end] if end else None, pattern)


def _check(pattern: str) -> None:
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"the regular expression has {len(pattern)} characters; {LONGEST_PATTERN} are the most")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"/{pattern}/ is no regular expression: {error}") from None
    if _REPEATED_GROUP.search(pattern) is not None:
        raise ValueError(f"/{pattern}/ repeats a group that repeats or chooses; on some lines that takes for ever")
    if not compiled.groups:
        raise ValueError(f"/{pattern}/ has no group; put round brackets around the number")


# ---- What is known of a result by its name alone ----


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
"""They tell nothing beside a word that does: `error_rate`, `train_loss_step`."""
_OPPOSITE = frozenset({"neg", "negative"})
_GLUED = ("loss", "error", "accuracy", "reward", "score", "acc", "rmse", "precision", "recall", "entropy",
          "verlust", "fehler", "genauigkeit", "损失", "損失", "误差", "誤差", "精度", "准确率", "正确率", "正解率",
          "召回率", "奖励", "손실", "정확도")  # fmt: skip

_LETTERS = re.compile(r"(?<=[a-z]{3})\d")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_APART = re.compile(r"[\W_]+")


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in lower case: `valLoss`, `val_loss` and `Val. Loss` have the same."""
    return tuple(word.lower() for word in _APART.split(_CAMEL.sub(" ", name)) if word)


@lru_cache(maxsize=4096)
def direction_of(name: str) -> Direction:
    """The last telling word decides: `val_loss` falls, `loss_acc` rises, of `lr` nobody can say."""
    if name.startswith("-"):
        return _turned(direction_of(name[1:]))
    words = words_of(name)
    telling = [(number, direction) for number, word in enumerate(words) if (direction := _of_word(word)) is not None]
    if not telling:
        return Direction.UNKNOWN
    sure = [each for each in telling if words[each[0]] not in _DECIDES_AT_THE_END]
    number, direction = (sure or telling)[-1]
    if words[number] == "entropy" and "cross" in words[:number]:
        direction = Direction.DOWN
    return _turned(direction) if _OPPOSITE.intersection(words[:number]) else direction


def _of_word(word: str) -> Direction | None:
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


def _turned(direction: Direction) -> Direction:
    return {Direction.UP: Direction.DOWN, Direction.DOWN: Direction.UP}.get(direction, direction)
