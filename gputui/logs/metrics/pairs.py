"""Named numbers in one line of text."""

from __future__ import annotations

import re

from .reading import MetricReading

__all__ = ["readings_in"]

_PAIR = re.compile(
    r"(?<![\w./@-])(?P<name>[A-Za-z_][\w@/.-]{0,60})\s?[:=]\s?(?P<value>-?\d+\.\d+(?:[eE][-+]?\d+)?)(?![\w.:/])"
)


def readings_in(line: str) -> list[MetricReading]:
    return [MetricReading(one["name"], float(one["value"]), None) for one in _PAIR.finditer(line)]
