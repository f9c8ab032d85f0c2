"""A log as a sequence of lines, its layout on the screen, and text search."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .ansi import Line, decoded
from .line_index import FileChange, LineIndex

SPAN = 1 << 42
"""Number of keys reserved for each section.

The first key is the key of the heading. The keys of the lines are around the middle of the range.
"""
TOO_FAR_BEHIND = 1 << 26


@dataclass(frozen=True)
class Section:
    """One file of a document. `heading` is the name of its stream, or None if the document has only one."""

    index: LineIndex
    heading: str | None = None

    @property
    def rows(self) -> int:
        return self.headed + self.index.end - self.index.first

    @property
    def headed(self) -> int:
        return 1 if self.heading is not None else 0


class Document:
    """The output of an attempt as rows `0 … rows - 1`. It consists of one stream, or of OUT followed by ERR.

    Row numbers may change, but the key of a line is permanent.
    """

    def __init__(self, streams: list[tuple[str, Path]]) -> None:
        several = len(streams) > 1
        self.sections = [Section(LineIndex(path), name if several else None) for name, path in streams]

    @property
    def rows(self) -> int:
        return sum(section.rows for section in self.sections)

    @property
    def empty(self) -> bool:
        """Whether nothing has been written to any of the files."""
        return all(section.index.end == section.index.first for section in self.sections)

    @property
    def complete(self) -> bool:
        return all(section.index.complete for section in self.sections)

    def look(self, *, at_end: bool) -> FileChange:
        """Read what was written since the last look.

        With `at_end`, new output is skipped if counting its lines would take too long.
        """
        changes = [section.index.look() for section in self.sections]
        for section in self.sections:
            if at_end and section.index.unread > TOO_FAR_BEHIND:
                section.index.jump_to_end()
                changes.append(FileChange.ANEW)
        return max(changes, key=lambda change: change.value, default=FileChange.NOTHING)

    def extend(self, seconds: float) -> bool:
        """Count more lines towards the beginning of the files. Return whether all lines are known."""
        return all(section.index.extend(seconds) for section in reversed(self.sections))

    def key(self, row: int) -> int:
        for place, section in enumerate(self.sections):
            if row < section.rows:
                in_file = row - section.headed
                return place * SPAN if in_file < 0 else self._key(place, section.index.first + in_file)
            row -= section.rows
        return len(self.sections) * SPAN

    def row(self, key: int) -> int:
        """Return the row of a line, or of the nearest known line if the line is unknown."""
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
        """Return the keys of lines whose text may still change."""
        last = {self._key(place, max(0, section.index.end - 1)) for place, section in enumerate(self.sections)}
        cut = {
            self._key(place, section.index.first)
            for place, section in enumerate(self.sections)
            if not section.index.complete
        }
        return last | cut

    def offset(self, key: int) -> tuple[int, int]:
        """Return the section of a line, and the offset of the line in that section's file."""
        place, line = self._place(key)
        if place == len(self.sections):
            return place - 1, self.sections[-1].index.size
        index = self.sections[place].index
        return place, 0 if line is None else index.start(line)

    def key_at(self, place: int, offset: int) -> int:
        """Return the key of the line that contains the byte at an offset. The line must be known."""
        return self._key(place, self.sections[place].index.line_at(offset))

    def close(self) -> None:
        for section in self.sections:
            section.index.close()

    def _key(self, place: int, line: int) -> int:
        return place * SPAN + SPAN // 2 + line

    def _place(self, key: int) -> tuple[int, int | None]:
        """Return the section and the number of a line.

        The number is None for a heading and for the end of the document.
        """
        place, rest = divmod(key, SPAN)
        return place, rest - SPAN // 2 if rest else None


# Layout


class Top(NamedTuple):
    """The first row on the screen: a line or, if the line is wrapped, a part of the line."""

    row: int
    part: int = 0


