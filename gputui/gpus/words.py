"""Sizes, times and verdicts in words. Pure text; and the gate through which text of other programs passes."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from .sample import DeviceSample
from .strangers import Free, HeldByStrangers, Resting, Stranger, Unusable, Verdict

_GIB = 1024**3
_MIB = 1024**2


def size(count: int | None) -> str:
    """`38G`, `8.1G`, `300M`: as short as a table needs."""
    if count is None:
        return "?"
    if count < _GIB:
        return f"{count / _MIB:.0f}M"
    return f"{count / _GIB:.0f}G" if count >= 100 * _GIB else f"{count / _GIB:.1f}G"


def duration(seconds: float) -> str:
    """In the largest unit that fits: `12 s`, `5 h`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def why_not(device: DeviceSample, verdict: Verdict, now: float) -> str | None:
    """One sentence on why a device takes no job of ours; None: it may."""
    name = label(device)
    match verdict:
        case Free():
            return None
        case HeldByStrangers(by=by):
            more = f" and {len(by) - 1} more" if len(by) > 1 else ""
            return f"{name} is held by {_person(by[0], now)}{more}"
        case Resting(until=until, after=after):
            who = plain(after.user or f"pid {after.pid}")
            return f"{name} was just left by {who}; free in {duration(until - now)}"
        case Unusable(why=why):
            return f"{name}: {why}"


def label(device: DeviceSample) -> str:
    if device.mig is not None:
        return f"GPU {device.index} MIG {device.mig.gpu_instance}/{device.mig.compute_instance}"
    return f"GPU {device.index}"


def _person(stranger: Stranger, now: float) -> str:
    who = plain(stranger.user) if stranger.user else "somebody"
    return f"{who} (pid {stranger.pid}, {size(stranger.memory)}, {duration(now - stranger.since)})"


def plain(text: str) -> str:
    """Without anything a terminal would act on: a process may be called what it likes."""
    return "".join(char if char.isprintable() else "�" for char in text)


def width(text: str) -> int:
    """Columns on a terminal."""
    return len(text) if text.isascii() else sum(_columns(char) for char in text)


def clipped(text: str, columns: int) -> str:
    """At most so many columns, with an ellipsis where something is left out."""
    if width(text) <= columns:
        return text
    kept, used = "", 1
    for char in text:
        used += _columns(char)
        if used > columns:
            break
        kept += char
    return f"{kept}…" if columns > 0 else ""


@lru_cache(4096)
def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
