"""How many cells of a terminal a text takes, and texts cut to so many. Knows no terminal and no toolkit."""

from __future__ import annotations

from functools import lru_cache
from unicodedata import category, east_asian_width

ELLIPSIS = "…"


def width(text: str) -> int:
    """Cells on a terminal; most text is ASCII and needs no table for that."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def cut(text: str, cells: int) -> str:
    """At most so many cells; an ellipsis tells that something was left out."""
    if len(text) <= cells and text.isascii():
        return text
    if width(text) <= cells:
        return text
    if cells <= 0:
        return ""
    columns = 1
    for at, char in enumerate(text):
        columns += _cells(char)
        if columns > cells:
            return text[:at] + ELLIPSIS
    return text


@lru_cache(4096)
def _cells(char: str) -> int:
    if category(char) in ("Mn", "Me", "Cf") and char != "\u00ad":
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
