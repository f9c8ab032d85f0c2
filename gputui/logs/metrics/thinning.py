"""Which of very many lines are read: all that are of a rare kind, an even share of those that say the same again.

A line of validation among a thousand of training is read, and so is the newest of each kind. Two lines are of one kind
when they differ in nothing but their digits. Knows no names.
"""

from __future__ import annotations

from heapq import merge

__all__ = ["thinned"]

_ALIKE = b"0123456789.,+-eE \t#=>" + bytes(range(128, 256))
"""What numbers and bars are made of."""
SHAPE = 60
"""Bytes of a line that tell its kind."""


def thinned(lines: list[bytes], most: int, always: bytes) -> list[bytes]:
    """At most so many of them, in their order, and all with a mark that is never passed over."""
    if len(lines) <= most:
        return lines
    kinds: dict[bytes, list[int]] = {}
    marked: list[int] = []
    for number, line in enumerate(lines):
        if always in line:
            marked.append(number)
        else:
            kinds.setdefault(line.translate(None, _ALIKE)[:SHAPE], []).append(number)
    return [lines[number] for number in merge(marked, sorted(_shared(list(kinds.values()), most)))]


def _shared(kinds: list[list[int]], most: int) -> list[int]:
    """The rarest first; what they leave is shared by the others, each with its newest line."""
    kinds.sort(key=lambda numbers: (len(numbers), -numbers[-1]))
    chosen: list[int] = []
    for place, numbers in enumerate(kinds):
        share = (most - len(chosen)) // (len(kinds) - place)
        if share <= 0:
            share = 1 if len(chosen) < most else 0
        chosen += _evenly(numbers, share)
    return chosen


def _evenly(numbers: list[int], share: int) -> list[int]:
    if share >= len(numbers):
        return numbers
    return [numbers[len(numbers) - 1 - round(step * len(numbers) / share)] for step in range(share)]
