"""Values from outside as typed tables: what does not fit is said with its place and the nearest valid name."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from .source import BadInput

__all__ = ["BadTable", "bad_input", "converted"]

T = TypeVar("T")


class BadTable(Exception):
    """What is wrong, and where: the keys and numbers on the way to it."""

    def __init__(self, reason: str, place: tuple[str | int, ...] = ()) -> None:
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


def converted(value: object, kind: type[T]) -> T:
    """The typed table; BadTable with the place of what does not fit and the nearest valid name."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), kind) from None
    except RecursionError:
        raise BadTable("it is nested too deeply") from None


def _explained(message: str, kind: type) -> BadTable:
    found = _PLACE.search(message)
    steps = tuple(int(number) if number else name
                  for name, number in _STEP.findall(found[1])) if found else ()  # fmt: skip
    reason = message[: found.start()] if found else message
    unknown = _UNKNOWN.search(reason)
    if unknown:
        return BadTable(_no_setting(unknown[1], kind, steps), (*steps, unknown[1]))
    where = f"{_dotted(steps)}: " if steps else ""
    return BadTable(where + _TYPES.sub(_in_words, reason[:1].lower() + reason[1:]), steps)


def _in_words(types: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(one, one) for one in types[1].split(" | ") if one != "null")


def _dotted(steps: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def _no_setting(key: str, kind: type, steps: tuple[str | int, ...]) -> str:
    from difflib import get_close_matches

    known = _keys_at(kind, steps)
    near = get_close_matches(key.lower().replace("-", "_"), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"{key!r} is no setting; {hint}"


def _keys_at(kind: type, steps: tuple[str | int, ...]) -> list[str]:
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
        info = next((one for one in info.types if isinstance(one, wanted)), info)
    return info.type if isinstance(info, msgspec.inspect.Metadata) else info


def bad_input(origin: str, line: int | None, bad: BadTable) -> BadInput:
    return BadInput.at(origin, line, str(bad)) if line is not None else BadInput(f"{origin}: {bad}")
