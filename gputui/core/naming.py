"""Short names for jobs: of sixty commands of one sweep, a reader wants the words in which they differ."""

from __future__ import annotations

from collections.abc import Iterable

from .job import Job

LONGEST = 200
"""Words of a command that are looked at; what differs further on is not worth a name."""


class Pattern:
    """What the commands of one group have in common; learns one command after the other."""

    __slots__ = ("_first", "_head", "_same", "_tail", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: list[str] = []
        self._same: list[bool] | None = []
        """Per word: alike in all; None: the commands differ in length."""
        self._head = self._tail = 0
        """So many words at both ends are alike, whatever the length."""

    def learn(self, command: str) -> bool:
        """True if names given so far may have changed."""
        words = command.split(maxsplit=LONGEST)[:LONGEST]
        self.count += 1
        if self.count == 1:
            self._first, self._same = words, [True] * len(words)
            self._head = self._tail = len(words)
            return True
        if words == self._first:
            return self.count == 2
        before = (self._head, self._tail, self._same)
        self._head = _alike(self._first, words, self._head)
        self._tail = _alike(self._first[::-1], words[::-1], self._tail)
        if self._same is not None:
            length = len(words) == len(self._first)
            self._same = list(map(_both, self._same, self._first, words)) if length else None
        return self.count == 2 or before != (self._head, self._tail, self._same)

    @property
    def common(self) -> str:
        """The words before the first that differs: the title over a list of names."""
        return " ".join(self._first[: self._head])

    def name(self, command: str) -> str:
        """The words of this command that tell it from the others; all of it when nothing does."""
        words = command.split(maxsplit=LONGEST)[:LONGEST]
        if self.count < 2:
            return " ".join(words)
        if self._same is not None and len(words) == len(self._same):
            differing = [number for number, same in enumerate(self._same) if not same]
        else:
            end = len(words) - min(self._tail, max(0, len(words) - self._head))
            differing = list(range(min(self._head, len(words)), end))
        return " ".join(_told(words, differing)) or " ".join(words)


def _both(same: bool, first: str, word: str) -> bool:
    return same and first == word


def _alike(first: list[str], other: list[str], most: int) -> int:
    limit = min(most, len(other))
    return next((number for number in range(limit) if first[number] != other[number]), limit)


def _told(words: list[str], differing: list[int]) -> Iterable[str]:
    """`--lr 0.1` and `--lr=0.1` are both told as `lr=0.1`."""
    for number in differing:
        word, before = words[number], words[number - 1] if number else ""
        if _is_option(word):
            if number + 1 not in differing or not _is_value_of(word, words[number + 1]):
                yield word.lstrip("-") if word.startswith("--") else word
        elif _is_value_of(before, word):
            yield f"{before.lstrip('-')}={word}"
        else:
            yield word


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _is_number(word)


def _is_value_of(option: str, word: str) -> bool:
    """What is quoted after an option is text of its own, as in `python -c "…"`."""
    return _is_option(option) and "=" not in option and not _is_option(word) and word[0] not in "\"'"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


class Names:
    """The short name of every job, by its group."""

    def __init__(self) -> None:
        self._patterns: dict[str, Pattern] = {}
        self._learnt: dict[int, str] = {}

    def learn(self, job: Job) -> bool:
        """True if the names of its group may have changed."""
        if self._learnt.get(job.id) == job.spec.command:
            return False
        self._learnt[job.id] = job.spec.command
        return self._patterns.setdefault(job.spec.group, Pattern()).learn(job.spec.command)

    def of(self, job: Job) -> str:
        if job.spec.name:
            return job.spec.name
        if job.spec.params:
            return " ".join(f"{key}={value}" for key, value in job.spec.params.items())
        pattern = self._patterns.get(job.spec.group)
        return pattern.name(job.spec.command) if pattern is not None else job.spec.command

    def common(self) -> str:
        """What the commands have in common, when all are of one group."""
        large = [pattern for pattern in self._patterns.values() if pattern.count > 1]
        return large[0].common if len(large) == 1 else ""
