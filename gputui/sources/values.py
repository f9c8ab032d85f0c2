"""Parsers of single values that users write in files and on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Literal

from gputui.core.regex import lazy_regex

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = lazy_regex(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
_PLAIN_SECONDS = lazy_regex(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_MEMORY = lazy_regex(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(?:([KMGTkmgt])(?:i?[Bb])?|(%))")
_TASK = lazy_regex(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_TRUE = frozenset({"yes", "true", "on", "1"})
_FALSE = frozenset({"no", "false", "off", "0"})
_PLACES = range(10)
"""Numbers of decimals to try when formatting a value."""
LONGEST_DURATION = 3650 * 86400.0


class BadValue(ValueError):
    """Raised when a value is invalid. The message is the end of a longer error message."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a question that suggests the nearest known word. If none is near, return all known words."""
    choices = list(dict.fromkeys(known))
    near = closest_match(word, choices)
    return f"did you mean {near}?" if near else f"known: {', '.join(choices)}"


def closest_match(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1)), None)


def duration(written: str) -> float:
    """Parse `90`, `90s`, `5m`, `2h`, `1d` or `1h30m` into seconds."""
    compact = written.strip().lower()
    seconds = _seconds(compact)
    if seconds is None:
        raise BadValue(f"{written!r} is not a duration; write 90, 90s, 5m, 2h or 1d")
    if seconds > LONGEST_DURATION:
        raise BadValue(f"duration {written!r} is too long; the limit is ten years")
    return seconds


def gpu_time(written: str) -> float:
    """Parse an amount of GPU time, such as `20 gpu-h`, `20h` or `90m`, into seconds."""
    compact = written.strip().lower().replace("gpu-", "").replace(" ", "")
    seconds = None if compact.isdecimal() else _seconds(compact)
    if not seconds or seconds > LONGEST_DURATION:
        raise BadValue(f"invalid GPU time {written!r}: use 20 gpu-h, 90m or 2d")
    return seconds


def time_limit(text: str) -> float:
    """Parse a time in the syntax of gputui or Slurm into seconds.

    A plain number is rejected, because it means seconds in gputui but minutes in Slurm.
    """
    if text.strip().isdecimal():
        raise ValueError(f"missing unit in {text}: use {text}m, {text}h or hours:minutes:seconds")
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
    """Parse the number of seconds before a probe, or `off`."""
    if written.strip().lower() == "off":
        return "off"
    try:
        return duration(written)
    except BadValue:
        raise BadValue(f"invalid probe delay {written!r}: use 0, 90, 5m, 2h or off") from None


def count(written: str, *, lowest: int = 0, highest: int = 1_000_000) -> int:
    """Parse a whole number and check that it is within two bounds."""
    digits = written.strip()
    # int() alone would also accept `1_0` and digits of other scripts.
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", digits):
        raise BadValue(f"{written!r} is not a whole number; write one from {lowest} to {highest}")
    number = int(digits)
    if not lowest <= number <= highest:
        raise BadValue(f"{number} is out of range; use {lowest} to {highest}")
    return number


def memory(written: str) -> str:
    """Check a memory size such as `6G`, `500M` or `40%`."""
    bytes_or_share(written)
    return written.strip()


def bytes_or_share(written: str) -> tuple[int | None, float | None]:
    """Parse a memory size into bytes, or into a share of the device between 0 and 1."""
    match = _MEMORY.fullmatch(written.strip())
    if match is None:
        raise BadValue(f"{written!r} is not a size; write 6G, 500M or 40%")
    number, unit = float(match[1]), (match[2] or match[3]).upper()
    if unit == "%":
        if not 0 < number <= 100:
            raise BadValue(f"{written!r} is not between 0% and 100%")
        return None, number / 100
    if number == 0:
        raise BadValue(f"{written!r} requests nothing; omit it")
    return int(number * 1024 ** " KMGT".index(unit)), None


def boolean(written: str) -> bool:
    word = written.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise BadValue(f"invalid value {written!r}: use yes or no")


def text(written: str) -> str:
    """Check that text is not empty and has only one line."""
    stripped = written.strip()
    if not stripped:
        raise BadValue("is empty; set a value or omit it")
    if any(character < " " or character == "\x7f" for character in stripped):
        raise BadValue(f"{written!r} contains a control character; remove it")
    return stripped


LONGEST_KEY = 500


def key(written: str) -> str:
    """Check the key of a job."""
    stripped = text(written)
    if len(stripped) > LONGEST_KEY:
        raise BadValue(f"a key may have at most {LONGEST_KEY} characters; this one has {len(stripped)}")
    return stripped


def task(written: str) -> str:
    """Check that a function is written as `module:function`."""
    if not _TASK.fullmatch(written.strip()):
        raise BadValue(f"invalid function {written!r}: use module:function")
    return written.strip()


def words(written: str) -> tuple[str, ...]:
    """Split at commas into one or more parts. None of them may be empty."""
    parts = tuple(part.strip() for part in text(written).split(","))
    if not all(parts):
        raise BadValue(f"{written!r} has an extra comma; remove it")
    return parts


def variables(written: str) -> dict[str, str]:
    """Parse variables such as `SEED=1 NAME='two words'`, with shell quoting."""
    from shlex import split

    try:
        pairs = [word.partition("=") for word in split(written)]
    except ValueError as error:
        raise BadValue(f"cannot parse {written!r}: {error}; close the quote or escape the backslash") from None
    for name, equals, _ in pairs:
        if not equals or not name.isidentifier():
            raise BadValue(f"{name!r} is not NAME=VALUE; write SEED=1")
    return {name: value for name, _, value in pairs}


def variables_text(value: Mapping[str, str]) -> str:
    from shlex import quote

    return " ".join(f"{name}={quote(text)}" for name, text in value.items())


def duration_text(seconds: float) -> str:
    return _shortest((f"{seconds:.{places}f}" for places in _PLACES), duration, seconds)


def gpu_time_text(seconds: float) -> str:
    hours = (f"{seconds / 3600:.{places}f} gpu-h" for places in _PLACES)
    return _shortest((*hours, f"{seconds:g}s"), gpu_time, seconds)


def memory_text(size: int | None, share: float | None) -> str:
    """Format a size so that `bytes_or_share` returns the same size again. Return "" if there is none."""
    if share is not None:
        percent = round(100 * share, len(_PLACES))
        return _shortest((f"{percent:.{places}f}%" for places in _PLACES), lambda text: float(text[:-1]), percent)
    if size is None:
        return ""
    sizes = [(size / 1024 ** " KMGT".index(unit), unit) for unit in "TGMK"]
    written = (f"{number:.{places}f}{unit}" for places in _PLACES for number, unit in sizes)
    return _shortest(written, bytes_or_share, (size, None))


def _shortest(ways: Iterable[str], reader: Callable[[str], object], value: object) -> str:
    """Return the first text that the reader parses to exactly this value, or else the last one."""
    written = ""
    for written in ways:
        with suppress(BadValue):
            if reader(written) == value:
                break
    return written
