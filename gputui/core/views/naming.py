"""Short names for jobs: of sixty commands of one sweep, a reader wants the words in which they differ."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 200
"""Words of a command that are looked at; what differs further on is not worth a name."""


class Pattern:
    """What the commands of one group have in common; learns and forgets one command after the other."""

    __slots__ = ("_differing", "_first", "_heads", "_like_first", "_of_other_length", "_tails", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: list[str] = []
        self._like_first = 0
        """Commands that are just the one that all others are compared with."""
        self._differing: list[int] = []
        """Per word of the first: in how many commands of its length it is another."""
        self._of_other_length = 0
        self._heads: dict[int, int] = {}
        self._tails: dict[int, int] = {}
        """How many commands are like the first in just so many words at this end."""

    def learn(self, command: str) -> bool:
        """True if names given so far may have changed."""
        words = _words(command)
        self.count += 1
        if self.count == 1:
            self._first, self._differing = words, [0] * len(words)
        changed = self._compare(words, 1)
        return changed or self.count <= 2

    def forget(self, command: str) -> bool:
        """The same for a command that is no longer there."""
        self.count -= 1
        changed = self._compare(_words(command), -1)
        return changed or self.count < 2

    @property
    def stale(self) -> bool:
        """The command that all were compared with is gone: only learning the rest again tells what they share."""
        return self.count > 0 and self._like_first == 0

    def _compare(self, words: list[str], by: int) -> bool:
        """Counts in what this command differs from the first; True if that changes what all have in common."""
        first = self._first
        if words == first:
            self._like_first += by
            return False
        changed = _count(self._heads, _alike(first, words), by)
        changed |= _count(self._tails, _alike(first[::-1], words[::-1]), by)
        if len(words) != len(first):
            self._of_other_length += by
            return changed or self._of_other_length <= 1
        for number, (word, other) in enumerate(zip(first, words, strict=True)):
            if word != other:
                self._differing[number] += by
                changed |= self._differing[number] <= 1
        return changed

    @property
    def _head(self) -> int:
        return min(self._heads, default=len(self._first))

    @property
    def _tail(self) -> int:
        return min(self._tails, default=len(self._first))

    @property
    def common(self) -> str:
        """The words before the first that differs: the title over a list of names."""
        return " ".join(self._first[: self._head])

    @property
    def differs(self) -> bool:
        """Not all commands are the first one."""
        return self.count > self._like_first

    def name(self, command: str) -> str:
        """The words of this command that tell it from the others; all of it when nothing does."""
        words = _words(command)
        if self.count < 2:
            return " ".join(words)
        if not self._of_other_length and len(words) == len(self._first):
            differing = [number for number, others in enumerate(self._differing) if others]
        else:
            end = len(words) - min(self._tail, max(0, len(words) - self._head))
            differing = list(range(min(self._head, len(words)), end))
        return " ".join(_told(words, differing)) or " ".join(words)


def _words(command: str) -> list[str]:
    return command.split(maxsplit=LONGEST)[:LONGEST]


def _alike(first: list[str], other: list[str]) -> int:
    """How many words at the beginning are the same."""
    limit = min(len(first), len(other))
    return next((number for number in range(limit) if first[number] != other[number]), limit)


def _count(counts: dict[int, int], key: int, by: int) -> bool:
    """True if the key came or went."""
    counts[key] = counts.get(key, 0) + by
    if not counts[key]:
        del counts[key]
    return counts.get(key, 0) == max(0, by)


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
