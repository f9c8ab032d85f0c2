"""A log as a sequence of lines: which of them are on the screen, and searching in them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .ansi import Line, decoded
from .line_index import FileChange, LineIndex

# ---- One stream of an attempt, or both with ERR below OUT, as one sequence of lines to scroll through ----


SPAN = 1 << 42
"""Keys of one section; lines are numbered to both sides of its middle, its heading comes first."""
TOO_FAR_BEHIND = 1 << 26


@dataclass(frozen=True)
class Section:
    """One file; `heading` is the name of its stream when there is another one to tell it from."""

    index: LineIndex
    heading: str | None = None

    @property
    def rows(self) -> int:
        return self.headed + self.index.end - self.index.first

    @property
    def headed(self) -> int:
        return 1 if self.heading is not None else 0


class Document:
    """Rows `0 … rows - 1`."""

    def __init__(self, streams: list[tuple[str, Path]]) -> None:
        several = len(streams) > 1
        self.sections = [Section(LineIndex(path), name if several else None) for name, path in streams]

    @property
    def rows(self) -> int:
        return sum(section.rows for section in self.sections)

    @property
    def empty(self) -> bool:
        """Has nothing been written to any of its files?"""
        return all(section.index.end == section.index.first for section in self.sections)

    @property
    def complete(self) -> bool:
        return all(section.index.complete for section in self.sections)

    def look(self, *, at_end: bool) -> FileChange:
        """Takes in what was written; whoever watches the end must not wait for what lies before it."""
        changes = [section.index.look() for section in self.sections]
        for section in self.sections:
            if at_end and section.index.unread > TOO_FAR_BEHIND:
                section.index.jump_to_end()
                changes.append(FileChange.ANEW)
        return max(changes, key=lambda change: change.value, default=FileChange.NOTHING)

    def extend(self, seconds: float) -> bool:
        """Makes more lines known towards the beginning, those at the end first; True when all are."""
        return all(section.index.extend(seconds) for section in reversed(self.sections))

    def key(self, row: int) -> int:
        for place, section in enumerate(self.sections):
            if row < section.rows:
                in_file = row - section.headed
                return place * SPAN if in_file < 0 else self._key(place, section.index.first + in_file)
            row -= section.rows
        return len(self.sections) * SPAN

    def row(self, key: int) -> int:
        """Of a line that is not known (any more), the nearest that is."""
        place, line = self._place(key)
        above = sum(section.rows for section in self.sections[:place])
        if line is None or place == len(self.sections):
            return above
        index = self.sections[place].index
        return above + self.sections[place].headed + min(max(line, index.first), index.end) - index.first

    def heading(self, key: int) -> str | None:
        place, line = self._place(key)
        return self.sections[place].heading if line is None else None

    def line(self, key: int) -> Line:
        place, number = self._place(key)
        if number is None:
            return Line(())
        raw = self.sections[place].index.line(number)
        return decoded(raw.shown, raw.size)

    def unsettled(self) -> set[int]:
        """Keys of the lines in which the next look, or knowing more of the beginning, may find other text."""
        last = {self._key(place, max(0, section.index.end - 1)) for place, section in enumerate(self.sections)}
        cut = {
            self._key(place, section.index.first)
            for place, section in enumerate(self.sections)
            if not section.index.complete
        }
        return last | cut

    def offset(self, key: int) -> tuple[int, int]:
        """The section of a line and where in its file it begins."""
        place, line = self._place(key)
        if place == len(self.sections):
            return place - 1, self.sections[-1].index.size
        index = self.sections[place].index
        return place, 0 if line is None else index.start(line)

    def key_at(self, place: int, offset: int) -> int:
        """Of the line that has this byte, which must be known."""
        return self._key(place, self.sections[place].index.line_at(offset))

    def close(self) -> None:
        for section in self.sections:
            section.index.close()

    def _key(self, place: int, line: int) -> int:
        return place * SPAN + SPAN // 2 + line

    def _place(self, key: int) -> tuple[int, int | None]:
        """Section and number of a line; None for a heading and for the end of all."""
        place, rest = divmod(key, SPAN)
        return place, rest - SPAN // 2 if rest else None


# ---- Which lines stand on a screen of some height, and where a movement leads ----


class Top(NamedTuple):
    """What stands in the first row of the screen: a part (0, when it is not wrapped) of a line."""

    row: int
    part: int = 0


class LineLayout:
    """`rows` lines on a screen that is `height` high; `parts` tells how many rows a line takes there."""

    def __init__(self, rows: int, height: int, parts: Callable[[int], int]) -> None:
        self._rows = rows
        self._height = max(1, height)
        self._parts = parts

    def last_top(self) -> Top:
        """The last line stands at the bottom, or everything fits."""
        rows_left = self._height
        for row in range(self._rows - 1, -1, -1):
            rows_left -= self._parts(row)
            if rows_left <= 0:
                return Top(row, -rows_left)
        return Top(0)

    def visible(self, top: Top) -> Iterator[Top]:
        """What stands in each row of the screen from `top` on; it ends early when the lines do."""
        rows_left = self._height
        row, part = top
        while rows_left > 0 and row < self._rows:
            for shown_part in range(part, self._parts(row)):
                if rows_left == 0:
                    return
                yield Top(row, shown_part)
                rows_left -= 1
            row, part = row + 1, 0

    def moved(self, top: Top, by: int) -> Top:
        """Down by so many rows of the screen, or up, but not past either end."""
        place = self._down(top, by) if by > 0 else self._up(top, -by)
        return max(Top(0), min(place, self.last_top()))

    def _down(self, top: Top, by: int) -> Top:
        row, part = top
        while row < self._rows and part + by >= (parts := self._parts(row)):
            by -= parts - part
            row, part = row + 1, 0
        return Top(row, part + by)

    def _up(self, top: Top, by: int) -> Top:
        row, part = top
        while by > part and row > 0:
            by -= part + 1
            row -= 1
            part = self._parts(row) - 1
        return Top(row, max(0, part - by))


# ---- search ----


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


# ---- The next line that shows a text, in a document of one or two files ----


COUNTING = 0.01
"""Seconds of counting lines between two turns."""

Finding = Generator[None, None, int | None]
"""Yields between short turns of work; returns the key of the line, None when there is none."""


def find_below(document: Document, needle: Needle, key: int) -> Finding:
    """The first line with the needle, from the line `key` on."""
    first, offset = document.offset(key)
    for place in range(first, len(document.sections)):
        index = document.sections[place].index
        stop = index.size - index.unread
        while (hit := (yield from forward(needle, index.read, offset, stop))) is not None:
            at_line = yield from _line_at(document, place, hit)
            if _shows(document, needle, at_line):
                return at_line
            offset = max(hit + 1, document.offset(at_line + 1)[1])
        offset = 0
    return None


def find_above(document: Document, needle: Needle, key: int) -> Finding:
    """The last line with the needle, above the line `key`."""
    last, offset = document.offset(key)
    for place in range(last, -1, -1):
        index = document.sections[place].index
        stop = offset if place == last else index.size - index.unread
        while (hit := (yield from _last(needle, document, place, stop))) is not None:
            at_line = yield from _line_at(document, place, hit)
            if _shows(document, needle, at_line):
                return at_line
            stop = min(hit, document.offset(at_line)[1])
    return None


def find_nearest(document: Document, needle: Needle, key: int) -> Finding:
    """From the line `key` on, else above it."""
    below = yield from find_below(document, needle, key)
    return below if below is not None else (yield from find_above(document, needle, key))


def all_matches(document: Document, needle: Needle, most: int) -> Generator[None, None, list[int]]:
    """The keys of the lines with the needle from the first on, at most so many; lines that come later have none."""
    yield from all_known(document)
    keys: list[int] = []
    key = document.key(0) if document.rows else None
    while key is not None and len(keys) < most:
        key = yield from find_below(document, needle, key)
        if key is not None:
            keys.append(key)
            key = key + 1 if document.row(key) + 1 < document.rows else None
    return keys


def all_known(document: Document) -> Generator[None, None, None]:
    """Until all lines have been counted."""
    while not document.extend(COUNTING):
        yield


def _last(needle: Needle, document: Document, place: int, stop: int) -> Search:
    return backward(needle, document.sections[place].index.read, 0, stop)


def _line_at(document: Document, place: int, offset: int) -> Generator[None, None, int]:
    """Lines have numbers only where they have been counted."""
    index = document.sections[place].index
    yield
    while index.begin > offset:
        index.extend(COUNTING)
        yield
    return document.key_at(place, offset)


def _shows(document: Document, needle: Needle, key: int) -> bool:
    line = document.line(key)
    return needle.is_in(line.text) or line.hidden > 0
