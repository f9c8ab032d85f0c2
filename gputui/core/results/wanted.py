"""What a user wants to have read: a metric by its name, or by a regular expression of the user's own. Pure."""

from __future__ import annotations

import re

from msgspec import Struct

from .shapes import Direction

__all__ = ["UNNAMED", "WantedMetric", "wanted_of"]

LONGEST_PATTERN = 500
UNNAMED = "metric"
"""What is found by an expression that names nothing."""
_ENDS = {"max": Direction.UP, "up": Direction.UP, "min": Direction.DOWN, "down": Direction.DOWN}
_FORM = re.compile(r"\s*(?P<name>[^/\s]\S*)?\s*(?:/(?P<pattern>.+)/)?\s*(?P<end>max|min|up|down)?\s*", re.DOTALL)
_REPEATED_GROUP = re.compile(r"\((?:[^()\\]|\\.)*[*+}|](?:[^()\\]|\\.)*\)[*+{]")


class WantedMetric(Struct, frozen=True):
    """The metric that matters to the user, and how it is found."""

    name: str | None = None
    direction: Direction | None = None
    """None: guess it from the name."""
    pattern: str | None = None
    """Its group `value`, else its first one, is the number; a group `name` names it."""


def wanted_of(text: str) -> WantedMetric:
    """Of `val_acc`, `val_acc max`, `/best: ([0-9.]+)/` or `score /best: (.+)/ max`; ValueError says what is wrong."""
    match = _FORM.fullmatch(text)
    if match is None or not (match["name"] or match["pattern"]):
        raise ValueError(f"{text!r} is no metric; write a name, or /regular expression/, and max or min after it")
    name, pattern, end = match["name"], match["pattern"], match["end"]
    if name in _ENDS and end is None and pattern is None:
        raise ValueError(f"{text!r} names no metric; write its name before {name}")
    if pattern is not None:
        _check(pattern)
    return WantedMetric(name, _ENDS[end] if end else None, pattern)


def _check(pattern: str) -> None:
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"the regular expression has {len(pattern)} characters; {LONGEST_PATTERN} are the most")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"/{pattern}/ is no regular expression: {error}") from None
    if _REPEATED_GROUP.search(pattern) is not None:
        raise ValueError(f"/{pattern}/ repeats a group that repeats or chooses; on some lines that takes for ever")
    if not compiled.groups:
        raise ValueError(f"/{pattern}/ has no group; put round brackets around the number")
