"""TOML and YAML files as typed values, with line numbers for messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from .command_list import read_whole
from .source import BadInput, shown

# ---- TOML and YAML files as plain values, with the lines on which their keys stand ----


Place = tuple[str | int, ...]


class SpecDocument(Struct, frozen=True):
    origin: str
    value: object
    line_of: Callable[[Place], int | None]

    def line(self, place: Place) -> int | None:
        """Where this key stands, or the table it belongs to; None: nobody knows."""
        for length in range(len(place), 0, -1):
            child = self.line_of(place[:length])
            if child is not None:
                return child
        return None


def read_document(path: str) -> SpecDocument:
    data = read_whole(path, "a file of jobs")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput.at(path, line, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8") from None
    return (parse_toml if path.endswith(".toml") else parse_yaml)(text, path)


def parse_toml(text: str, origin: str) -> SpecDocument:
    import tomllib

    try:
        value = tomllib.loads(text, parse_float=str)  # 1e-5 stays 1e-5
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{shown(origin)} is no TOML: {error}") from None
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{shown(origin)} cannot be read: {error}") from None
    return SpecDocument(origin, value, lambda place: line_of(text, place))


def parse_yaml(text: str, origin: str) -> SpecDocument:
    import yaml

    class Loader(yaml.SafeLoader):
        """Numbers stay as they were written."""

    Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: node.value)
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        value: Any = loader.construct_document(node) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise BadInput.at(origin, line, f"this is no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, OverflowError) as error:
        raise BadInput(
            f"{shown(origin)} is no YAML: {str(error).splitlines()[0] if str(error) else 'bad value'}"
        ) from None
    return SpecDocument(origin, value, lambda place: _yaml_line(node, place))


def _yaml_line(node: Any, place: Place) -> int | None:
    """Down the tree of nodes, which know where they began."""
    line: int | None = None
    for step in place:
        child = _child(node, step)
        if child is None:
            return None
        line, node = child
    return line


def _child(node: Any, step: str | int) -> tuple[int, Any] | None:
    if isinstance(step, int) and isinstance(node.value, list) and step < len(node.value):
        item = node.value[step]
        return item.start_mark.line + 1, item
    pairs = node.value if isinstance(node.value, list) else []
    for pair in pairs:
        if isinstance(pair, tuple) and pair[0].value == step:
            return pair[0].start_mark.line + 1, pair[1]
    return None


# ---- The line on which a key of a TOML text stands, for messages ----


_TABLE = re.compile(r"\s*(\[{1,2})\s*([^\]]+?)\s*\]{1,2}\s*(?:#.*)?")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w-]+)\s*[=.]""")


def line_of(text: str, place: tuple[str | int, ...]) -> int | None:
    """Of the key at this place, or of its table's header; a guess, good enough to find it by."""
    wanted = [str(step) for step in place]
    counts: dict[str, int] = {}
    table: list[str] = []
    inside: str | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        inside, was_inside = _multi_line(line, inside), inside is not None
        if was_inside:
            continue
        header = _TABLE.fullmatch(line)
        if header:
            table = _entered(header[2], counts, is_list=header[1] == "[[")
            if wanted in (table, table[:-1] if header[1] == "[[" else table):
                return number
        elif (key := _KEY.match(line)) and [*table, key[1].strip("\"'")] == wanted:
            return number
    return None


def _entered(name: str, counts: dict[str, int], *, is_list: bool) -> list[str]:
    """The place that a header leads to: `[[job]]` a second time is job, 1."""
    place: list[str] = []
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    for depth, part in enumerate(parts, start=1):
        place.append(part)
        key = "\0".join(place)
        if is_list and depth == len(parts):
            counts[key] = counts.get(key, -1) + 1
        if key in counts:
            place.append(str(counts[key]))
    return place


def _multi_line(line: str, inside: str | None) -> str | None:
    """The quotes of a text that goes on after this line, if there is one."""
    rest = line
    while True:
        if inside is not None:
            _, closing, rest = rest.partition(inside)
            if not closing:
                return inside
            inside = None
        places = [(place, quotes) for quotes in ('"' * 3, "'" * 3) if (place := rest.find(quotes)) >= 0]
        if not places:
            return None
        place, inside = min(places)
        rest = rest[place + 3 :]


# ---- Values from outside as typed tables ----


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
    return f"{key!r} is not a setting; {hint}"


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
