"""One value written by a user, in a file or behind a flag, and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Literal

__all__ = [
    "BadValue", "boolean", "bytes_or_share", "count", "duration", "duration_text", "memory", "memory_text", "priority",
    "task", "text", "variables", "variables_text", "words",
]  # fmt: skip

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
_PLAIN_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_MEMORY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(?:([KMGTkmgt])(?:i?[Bb])?|(%))")
_TASK = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_TRUE = frozenset({"yes", "true", "on", "1"})
_FALSE = frozenset({"no", "false", "off", "0"})
_PLACES = range(10)
"""Digits after the point that a number may need."""
LONGEST_DURATION = 3650 * 86400.0


class BadValue(ValueError):
    """A value that means nothing; the message is the end of the sentence the user reads."""


def duration(written: str) -> float:
    """Seconds in `90`, `90s`, `5m`, `2h`, `1d`, `1h30m`."""
    compact = written.strip().lower()
    seconds = _seconds(compact)
    if seconds is None:
        raise BadValue(f"{written!r} is not a duration; write 90, 90s, 5m, 2h or 1d")
    if seconds > LONGEST_DURATION:
        raise BadValue(f"{written!r} is more than ten years; write a shorter duration")
    return seconds


def time_limit(text: str) -> float:
    """As gputui writes times, or as Slurm does; a bare number would be minutes to one and seconds to the other."""
    if text.strip().isdecimal():
        raise ValueError(f"{text} of what? write {text}m or {text}h, or hours:minutes:seconds")
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?", text.strip(), re.ASCII)
    if match is None:
        return duration(text)
    days, first, second, third = (int(part or 0) for part in match.groups())
    in_hours = match[4] is not None or match[1] is not None
    hours, minutes, rest = (first, second, third) if in_hours else (0, first, second)
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def _seconds(compact: str) -> float | None:
    if _PLAIN_SECONDS.fullmatch(compact):
        return float(compact)
    parts = _DURATION_PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def probe_wait(written: str) -> float | Literal["off"]:
    """Seconds until one job is tried alone after crashes, as any duration; or `off`."""
    if written.strip().lower() == "off":
        return "off"
    try:
        return duration(written)
    except BadValue:
        raise BadValue(f"{written!r} is no time to wait before a job is tried; write 0, 90, 5m, 2h or off") from None


def count(written: str, *, lowest: int = 0, highest: int = 1_000_000) -> int:
    """A whole number between two bounds."""
    digits = written.strip()
    # int() alone would also take `1_0` and other scripts' digits.
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", digits):
        raise BadValue(f"{written!r} is not a whole number; write one from {lowest} to {highest}")
    number = int(digits)
    if not lowest <= number <= highest:
        raise BadValue(f"{number} is out of range; write a number from {lowest} to {highest}")
    return number


def priority(written: str) -> int:
    # Verbs read durations with this module and must not pay for the core.
    from gputui.core.job import HIGHEST_PRIORITY, LOWEST_PRIORITY

    return count(written, lowest=LOWEST_PRIORITY, highest=HIGHEST_PRIORITY)


def memory(written: str) -> str:
    """GPU memory as `6G`, `500M` or `40%`, checked; `bytes_or_share` reads it."""
    bytes_or_share(written)
    return written.strip()


def bytes_or_share(written: str) -> tuple[int | None, float | None]:
    """Bytes, or a part of the device between 0 and 1."""
    match = _MEMORY.fullmatch(written.strip())
    if match is None:
        raise BadValue(f"{written!r} is not a size; write 6G, 500M or 40%")
    number, unit = float(match[1]), (match[2] or match[3]).upper()
    if unit == "%":
        if not 0 < number <= 100:
            raise BadValue(f"{written!r} is not between 0% and 100%; write 40%")
        return None, number / 100
    if number == 0:
        raise BadValue(f"{written!r} asks for nothing; leave it out")
    return int(number * 1024 ** " KMGT".index(unit)), None


def boolean(written: str) -> bool:
    word = written.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise BadValue(f"{written!r} is neither yes nor no; write one of them")


def text(written: str) -> str:
    """Something on one line that is not empty."""
    stripped = written.strip()
    if not stripped:
        raise BadValue("is empty; write a value or leave the setting out")
    if any(character < " " or character == "\x7f" for character in stripped):
        raise BadValue(f"{written!r} holds a control character; remove it")
    return stripped


def task(written: str) -> str:
    """A function as `module:function`."""
    if not _TASK.fullmatch(written.strip()):
        raise BadValue(f"{written!r} is no function; write module:function")
    return written.strip()


def words(written: str) -> tuple[str, ...]:
    """What stands between commas; at least one, none of them empty."""
    parts = tuple(part.strip() for part in text(written).split(","))
    if not all(parts):
        raise BadValue(f"{written!r} has nothing between two commas; remove one")
    return parts


def variables(written: str) -> dict[str, str]:
    """`SEED=1 NAME='two words'` as the shell would read it."""
    from shlex import split

    try:
        pairs = [word.partition("=") for word in split(written)]
    except ValueError as error:
        raise BadValue(f"{written!r} cannot be read: {error}; close the quote, or quote the backslash") from None
    for name, equals, _ in pairs:
        if not equals or not name.isidentifier():
            raise BadValue(f"{name!r} is not NAME=VALUE; write SEED=1")
    return {name: value for name, _, value in pairs}


def variables_text(value: Mapping[str, str]) -> str:
    from shlex import quote

    return " ".join(f"{name}={quote(text)}" for name, text in value.items())


def duration_text(seconds: float) -> str:
    return _shortest((f"{seconds:.{places}f}" for places in _PLACES), duration, seconds)


def memory_text(size: int | None, share: float | None) -> str:
    """What `bytes_or_share` reads as this; empty for nothing."""
    if share is not None:
        percent = round(100 * share, len(_PLACES))
        return _shortest((f"{percent:.{places}f}%" for places in _PLACES), lambda text: float(text[:-1]), percent)
    if size is None:
        return ""
    sizes = [(size / 1024 ** " KMGT".index(unit), unit) for unit in "TGMK"]
    written = (f"{number:.{places}f}{unit}" for places in _PLACES for number, unit in sizes)
    return _shortest(written, bytes_or_share, (size, None))


def _shortest(ways: Iterable[str], reader: Callable[[str], object], value: object) -> str:
    """The first way to write the value that is read as just this value."""
    written = ""
    for written in ways:
        with suppress(BadValue):
            if reader(written) == value:
                break
    return written
