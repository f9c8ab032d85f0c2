"""How far the job is: counters of the training loop, epochs folded with the part of the present one."""

from __future__ import annotations

import re

from msgspec import Struct

from .found import Counter, LineFindings
from .names import eval_phase

__all__ = ["Course"]

_NO_PROGRESS = re.compile(
    r"patience|fold\b|download|loading|shards|map\b|tokeniz|sanity|valid|eval|test|infer|predict|channel|cache|hits|page|"
    r"correct|counter|early|rank|worker|gpu|mem|examples|extract|download|fetch|generat|resolv|cv\b|collect|preproc|filter|"
    r"sampling|build|copy|upload|unpack|[KMG]i?B\b|B/s|tok/s|images|correct|saved|layers|accuracy|model|files|linking|compil|install",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"(?:epochs?|epoche|époque|[ée]poca|эпоха|轮|エポック|에포크|\bep)\W{0,6}$", re.IGNORECASE)
_STEP = re.compile(
    r"(?:steps?|\bitr?|iter\w*|updates?|episodes?|round|timesteps?|trials?|generation)(?:\(train\))?\W{0,6}$",
    re.IGNORECASE,
)
_NOUN = re.compile(r"\s*(?:steps?|iter(?:ation)?s?|updates?|episodes?|rounds?|timesteps?)$", re.IGNORECASE)
"""`4200 of 10000 steps`"""
_TRAINS = re.compile(r"(?:.*\bINFO\b)?\W*train\w*\W*$", re.IGNORECASE)
_BATCH = re.compile(r"\bbatch\s?[:=]\s?$", re.IGNORECASE)
_RANK = re.compile(r"\s*\(\|")
_PART = re.compile(r"(?:batch\w*|(?:epoch|train)\W*\d+\W*|\][\s\[(]*)$|\A\W*\|\W*batch", re.IGNORECASE)


class Course(Struct):
    """The place of a job on its way, as its counters told it."""

    epoch: float | None = None
    epochs: float | None = None
    from_zero: bool = False
    job: float | None = None
    """Told by a counter of the whole job."""
    part: float | None = None
    """Of the present epoch."""

    @property
    def progress(self) -> float | None:
        if self.job is not None:
            return self.job
        if self.epochs and self.epoch is not None:
            part = 1.0 if self.part is None else self.part
            return min(1.0, max(0.0, (self.epoch - (0 if self.from_zero else 1) + part) / self.epochs))
        return self.part

    def take(self, findings: LineFindings) -> None:
        known_epoch = any(rank == 1 for rank, _ in findings.coordinates)
        counters = [counter for counter in findings.counters if _is_progress(counter, known_epoch)]
        for number, counter in enumerate(counters):
            before = counter.words.partition("|")[0] if not counter.bar else counter.words
            doubled = number == 0 and _is_doubled(counters, before) and not _STEP.search(before)
            if _EPOCH.search(before) or doubled:
                self._epoch(counter, finer=len(counters) > number + 1)
                known_epoch = True
            else:
                self._other(counter, before, known_epoch)

    def _epoch(self, counter: Counter, finer: bool) -> None:
        if counter.bar:
            self._ended_epochs(counter)
            return
        if counter.done != self.epoch:
            self.part = None
        self.from_zero = self.from_zero or counter.done == 0
        self.epoch, self.epochs = counter.done, counter.total
        if not finer and self.job is not None and self.job < 0:
            self.job = None

    def _ended_epochs(self, counter: Counter) -> None:
        """A bar of epochs counts those that have ended; a bar below it may tell how far the next one is."""
        if counter.done + 1 != self.epoch:
            self.part = 0.0
        self.epoch, self.epochs = counter.done + 1, counter.total

    def _other(self, counter: Counter, before: str, known_epoch: bool) -> None:
        fraction = counter.done / counter.total
        if known_epoch:
            self.part = fraction
        elif _STEP.search(before) or _NOUN.match(counter.words.rpartition("|")[2]):
            self.job = fraction
        elif counter.closes or _BATCH.search(before):
            self.part = fraction
        elif counter.opens or counter.bar or _TRAINS.match(before):
            if self.epochs:
                self.part = fraction
            else:
                self.job = fraction
        elif counter.words.partition("|")[0].rstrip().endswith(("[", "(")) and _PART.search(before):
            self.part = fraction


def _is_doubled(counters: list[Counter], before: str) -> bool:
    """`[12/300][120/1251]`: the first of two counts epochs."""
    if len(counters) == 1:
        return False
    return counters[0].opens or (counters[1].words.startswith("][") and _TRAINS.match(before) is not None)


def _is_progress(counter: Counter, known_epoch: bool) -> bool:
    """`(0/4) Epoch 3` is a rank."""
    is_rank = counter.opens and known_epoch and _RANK.match(counter.words) is not None
    return not is_rank and not eval_phase(counter.phase) and _NO_PROGRESS.search(counter.words) is None
