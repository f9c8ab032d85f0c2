"""The parts of a line (numbers, named numbers, counters), and the meaning of names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache

from msgspec import Struct

from gputui.core.regex import lazy_regex
from gputui.core.results import Direction, direction_of, name_words


class MetricReading(Struct, frozen=True):
    """A number that a job printed together with a name."""

    name: str
    value: float
    step: float | None = None
    """The step, counted across all epochs, or else the epoch. None if neither was printed."""
    exact: bool = False
    """Whether the metric was announced with `::gputui metric …::`."""
    unit: str = ""
    """`%` if a percent sign was printed after the number, otherwise empty."""


# Numbers


_INT = r"\d{1,3}(?:,\d{3})+(?![\d,])|\d{1,12}"
_NUM = r"(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d{1,30}(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?"
_PER = r"[^\W\d_]{1,12}\.?(?:/\s?[^\W\d_]{1,9}(?:\^-?\d|[²³])?){1,3}"
"""Units such as `samples/s`, `kcal/mol/A` and `W/m^2`."""
_NO_NAME = r"(?![\w@.%/-]{0,60}[ ]?[:=])"
"""Rejects a unit that is really the name of the next number, such as `val/acc` in `0.41 val/acc: 0.8`."""
_UNITS = (
    r"ms|s|secs?|seconds?|mins?|minutes?|hours?|hrs?|"
    r"[KMGT]i?B|bytes|[GMT]?FLOPs?|GMac|W|C|px|K|M|G|percent|million|dB(?=/)"
)
_TOKEN = lazy_regex(
    rf"""(?<![\w.@\\/\#$~^+-])(?:
    (?P<date>\d{{4}}[-/]\d{{1,2}}[-/]\d{{1,2}}(?:[T ]\d{{1,2}}:\d\d\S*)?|\d\d/\d\d[ ]\d\d:\d\d\S*)
  | (?P<clock>\d+:\d\d(?::\d\d)?(?:[.,]\d+)?(?![\d.])|\d+[ ]?(?:h|m|min|d|hr)[ ]?,?[ ]?\d+[ ]?(?:m|s|min|sec)\b)
  | (?P<chain>\d+(?:\.\d+){{2,}}\S*|{_NUM}(?:/{_NUM}){{2,}}|\d+[-:~]\d[\d:.-]*|0x[0-9a-fA-F]+)
  | (?P<done>{_INT})\s{{0,6}}(?:/|\bof\b|\bout\ of\b)\s{{0,6}}(?P<total>{_INT})(?!(?!ep(?:och)?s?\b)\w|\.\d|,\d)
  | (?P<number>[-+]?(?:{_NUM}|(?:nan|inf|infinity)(?![\w'])))
    )(?P<unit>
    \s?%(?!\w)|\s?°[CFK]?|{_PER}|[ ]{_PER}{_NO_NAME}
  | \s?(?:{_UNITS})(?![\w=:(@]|[ ][=:])|[^\W\d]\S*|\.[^\W\d]\S*|[ ]?[*×][ ])?""",
    re.VERBOSE | re.IGNORECASE,
)


class Token(Struct, frozen=True):
    """A number in a line, with its position and kind."""

    start: int
    end: int
    kind: str
    text: str
    total: str = ""
    unit: str = ""


def tokens_in(line: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup if match.lastgroup != "unit" else None
        unit = (match["unit"] or "").strip()
        if match["number"] is not None:
            yield Token(match.start(), match.end(), "number", match["number"], unit=unit)
        elif match["done"] is not None:
            yield Token(match.start(), match.end(), "counter", match["done"], match["total"], unit)
        else:
            yield Token(match.start(), match.end(), kind or "other", match[0])


def number_of(text: str) -> float | None:
    """Parse a number, which may contain thousands separators. Return None if the text is not a number."""
    word = text.strip().strip("'\"").replace(",", "")
    percent = word.endswith("%")
    try:
        return float(word[:-1] if percent else word)
    except ValueError:
        return None


# Names


class NameKind(Enum):
    """What kind of number a name refers to."""

    METRIC = auto()
    RATE = auto()
    """A learning rate. It is a metric if metrics are printed beside it, and a setting if it is alone."""
    COORDINATE = auto()
    PHASE = auto()
    """The name consists only of the name of a phase."""
    UNKNOWN = auto()
    OLD = auto()
    """A best, previous or initial value."""
    OTHER = auto()
    """A setting, a time, a count or a size."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


TRAIN_WORDS = _set("train training trn tr learn")
EVAL_WORDS = _set("val valid validation validate validating vali dev eval evaluation evaluating evaluate test testing")
EVAL_WORDS |= _set("predict prediction holdout heldout tst cv inference infer")
PHASE_WORDS = TRAIN_WORDS | EVAL_WORDS
_OLD = _set("best was previous prev old initial init initscore baseline lowest highest former")
_SETTING = _set(
    """decay momentum mom beta betas alpha gamma lambda eps epsilon dropout smoothing warmup interval threshold thresh
    thr patience tolerance tol delta seed seeds epochs workers hidden layers heads vocab arch optimizer scheduler mixup
    weight weights coef coeff coefficient temperature"""
)
_NEVER = _SETTING - _set("epochs") | _set(
    """scale scaler limit time times timing sec secs second seconds ms eta elapsed duration runtime wall memory
    mem gpumem cpumem vram ram
    gib gb mb mib kb target goal counter rank world port pid id ids version throughput speed fps ips sps wps ups tps
    flops flos tflops params param parameters capacity bandwidth gpu gpus cpu cpus cache pavg support instances date
    timestamp day days hour hours minute minutes requires available cuda driver hz watts util utilization decayed"""
)
_SURE = _set("loss mae mse rmse mape err error acc accuracy")
"""A name that ends with one of these words is always a metric, such as `ent_coef_loss` and `speed_rmse`."""
_AIMS = _set("target goal threshold thresh thr tolerance tol limit")
_COUNTED = _set(
    """batch batches sample samples token tokens image images imgs example examples frame frames size sizes count counts
    num number n class classes epochs steps iters layers nodes workers devices items files rows docs sents bsz wpb clip
    range lines data bins trees zeros job jobs worker used free left remaining channel nnzs t total max maximum page
    kimg reserved allocated skipped consumed tokens points features candidates fits positive negative v lines height
    width depth tick maintenance augment trainable ratio hyp ref bias progress percent percentage done trial fold
    attempts length len"""
)
_COORDINATES = {
    **dict.fromkeys(
        ("epoch", "epoches", "ep", "fold", "epoche", "époque", "época", "epoca", "эпоха", "轮", "轮次", "エポック"), 1
    ),
    **dict.fromkeys(
        ("iter", "iteration", "iterations", "it", "itr", "round", "generation", "gen", "tick", "update"), 2
    ),
    **dict.fromkeys(("step", "episode", "trial", "batch"), 3),
    **dict.fromkeys(("timestep", "timesteps", "updates", "globalstep", "frames", "env_steps"), 4),
}
_BESIDE_COORDINATES = PHASE_WORDS | _set(
    "global total num n trainer current cur env optimizer opt learning boosting at the no number"
)
_NEUTRAL = _set(
    "norm gnorm kl entropy fraction advantage adv logps logits margin margins bpd wmape purity lpd elbo objf"
)
_LENGTH_OF = _set("ep episode response completion mean eplen")
_TIMED = _set("batch reader data time iter train")
_UNIT_IN_BRACKETS = lazy_regex(r"\((?:m?s|sec|[GM]i?B|%|[^)]*/[^)]*)\)", re.IGNORECASE)
_RATE = lazy_regex(r"(?:lrs?\d*|lernrate|学习率)$")
_RANKED = lazy_regex(r"[A-Za-z-]{1,12}@\d{1,5}(?:\.\d+)?$")
"""Metrics about the first results of a ranking, such as `P@1` (precision at 1)."""
_QUOTES = lazy_regex(r"[\"'`*]+")
_BRACKETS = lazy_regex(r"[()\[\]{}]+")
_WORK = lazy_regex(
    r"(?:m?s|secs?|it(?:er)?s?|steps?|batch(?:es)?|samples?|ima?ge?s?|tok(?:en)?s?|frames?|[KMG]i?B)/", re.IGNORECASE
)
_BLANKS = lazy_regex(r"[.\s]*\s+")


@lru_cache(maxsize=4096)
def kind_of(name: str) -> NameKind:
    words = name_words(name)
    if not words or (words[-1].isdigit() and len(words) == 1):
        return NameKind.OTHER
    if _is_coordinate(words):
        return NameKind.COORDINATE
    if _OLD.intersection(words):
        return NameKind.OLD
    if _is_other(name, words):
        return NameKind.OTHER
    if _is_rate(words):
        return NameKind.RATE
    if _is_metric(name, words):
        return NameKind.METRIC
    if PHASE_WORDS.issuperset(word.rstrip("0123456789") or word for word in words if word not in ("set", "results")):
        return NameKind.PHASE
    return NameKind.OTHER if _COUNTED.intersection(words) and not _is_f_score(words) else NameKind.UNKNOWN


def _is_coordinate(words: tuple[str, ...]) -> bool:
    coordinates = [word for word in words if word in _COORDINATES]
    if not coordinates or not all(word in _COORDINATES or word in _BESIDE_COORDINATES for word in words):
        return False
    return not (words[-1] == "batch" and len(words) > 1 and "epoch" not in words)


def _is_other(name: str, words: tuple[str, ...]) -> bool:
    if words[-1] in _SURE:
        return not _AIMS.isdisjoint(words)
    if _NEVER.intersection(words) or _UNIT_IN_BRACKETS.search(name) is not None:
        return True
    if words[0] in ("num", "number", "n", "count", "max", "min", "no") and direction_of(name) is Direction.UNKNOWN:
        return True
    return name.endswith("/s") or words in (("lr0",), ("total", "steps"))


def _is_f_score(words: tuple[str, ...]) -> bool:
    """Return whether a name refers to an F-score, precision or recall, such as `SENTS_F`."""
    return len(words) > 1 and words[-1] in ("f", "p", "r")


def _is_rate(words: tuple[str, ...]) -> bool:
    return any(_RATE.match(word) for word in (*words, "".join(words))) or ("learning" in words and "rate" in words)


def _is_metric(name: str, words: tuple[str, ...]) -> bool:
    if "cost" in words and _TIMED.intersection(words):
        return False
    if direction_of(name) is not Direction.UNKNOWN or _NEUTRAL.intersection(words) or _RANKED.match(name):
        return True
    if words[0] in ("mean", "avg", "average") and len(words) > 1:
        return True
    return bool({"len", "length"}.intersection(words) and _LENGTH_OF.intersection(words))


def is_setting(name: str) -> bool:
    """Return whether the numbers printed next to this name are settings."""
    words = name_words(name)
    return bool(_SETTING.intersection(words)) or words[:2] == ("batch", "size") or words[-1:] == ("epochs",)


def rank_of(name: str) -> int:
    """Return how well a coordinate is suited for the x axis. A global step is better than an epoch."""
    words = name_words(name)
    rank = max((_COORDINATES.get(word, 0) for word in words), default=0)
    return 4 if rank == 3 and "global" in words else rank


def phase_in(words: tuple[str, ...]) -> str | None:
    return next((word for word in words if word.rstrip("0123456789") in PHASE_WORDS), None)


def eval_phase(word: str | None) -> bool:
    return word is not None and word.rstrip("0123456789") in EVAL_WORDS


@lru_cache(maxsize=4096)
def cleaned(name: str) -> str:
    """Return a printed name as one word. For example, `Val. Loss` becomes `Val_Loss`."""
    if name.count("(") != name.count(")") or name.count("[") != name.count("]"):
        name = _BRACKETS.sub(" ", name)
    inner = _BLANKS.sub("_", _QUOTES.sub("", name).replace("'s ", " ").strip(" .:=-_>#\t"))
    return inner[:64]


def is_physical(unit: str) -> bool:
    """Return whether a unit is that of a metric, like `eV/A`, and not that of a speed, like `samples/s`."""
    return unit.startswith("°") or ("/" in unit and _WORK.match(unit) is None)


# Lines


UNDECODED = "\ufffd"
"""The character that replaces bytes that cannot be decoded."""


@dataclass(slots=True)
class NamedNumber:
    name: str
    value: float
    signed: bool = True
    whole: bool = False
    """Whether the number was printed without a decimal point.

    If its name is unknown, such a number is taken for a count.
    """
    phase: str | None = None
    unit: str = ""


@dataclass(slots=True)
class Counter:
    """A counter such as `i/n`, or a percentage."""

    words: str
    done: float
    total: float
    bar: bool = False
    opens: bool = False
    """Whether the counter is at the beginning of the line."""
    closes: bool = False
    """Whether the counter is in brackets at the end of the line and follows a loss."""
    percent: bool = False
    phase: str | None = None
    """The phase that was printed before the counter."""


@dataclass(slots=True)
class LineFindings:
    """All parts that were found in one line."""

    named: list[NamedNumber] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    coordinates: list[tuple[int, float]] = field(default_factory=list)
    phase: str | None = None
    structured: bool = False

    def coordinate(self, name: str, value: float) -> None:
        self.coordinates.append((rank_of(name), value))

    def step(self) -> float | None:
        return max(self.coordinates, key=lambda coordinate: coordinate[0])[1] if self.coordinates else None

    def judged(self, step: float | None, continues: bool = False) -> list[MetricReading]:
        """Return the metrics among the named numbers.

        A number with an unknown name is a metric if the line also contains metrics or a step. A learning rate that is
        alone is a metric if training `continues`.
        """
        kinds = [kind_of(named.name) for named in self.named]
        if not self.coordinates and sum(is_setting(named.name) for named in self.named) >= (
            1 if NameKind.METRIC not in kinds else 2
        ):
            return []
        company = self.structured or NameKind.METRIC in kinds or bool(self.coordinates)
        readings: dict[str, MetricReading] = {}
        for named, kind in zip(self.named, kinds, strict=True):
            rate = kind is NameKind.RATE and (company or continues)
            if kind is NameKind.METRIC or rate or (company and self._counts(named, kind)):
                name = _in_phase(named, named.phase or (self.phase if eval_phase(self.phase) else None), kind)
                if name.isprintable() and UNDECODED not in name:
                    readings.setdefault(name, MetricReading(name, named.value, step, unit=named.unit))
        return list(readings.values())

    def _counts(self, named: NamedNumber, kind: NameKind) -> bool:
        return named.signed and not named.whole and kind in (NameKind.UNKNOWN, NameKind.PHASE)


def _in_phase(named: NamedNumber, phase: str | None, kind: NameKind) -> str:
    name = cleaned(named.name)
    if phase is None or kind is NameKind.RATE or phase_in(name_words(named.name)) is not None:
        return name
    return f"{phase}_{name}"
