"""The exact way to tell a result: `::gputui metric val_acc=0.934 step=12::`, `progress=0.42`, `note="…"`."""

from __future__ import annotations

import re

from msgspec import Struct

from gputui.logs.plain import plain

from .reading import MetricReading

__all__ = ["MARK", "Announcement", "told_in"]

MARK = "::gputui "
LONGEST_NOTE = 80
_LINE = re.compile(r"::gputui\s+(?P<body>(?:[^\":]|\"[^\"]*\"|:(?!:))*)::")
_PAIR = re.compile(r"(?P<name>[^\s=\"]{1,80})\s*=\s*(?:\"(?P<text>[^\"]*)\"|(?P<word>[^\s\"]{1,80}))")


class Announcement(Struct, frozen=True):
    """What one line told in so many words."""

    readings: tuple[MetricReading, ...] = ()
    progress: float | None = None
    note: str | None = None


def told_in(line: str) -> Announcement | None:
    """None when the line is no such line, or one that is not well formed."""
    match = _LINE.search(line)
    if match is None:
        return None
    is_metric = match["body"].split()[:1] == ["metric"]
    pairs = {
        pair["name"]: pair["word"] if pair["text"] is None else pair["text"] for pair in _PAIR.finditer(match["body"])
    }
    progress = _number(pairs.pop("progress", None))
    note = pairs.pop("note", None)
    step = _number(pairs.pop("step", None))
    readings = tuple(
        MetricReading(name, value, step, exact=True)
        for name, word in pairs.items()
        if (value := _number(word)) is not None
    )
    return Announcement(
        readings if is_metric else (),
        progress if progress is not None and 0 <= progress <= 1 else None,
        plain(note)[:LONGEST_NOTE] if note is not None else None,
    )


def _number(word: str | None) -> float | None:
    if word is None:
        return None
    try:
        return float(word.removesuffix("%"))
    except ValueError:
        return None
