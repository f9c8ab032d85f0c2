"""The numbers in a line, told by their shape: a date, a clock, a chain, a counter `i/n`, a number and its unit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import inf, nan

from msgspec import Struct

__all__ = ["Token", "number_of", "tokens_in"]

_INT = r"\d{1,3}(?:,\d{3})+(?![\d,])|\d{1,12}"
_NUM = r"(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d{1,30}(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?"
_RATES = r"[A-Za-z]{1,12}\.?/\s?[A-Za-z]{1,9}"
_NO_NAME = r"(?![\w@.%/-]{0,60}[ ]?[:=])"
"""`0.41 val/acc: 0.8`: what stands before a sign is a name."""
_UNITS = (
    r"ms|s|secs?|seconds?|mins?|minutes?|hours?|hrs?|"
    r"[KMGT]i?B|bytes|[GMT]?FLOPs?|GMac|W|C|px|K|M|G|percent|million|dB(?=/)"
)
_TOKEN = re.compile(
    rf"""(?<![\w.@\\/\#$~^+-])(?:
    (?P<date>\d{{4}}[-/]\d{{1,2}}[-/]\d{{1,2}}(?:[T ]\d{{1,2}}:\d\d\S*)?|\d\d/\d\d[ ]\d\d:\d\d\S*)
  | (?P<clock>\d+:\d\d(?::\d\d)?(?:[.,]\d+)?(?![\d.])|\d+[ ]?(?:h|m|min|d|hr)[ ]?,?[ ]?\d+[ ]?(?:m|s|min|sec)\b)
  | (?P<chain>\d+(?:\.\d+){{2,}}\S*|{_NUM}(?:/{_NUM}){{2,}}|\d+[-:~]\d[\d:.-]*|0x[0-9a-fA-F]+)
  | (?P<done>{_INT})\s{{0,6}}(?:/|\bof\b|\bout\ of\b)\s{{0,6}}(?P<total>{_INT})(?![\w]|\.\d|,\d)
  | (?P<number>[-+]?(?:{_NUM}|(?:nan|inf|infinity)(?![\w'])))
    )(?P<unit>
    \s?%(?!\w)|{_RATES}|[ ]{_RATES}{_NO_NAME}
  | \s?(?:{_UNITS})(?![\w=:(@]|[ ][=:])|[^\W\d]\S*|\.[^\W\d]\S*|[ ]?[*×][ ])?""",
    re.VERBOSE | re.IGNORECASE,
)


class Token(Struct, frozen=True):
    """One number of a line, where it stands, and what it can be."""

    start: int
    end: int
    kind: str
    text: str
    total: str = ""
    unit: str = ""


def tokens_in(line: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup if match.lastgroup != "unit" else None
        unit = (match["unit"] or "").strip()
        if match["number"] is not None:
            yield Token(match.start(), match.end(), "number", match["number"], unit=unit)
        elif match["done"] is not None:
            yield Token(match.start(), match.end(), "counter", match["done"], match["total"], unit)
        else:
            yield Token(match.start(), match.end(), kind or "other", match[0])


def number_of(text: str) -> float | None:
    """The number that is written there, thousands apart or not."""
    word = text.strip().strip("'\"").replace(",", "")
    percent = word.endswith("%")
    try:
        return float(word[:-1] if percent else word)
    except ValueError:
        return {"nan": nan, "inf": inf}.get(word.lower())
