"""Finding a text in a file of any size, a piece at a time, so that whoever searches can do other things in between.

Literal. Upper and lower case are told apart only when the text that is looked for has upper case in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

__all__ = ["PIECE", "Needle", "Search", "backward", "forward"]

PIECE = 1 << 17
"""Larger ones cost twice the time: their memory is given back and taken anew for each."""
Read = Callable[[int, int], bytes]
"""From an offset and a length to the bytes there."""
Search = Generator[None, None, int | None]
"""Yields after each piece; returns the offset of the match, None when there is none."""


@dataclass(frozen=True, slots=True)
class Needle:
    """What is looked for."""

    text: str

    @property
    def exact(self) -> bool:
        return self.text != self.text.lower()

    @property
    def raw(self) -> bytes:
        # A surrogate cannot be typed in a terminal, but may be pasted.
        return self.text.encode("utf-8", "replace")

    def same_case(self, data: bytes) -> bytes:
        return data if self.exact else data.lower()

    def is_in(self, text: str) -> bool:
        return self.text in (text if self.exact else text.lower())

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where it is in a line that can be seen."""
        lowered = text if self.exact else text.lower()
        if not self.text or len(lowered) != len(text):
            return []  # a few letters change their length with their case: no places can be given
        hits = []
        start = lowered.find(self.text)
        while start >= 0:
            hits.append((start, start + len(self.text)))
            start = lowered.find(self.text, start + len(self.text))
        return hits


def forward(needle: Needle, read: Read, start: int, stop: int) -> Search:
    """The first match that begins at `start` or after it, and ends before `stop`."""
    wanted = needle.raw
    overlap = len(wanted) - 1
    while start + len(wanted) <= stop:
        data = read(start, min(PIECE + overlap, stop - start))
        place = needle.same_case(data).find(wanted)
        if place >= 0:
            return start + place
        start += PIECE
        yield
    return None


def backward(needle: Needle, read: Read, start: int, stop: int) -> Search:
    """The last match that begins at `start` or after it, and ends before `stop`."""
    wanted = needle.raw
    overlap = len(wanted) - 1
    while stop - start >= len(wanted):
        piece = max(start, stop - PIECE - overlap)
        place = needle.same_case(read(piece, stop - piece)).rfind(wanted)
        if place >= 0:
            return piece + place
        stop = piece + overlap if piece > start else start
        yield
    return None
