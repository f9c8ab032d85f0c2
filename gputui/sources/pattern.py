"""Command patterns: Python's format rules over named values, where `{x!q}` quotes a value for the shell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Any

from gputui.core.views.parameters import given

from .command_list import LONGEST_COMMAND
from .source import BadInput, shown

__all__ = ["CommandPattern", "pattern_of", "with_field"]

_NUMBER = re.compile(r"[0-9]+")
_PARTS = re.compile(r"[.\[]")


class CommandPattern:
    """Checked when it is made; `fill` makes a command of it."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self._text = text
        self._names = tuple(names)
        self.used: set[str] = set()
        """The names that stand in it."""
        self._pieces = self._parsed(text)
        if "\0" in text:
            raise BadInput("the pattern holds a NUL byte; remove it")
        if not text.strip():
            raise BadInput("the pattern is empty; write a command with {NAME} where values go")

    def fill(self, values: Mapping[str, str]) -> str:
        try:
            command = _joined(self._pieces, values)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError) as error:
            raise BadInput(f"the pattern {shown(self._text)!r} cannot be filled: {error}") from None
        if len(command.encode("utf-8", "surrogateescape")) > LONGEST_COMMAND:
            raise BadInput(
                f"a command of this pattern is longer than the {LONGEST_COMMAND} bytes it may have; call a script"
            )
        return command

    def _parsed(self, text: str, depth: int = 2) -> list[_Piece]:
        if depth == 0:
            raise BadInput(f"the pattern {shown(self._text)!r} has braces three deep; write {{{{ and }}}} for braces")
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise BadInput(
                f"the pattern {shown(self._text)!r} is wrong: {error}; write {{{{ and }}}} for braces"
            ) from None
        return [self._piece(*part, depth) for part in parsed]

    def _piece(self, before: str, field: str | None, spec: str | None, conversion: str | None, depth: int) -> _Piece:
        if field is None:
            return before, None, "", []
        name = _PARTS.split(field, maxsplit=1)[0]
        self._check(name)
        self.used.add(name)
        if conversion not in (None, "r", "s", "a", "q"):
            raise BadInput(f"{{{field}!{conversion}}}: after ! stands q (quoted for the shell), r, s or a")
        return before, field, conversion or "", self._parsed(spec or "", depth - 1) if spec else []

    def _check(self, name: str) -> None:
        if name in self._names:
            return
        if not name or name.isdigit():
            raise BadInput(f"{{{name}}} has no name; write e.g. {{{self._names[0] if self._names else 'lr'}}}")
        from difflib import get_close_matches

        near = get_close_matches(name, self._names, n=1)
        hint = f"did you mean {{{near[0]}}}?" if near else f"give its values: -p {shown(name)} VALUE …"
        raise BadInput(f"{{{shown(name)}}} is no parameter; {hint}")


def pattern_of(command: str) -> str:
    """The pattern that gives just this command."""
    return command.replace("{", "{{").replace("}", "}}")


def with_field(pattern: str, name: str) -> str | None:
    """`--lr 0.1` made into `--lr {lr}`; None where the pattern gives no such value."""
    for match in reversed(places := given(pattern, name)):
        start, end = match.span("value")
        pattern = f"{pattern[:start]}{{{name}}}{pattern[end:]}"
    return pattern if places else None


_Piece = tuple[str, str | None, str, list[Any]]
"""The text before a field, the field, its conversion, and the pieces of its format."""


def _joined(pieces: list[_Piece], values: Mapping[str, str]) -> str:
    return "".join(before if field is None else before + _value(field, conversion, spec, values)
                   for before, field, conversion, spec in pieces)  # fmt: skip


def _value(field: str, conversion: str, spec: list[_Piece], values: Mapping[str, str]) -> str:
    value = values[field] if field in values else Formatter().get_field(field, (), values)[0]
    if conversion == "q":
        from shlex import quote

        value = quote(str(value))
    elif conversion:
        value = Formatter().convert_field(value, conversion)
    return format(value, _harmless(_joined(spec, values)))


def _harmless(spec: str) -> str:
    """A width of a billion would be made before anybody could refuse it."""
    if any(len(number) > 6 or int(number) > LONGEST_COMMAND for number in _NUMBER.findall(spec)):
        raise ValueError(f"the width in {spec!r} is too large")
    return spec