class LineLayout:
    """The layout of `rows` lines on a screen with `height` rows.

    `parts` returns how many screen rows a line needs.
    """

    def __init__(self, rows: int, height: int, parts: Callable[[int], int]) -> None:
        self._rows = rows
        self._height = max(1, height)
        self._parts = parts

    def last_top(self) -> Top:
        """Return the top at which the last line is at the bottom of the screen.

        Return the first line if all lines fit.
        """
        rows_left = self._height
        for row in range(self._rows - 1, -1, -1):
            rows_left -= self._parts(row)
            if rows_left <= 0:
                return Top(row, -rows_left)
        return Top(0)

    def visible(self, top: Top) -> Iterator[Top]:
        """Yield the line and part shown in each row of the screen, starting at `top`."""
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
        """Return the top after scrolling down (`by` > 0) or up. The result is never past either end."""
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


# Search


PIECE = 1 << 17
"""Number of bytes read in one step of a search.

Larger pieces take twice as long because each needs a new memory allocation.
"""
Read = Callable[[int, int], bytes]
"""A function that reads a number of bytes at an offset."""
Search = Generator[None, None, int | None]
"""A search. It yields after each piece of the file and returns the offset of the match, or None if there is none."""


@dataclass(frozen=True, slots=True)
class Needle:
    """The text to search for. The search is case-sensitive if the text contains an upper-case letter."""

    text: str

    @property
    def exact(self) -> bool:
        return self.text != self.text.lower()

    @property
    def raw(self) -> bytes:
        # Pasted text may contain a surrogate.
        return self.text.encode("utf-8", "replace")

    def same_case(self, data: bytes) -> bytes:
        return data if self.exact else data.lower()

    def is_in(self, text: str) -> bool:
        return self.text in (text if self.exact else text.lower())

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the positions of the needle in a line."""
        lowered = text if self.exact else text.lower()
        if not self.text or len(lowered) != len(text):
            return []  # lowercasing has changed the length, which happens with a few letters
        hits = []
        start = lowered.find(self.text)
        while start >= 0:
            hits.append((start, start + len(self.text)))
            start = lowered.find(self.text, start + len(self.text))
        return hits


def forward(needle: Needle, read: Read, start: int, stop: int) -> Search:
    """Search for the first match between `start` and `stop`."""
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
    """Search for the last match between `start` and `stop`."""
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


COUNTING = 0.01
"""Seconds for which lines are counted before the search yields."""

Finding = Generator[None, None, int | None]
"""A search that yields between short steps and returns the key of the matching line, or None if there is none."""


def find_below(document: Document, needle: Needle, key: int) -> Finding:
    """Search for the first line that contains the needle, starting at the line `key`."""
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
    """Search for the last line that contains the needle above the line `key`."""
    last, offset = document.offset(key)
    for place in range(last, -1, -1):
        index = document.sections[place].index
        stop = offset if place == last else index.size - index.unread
        while (hit := (yield from backward(needle, index.read, 0, stop))) is not None:
            at_line = yield from _line_at(document, place, hit)
            if _shows(document, needle, at_line):
                return at_line
            stop = min(hit, document.offset(at_line)[1])
    return None


def find_nearest(document: Document, needle: Needle, key: int) -> Finding:
    """Search from the line `key` down to the end, then from that line upwards."""
    below = yield from find_below(document, needle, key)
    return below if below is not None else (yield from find_above(document, needle, key))


def all_matches(document: Document, needle: Needle, most: int) -> Generator[None, None, list[int]]:
    """Return the keys of the first `most` lines that contain the needle."""
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
    """Count lines until all lines are known."""
    while not document.extend(COUNTING):
        yield


def _line_at(document: Document, place: int, offset: int) -> Generator[None, None, int]:
    """Return the key of the line at an offset, after counting lines until this line is known."""
    index = document.sections[place].index
    yield
    while index.begin > offset:
        index.extend(COUNTING)
        yield
    return document.key_at(place, offset)


def _shows(document: Document, needle: Needle, key: int) -> bool:
    line = document.line(key)
    return needle.is_in(line.text) or line.hidden > 0
