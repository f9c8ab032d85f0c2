"""Parameters follow the command: where a text gives one, and which stay true when a job is changed by hand. Pure."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gputui.core.job import JobSpec

__all__ = ["following", "given", "value_of", "without"]

_VALUE = r"""(?P<value>'[^']*'|"[^"]*"|[^\s;|&()'"]+)"""


def given(command: str, name: str) -> list[re.Match[str]]:
    """Every `--lr 0.1`, `--lr=0.1` and `lr=0.1` of this name; the group `value` is what is given."""
    spelled = _spelled(name)
    # After a blank an option may follow instead of a value; a number below zero is a value.
    way = rf"(?<![^\s;|&('\"])(?:-{{0,2}}{spelled}=|-{{1,2}}{spelled}\s+(?!-[^\d.])){_VALUE}"
    return list(re.finditer(way, command))


def without(command: str, name: str) -> str:
    """The command less what it gives under this name, also an option that is just there."""
    for match in reversed(given(command, name)):
        command = command[: match.start()] + command[match.end() :]
    return re.sub(rf"(?<!\S)-{{1,2}}{_spelled(name)}(?!\S)", "", command)


def _spelled(name: str) -> str:
    return "[-_]".join(map(re.escape, re.split("[-_]", name)))


def value_of(command: str, name: str) -> str | None:
    """The one value that a command gives to a name; None: none, or several that differ."""
    values = {_bare(match["value"]) for match in given(command, name)}
    return values.pop() if len(values) == 1 else None


def _bare(written: str) -> str:
    return written[1:-1] if written[0] in "'\"" else written


def following(spec: JobSpec, before: JobSpec) -> JobSpec:
    """`before` as a person changed it: parameters that are no longer what runs are read anew, or go.

    So does a name that was left as it was and tells such a value.
    """
    if spec.params != before.params or not before.params or _told_by(spec) == _told_by(before):
        return spec
    params = {
        name: value for name, old in before.params.items() if (value := _value_now(name, old, spec, before)) is not None
    }
    untrue = {old for name, old in before.params.items() if params.get(name) != old}
    named = spec.name if spec.name != before.name or not _tells(spec.name, untrue) else None
    return replace(spec, params=params, name=named)


def _told_by(spec: JobSpec) -> tuple[object, ...]:
    """All that a parameter can come to a job by."""
    return spec.command, spec.variables, spec.cwd, spec.task


def _value_now(name: str, old: str, spec: JobSpec, before: JobSpec) -> str | None:
    if value_of(before.command, name) == old:
        return value_of(spec.command, name)
    held = [key for key, value in before.variables.items() if value == old]
    if held and spec.command == before.command:
        return next(iter(now)) if len(now := {spec.variables.get(key) for key in held}) == 1 else None
    return old if _in_its_places(old, spec, before) else None


def _in_its_places(value: str, spec: JobSpec, before: JobSpec) -> bool:
    """Whatever held the value holds it still; one that nothing shows goes with any change of what it came by."""
    words, earlier = spec.command.split(), before.command.split()
    places = [number for number, word in enumerate(earlier) if value in word]
    if places:
        return all(number < len(words) and words[number] == earlier[number] for number in places)
    if value in before.cwd:
        return spec.cwd == before.cwd
    same = (spec.command, spec.task) == (before.command, before.task)
    return same and before.variables.items() <= spec.variables.items()


def _tells(name: str | None, values: set[str]) -> bool:
    """`lr0.1` tells 0.1, and not 0."""
    return name is not None and any(re.search(rf"(?<![\d.]){re.escape(value)}(?![\d.])", name) for value in values)
