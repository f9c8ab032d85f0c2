"""Settings in words, as `#:` lines have them: `name="lr 0.1" gpus=2 hold`."""

from __future__ import annotations

from typing import Any

from gputui.sources.values import BadValue

from .table import SETTINGS, known_setting


def settings_in(line: str) -> dict[str, Any]:
    """The settings in a line, by field; BadValue says what is wrong."""
    said: dict[str, Any] = {}
    for word in _split(line):
        field, value = parse_setting(word)
        if field in said:
            raise BadValue(f"{field} is given twice; keep one")
        said[field] = value
    return said


def parse_setting(word: str) -> tuple[str, object]:
    """One `key=value` word; a yes-or-no setting may stand alone."""
    written_key, equals, value = word.partition("=")
    setting = known_setting(written_key)
    if setting is None:
        raise BadValue(_unknown(written_key, bool(equals)))
    if not equals:
        if setting.metavar:
            raise BadValue(f"{setting.key} has no value; write {setting.key}=…")
        return setting.field, True
    try:
        return setting.field, setting.read(value)
    except BadValue as bad:
        raise BadValue(f"{setting.key}: {bad}") from None


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

    near = get_close_matches(key.lower().replace("-", "_"), SETTINGS, n=1)
    if near:
        return f"{key!r} is no setting; did you mean {near[0]}?"
    if not has_value:
        return f"{key!r} is no key=value; write a comment as '# …', not '#: …'"
    return f"{key!r} is no setting; known are {', '.join(SETTINGS)}"
