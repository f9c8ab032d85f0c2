"""The settings a source may give a job, and how they are written as `key=value` words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from gputui.core.job import JobId

from .values import BadValue, boolean, count, duration, memory, priority, task, text, words

__all__ = ["NO_SETTINGS", "JobSettings", "parse_setting", "settings_in"]

MOST_GPUS = 1024
MOST_RETRIES = 1000


class JobSettings(Struct, frozen=True, kw_only=True):
    """What was said about one job; None: nothing was said, so a default below may decide."""

    name: str | None = None
    gpus: int | None = None
    devices: tuple[str, ...] | None = None
    memory: str | None = None
    """On each of its GPUs: `6G` or `40%`."""
    priority: int | None = None
    retries: int | None = None
    timeout: float | None = None
    after: tuple[JobId | str, ...] | None = None
    after_any: bool | None = None
    hold: bool | None = None
    cwd: str | None = None
    outfile: str | None = None
    group: str | None = None
    login_shell: bool | None = None
    shell: str | None = None
    wrap: str | None = None
    task: str | None = None
    variables: dict[str, str] | None = None

    def over(self, defaults: JobSettings) -> JobSettings:
        """These, and the defaults where these say nothing; variables add up."""
        if self == NO_SETTINGS:
            return defaults
        merged: dict[str, Any] = {}
        for field in self.__struct_fields__:
            said = getattr(self, field)
            merged[field] = getattr(defaults, field) if said is None else said
        if self.variables and defaults.variables:
            merged["variables"] = defaults.variables | self.variables
        return JobSettings(**merged)


NO_SETTINGS = JobSettings()


def _gpus(written: str) -> int:
    return count(written, highest=MOST_GPUS)


def _retries(written: str) -> int:
    return count(written, highest=MOST_RETRIES)


def _timeout(written: str) -> float:
    seconds = duration(written)
    if seconds <= 0:
        raise BadValue("would end the job at once; write 90s, 5m, 2h or leave it out")
    return seconds


def _after(written: str) -> tuple[JobId | str, ...]:
    """Job ids are digits; anything else is a name."""
    return tuple(count(word) if word.isascii() and word.isdigit() else word for word in words(written))


_READERS: dict[str, Callable[[str], object]] = {
    "name": text,
    "gpus": _gpus,
    "devices": words,
    "memory": memory,
    "priority": priority,
    "retries": _retries,
    "timeout": _timeout,
    "after": _after,
    "after_any": boolean,
    "hold": boolean,
    "cwd": text,
    "outfile": text,
    "group": text,
    "login_shell": boolean,
    "shell": text,
    "wrap": text,
    "task": task,
}
ALIASES = {"project": "group"}


def settings_in(line: str) -> dict[str, Any]:
    """The settings in words such as `name="lr 0.1" gpus=2 hold`; BadValue says what is wrong."""
    found: dict[str, Any] = {}
    for word in _split(line):
        key, value = parse_setting(word)
        if key in found:
            raise BadValue(f"{key} is given twice; keep one")
        found[key] = value
    return found


def parse_setting(word: str) -> tuple[str, object]:
    """One `key=value` word; a yes-or-no setting may stand alone."""
    written_key, equals, value = word.partition("=")
    key = written_key.replace("-", "_")
    key = ALIASES.get(key, key)
    reader = _READERS.get(key)
    if reader is None:
        raise BadValue(_unknown(written_key, bool(equals)))
    if not equals:
        if reader is not boolean:
            raise BadValue(f"{key} has no value; write {key}=…")
        return key, True
    try:
        return key, reader(value)
    except BadValue as bad:
        raise BadValue(f"{key}: {bad}") from None


def _split(line: str) -> list[str]:
    """As the shell would; its slow splitter only where there is something to unquote."""
    if not any(mark in line for mark in "'\"\\"):
        return line.split()
    from shlex import split

    try:
        return split(line)
    except ValueError as error:
        reason = "a quote is not closed" if "quotation" in str(error) else "it ends in a backslash"
        raise BadValue(f"{reason}; close it on the same line (several #: lines add up)") from None


def _unknown(key: str, has_value: bool) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.lower().replace("-", "_"), _READERS, n=1)
    if near:
        return f"{key!r} is no setting; did you mean {near[0]}?"
    if not has_value:
        return f"{key!r} is no key=value; write a comment as '# …', not '#: …'"
    return f"{key!r} is no setting; known are {', '.join(_READERS)}"
