"""What a name is the name of, by its words: a result, a coordinate, a setting, a time. Knows no lines."""

from __future__ import annotations

import re
from enum import Enum, auto
from functools import lru_cache

from gputui.core.metric_names import direction_of, words_of
from gputui.core.results import Direction

__all__ = ["NameKind", "cleaned", "eval_phase", "is_setting", "kind_of", "phase_in", "rank_of"]


class NameKind(Enum):
    """What a number under this name would be."""

    METRIC = auto()
    RATE = auto()
    """Of learning: a setting where it stands alone, a result beside others."""
    COORDINATE = auto()
    PHASE = auto()
    """The name says only in which phase it was measured."""
    UNKNOWN = auto()
    OLD = auto()
    """A best, a former or a first value."""
    OTHER = auto()
    """A setting, a time, a count, a size."""


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
_UNIT_IN_BRACKETS = re.compile(r"\((?:m?s|sec|[GM]i?B|%|[^)]*/[^)]*)\)", re.IGNORECASE)
_RATE = re.compile(r"(?:lrs?\d*|lernrate|学习率)$")
_RANKED = re.compile(r"[A-Za-z-]{1,12}@\d{1,5}(?:\.\d+)?$")
"""`P@1`: what is right among the first so many."""
_QUOTES = re.compile(r"[\"'`*]+")
_BLANKS = re.compile(r"[.\s]*\s+")


@lru_cache(maxsize=4096)
def kind_of(name: str) -> NameKind:
    words = words_of(name)
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
    return NameKind.OTHER if _COUNTED.intersection(words) else NameKind.UNKNOWN


def _is_coordinate(words: tuple[str, ...]) -> bool:
    coordinates = [word for word in words if word in _COORDINATES]
    if not coordinates or not all(word in _COORDINATES or word in _BESIDE_COORDINATES for word in words):
        return False
    return not (words[-1] == "batch" and len(words) > 1 and "epoch" not in words)


def _is_other(name: str, words: tuple[str, ...]) -> bool:
    if _NEVER.intersection(words) or _UNIT_IN_BRACKETS.search(name) is not None:
        return True
    if words[0] in ("num", "number", "n", "count", "max", "min", "no") and direction_of(name) is Direction.UNKNOWN:
        return True
    return name.endswith("/s") or words in (("lr0",), ("total", "steps"))


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
    """Company of this kind makes a setting of everything beside it."""
    words = words_of(name)
    return bool(_SETTING.intersection(words)) or words[:2] == ("batch", "size") or words[-1:] == ("epochs",)


def rank_of(name: str) -> int:
    """How good a coordinate is for the x axis: a step that counts on beats an epoch."""
    words = words_of(name)
    rank = max((_COORDINATES.get(word, 0) for word in words), default=0)
    return 4 if rank == 3 and "global" in words else rank


def phase_in(words: tuple[str, ...]) -> str | None:
    return next((word for word in words if word.rstrip("0123456789") in PHASE_WORDS), None)


def eval_phase(word: str | None) -> bool:
    return word is not None and word.rstrip("0123456789") in EVAL_WORDS


@lru_cache(maxsize=4096)
def cleaned(name: str) -> str:
    """As printed, on one word: `Val. Loss` is `Val_Loss`."""
    inner = _BLANKS.sub("_", _QUOTES.sub("", name).replace("'s ", " ").strip(" .:=-_>#\t"))
    return inner[:64]
