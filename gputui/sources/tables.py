"""Values from outside as typed tables: what does not fit is said with its place and the nearest valid name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from .documents import Place
from .source import BadInput

__all__ = ["BadTable", "bad_input", "converted", "no_setting"]

T = TypeVar("T")


class BadTable(Exception):
    """What is wrong, and where."""

    def __init__(self, reason: str, place: Place = ()) -> None:
        super().__init__(reason)
        self.place = place


_PLACE = re.compile(r" - at (?:`key` in )?`\$(.*?)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_TYPES = re.compile(r"`([a-z| ]+)`")
_WORDS = {
    "object": "a table",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)


def converted(value: object, kind: type[T], at: Place = ()) -> T:
    """The typed value of this place; BadTable with the place of what does not fit and the nearest valid name."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), kind, at) from None
    except RecursionError:
        raise BadTable("it is nested too deeply", at) from None


def _explained(message: str, kind: type, at: Place) -> BadTable:
    match = _PLACE.search(message)
    steps = tuple(int(number) if number else name
                  for name, number in _STEP.findall(match[1])) if match else ()  # fmt: skip
    reason = message[: match.start()] if match else message
    unknown = _UNKNOWN.search(reason)
    if unknown:
        return BadTable(no_setting(unknown[1], _keys_at(kind, steps)), (*at, *steps, unknown[1]))
    place = (*at, *steps)
    where = f"{_dotted(place)}: " if place else ""
    return BadTable(where + _TYPES.sub(_in_words, reason[:1].lower() + reason[1:]), place)


def _in_words(types: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in types[1].split(" | ") if kind != "null")


def _dotted(steps: Place) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def no_setting(key: str, known_names: Iterable[str]) -> str:
    from difflib import get_close_matches

    names = list(known_names)
    near = get_close_matches(key.lower().replace("-", "_"), names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
    return f"{key!r} is no setting; {hint}"


def _keys_at(kind: type, steps: Place) -> list[str]:
    """The keys of the table that these steps lead to."""
    info = msgspec.inspect.type_info(kind)
    for step in (None, *steps):
        info = _inside(info, step)
    fields = getattr(info, "fields", ())
    return [field.encode_name for field in fields]


def _inside(info: Any, step: str | int | None) -> Any:
    if isinstance(step, str):
        info = next((field.type for field in getattr(info, "fields", ()) if field.encode_name == step), info)
    elif isinstance(step, int):
        info = getattr(info, "item_type", info)
    if isinstance(info, msgspec.inspect.UnionType):
        wanted = (msgspec.inspect.StructType, msgspec.inspect.ListType)
        info = next((member for member in info.types if isinstance(member, wanted)), info)
    return info.type if isinstance(info, msgspec.inspect.Metadata) else info


def bad_input(origin: str, line: int | None, bad: BadTable) -> BadInput:
    return BadInput.at(origin, line, str(bad)) if line is not None else BadInput(f"{origin}: {bad}")
