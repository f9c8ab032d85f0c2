"""The next line that shows a text, in a document of one or two files.

A bar that was redrawn a thousand times has a thousand states in the file and one on the screen: only what can be
seen is found.
"""

from __future__ import annotations

from collections.abc import Generator

from .document import Document
from .search import Needle, Search, backward, forward

__all__ = ["Finding", "all_known", "all_matches", "find_above", "find_below", "find_nearest"]

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
