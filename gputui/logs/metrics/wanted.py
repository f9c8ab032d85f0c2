"""The metric that the user wants, found in a line: by its name, or by the user's own expression."""

from __future__ import annotations

import re
from functools import lru_cache

from gputui.core.metric_names import words_of
from gputui.core.results.wanted import UNNAMED, WantedMetric

from .tokens import number_of

__all__ = ["is_wanted", "read_wanted"]

LONGEST_MATCHED = 400
"""Characters of a line that the user's own expression is tried on: nothing can stop one that takes for ever."""
_NUMBER = r"(?P<value>[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)"


def is_wanted(name: str, wanted: WantedMetric) -> bool:
    """Whether a program that prints this name prints what the user wants: `Val Acc` is `val_acc`."""
    return wanted.name is not None and words_of(name) == words_of(wanted.name)


def read_wanted(line: str, wanted: WantedMetric) -> tuple[str, float] | None:
    """The wanted metric's name and value in this line, if it is there."""
    match = _compiled(wanted).search(line[:LONGEST_MATCHED])
    if match is None:
        return None
    named = match.groupdict()
    text = (
        named["value"] if named.get("value") is not None else next((group for group in match.groups() if group), None)
    )
    value = number_of(text) if text is not None else None
    return (named.get("name") or wanted.name or UNNAMED, value) if value is not None else None


@lru_cache(maxsize=64)
def _compiled(wanted: WantedMetric) -> re.Pattern[str]:
    if wanted.pattern is not None:
        return re.compile(wanted.pattern)
    return re.compile(rf"(?<![\w./-]){re.escape(wanted.name or '')}['\"]?\s*(?:[:=]|\bis\b)?\s*{_NUMBER}(?![\w.])")
