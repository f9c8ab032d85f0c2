"""Jobs as tables of settings: TOML and YAML files, with line numbers for messages, and mappings of yielders."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from gputui.core.regex import lazy_regex

from .command_list import LONGEST_COMMAND, decoded, read_whole
from .settings import NO_SETTINGS, SETTINGS, JobSettings, known_setting, no_setting
from .source import BadInput, shown
from .values import BadValue

Place = tuple[str | int, ...]


class SpecDocument(Struct, frozen=True):
    origin: str
    value: object
    line_of: Callable[[Place], int | None]

    def line(self, place: Place) -> int | None:
        """Return the line of this key, or else of its table, or None if neither line is known."""
        for length in range(len(place), 0, -1):
            child = self.line_of(place[:length])
            if child is not None:
                return child
        return None


def read_document(path: str) -> SpecDocument:
    text = decoded(read_whole(path, "a job file"), path)
    return parse_toml(text, path) if path.endswith(".toml") else parse_yaml(text, path)


def parse_toml(text: str, origin: str) -> SpecDocument:
    import tomllib

    try:
        value = tomllib.loads(text, parse_float=str)  # 1e-5 stays 1e-5
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"invalid TOML in {shown(origin)}: {error}") from None
    except (RecursionError, ValueError) as error:
        raise BadInput(f"cannot read {shown(origin)}: {error}") from None
    return SpecDocument(origin, value, lambda place: line_of(text, place))


def parse_yaml(text: str, origin: str) -> SpecDocument:
    import yaml

    class Loader(yaml.SafeLoader):
        """A YAML loader that keeps floats as text."""

    Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: node.value)
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        value: Any = loader.construct_document(node) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise BadInput.at(origin, line, f"invalid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, OverflowError) as error:
        raise BadInput(
            f"invalid YAML in {shown(origin)}: {str(error).splitlines()[0] if str(error) else 'bad value'}"
        ) from None
    return SpecDocument(origin, value, lambda place: _yaml_line(node, place))


def _yaml_line(node: Any, place: Place) -> int | None:
    line: int | None = None
    for step in place:
        children = node.value if isinstance(node.value, list) else []
        if isinstance(step, int) and step < len(children):
            mark, node = children[step].start_mark, children[step]
        else:
            pairs = (pair for pair in children if isinstance(pair, tuple) and pair[0].value == step)
            key, node = next(pairs, (None, None))
            if key is None:
                return None
            mark = key.start_mark
        line = mark.line + 1
    return line


# Line numbers of TOML keys


_TABLE = lazy_regex(r"\s*(\[{1,2})\s*([^\]]+?)\s*\]{1,2}\s*(?:#.*)?")
_MULTI_LINE = lazy_regex(r"(\"{3}|'{3}).*?\1", re.DOTALL)
_KEY = lazy_regex(r"""\s*("[^"]*"|'[^']*'|[\w-]+)\s*[=.]""")


def line_of(text: str, place: Place) -> int | None:
    """Return the line of a key or of its table's header. It is a guess that is good enough for messages."""
    wanted = [str(step) for step in place]
    counts: dict[str, int] = {}
    table: list[str] = []
    for number, line in enumerate(_MULTI_LINE.sub(_blanked, text).split("\n"), start=1):
        header = _TABLE.fullmatch(line)
        if header:
            table = _entered(header[2], counts, is_list=header[1] == "[[")
            if wanted in (table, table[:-1] if header[1] == "[[" else table):
                return number
        elif (key := _KEY.match(line)) and [*table, key[1].strip("\"'")] == wanted:
            return number
    return None


def _entered(name: str, counts: dict[str, int], *, is_list: bool) -> list[str]:
    """Return the place of a table. For example, the second `[[job]]` has the place `job`, `1`."""
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


def _blanked(multi_line_string: re.Match[str]) -> str:
    return "\n" * multi_line_string[0].count("\n")


# Typed tables


T = TypeVar("T")


class BadTable(Exception):
    """Raised when a table is invalid. The exception contains the problem and its place."""

    def __init__(self, reason: str, place: Place = ()) -> None:
        super().__init__(reason)
        self.place = place


_PLACE = lazy_regex(r" - at (?:`key` in )?`\$(.*?)`$")
_STEP = lazy_regex(r"\.([^.\[\]]+)|\[(\d+)\]")
_TYPES = lazy_regex(r"`([a-z| ]+)`")
_WORDS = {
    "object": "a table",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
_UNKNOWN = lazy_regex(r"unknown field `(.*)`", re.DOTALL)


def converted(value: object, kind: type[T], at: Place = ()) -> T:
    """Convert a value to a type.

    If the value is invalid, raise BadTable with the invalid place. For an unknown name, the error suggests the nearest
    valid one.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), kind, at) from None
    except RecursionError:
        raise BadTable("nested too deeply", at) from None


def _explained(message: str, kind: type, at: Place) -> BadTable:
    match = _PLACE.search(message)
    steps = tuple(int(number) if number else name
                  for name, number in _STEP.findall(match[1])) if match else ()  # fmt: skip
    reason = message[: match.start()] if match else message
    unknown = _UNKNOWN.search(reason)
    if unknown:
        return BadTable(no_setting(unknown[1], _keys_at(kind, steps)), (*at, *steps, unknown[1]))
    place = (*at, *steps)
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
    where = f"{dotted}: " if place else ""
    return BadTable(where + _TYPES.sub(_describe_types, reason[:1].lower() + reason[1:]), place)


def _describe_types(types: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in types[1].split(" | ") if kind != "null")


def _keys_at(kind: type, steps: Place) -> list[str]:
    """Return the valid keys of the table at this place."""
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


# Job tables


COMMAND = "command"


class JobTable(Struct, frozen=True):
    command: str | None = None
    settings: JobSettings = NO_SETTINGS


def read_table(value: object, place: Place = (), others: Collection[str] = ()) -> JobTable:
    """Parse a table. Raise BadTable if it is invalid. The keys in `others` are ignored."""
    table = converted(value, dict[str, Any], place)
    settings: dict[str, Any] = {}
    written_as: dict[str, str] = {}
    for key, entry in table.items():
        if key in others or key == COMMAND or entry is None:
            continue
        setting = known_setting(key) if "-" not in key else None
        if setting is None:
            raise BadTable(no_setting(key, [COMMAND, *SETTINGS, *others]), (*place, key))
        if setting.field in written_as:
            reason = f"{written_as[setting.field]} and {key} are the same; keep one"
            raise BadTable(reason, (*place, key))
        written_as[setting.field] = key
        fitting = converted(entry, setting.in_file, (*place, key))
        try:
            settings[setting.field] = setting.of(fitting)
        except BadValue as bad:
            raise BadTable(f"{key}: {bad}", (*place, key)) from None
    command = converted(table[COMMAND], str, (*place, COMMAND)) if table.get(COMMAND) is not None else None
    return JobTable(command, JobSettings(**settings) if settings else NO_SETTINGS)


def table_schema(others: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON schema of a job table, for editors."""
    properties: dict[str, Any] = {COMMAND: {"type": "string", "description": "shell command to run"}}
    for key, setting in SETTINGS.items():
        for name in (key, *setting.also):
            properties[name] = {**msgspec.json.schema(setting.in_file), "description": setting.help}
    return {"type": "object", "properties": {**properties, **(others or {})}, "additionalProperties": False}


def checked_command(command: str | None) -> str:
    """Return the command. Raise BadTable if it is missing or invalid."""
    if command is None or not command.strip():
        raise BadTable("command is missing" if command is None else "command is empty", ("command",))
    if "\0" in command:
        raise BadTable("command contains a NUL byte; remove it", ("command",))
    try:
        if len(command.encode()) > LONGEST_COMMAND:
            reason = f"command is longer than {LONGEST_COMMAND} bytes"
            raise BadTable(f"{reason}; put it in a script and call that", ("command",))
    except UnicodeEncodeError:
        raise BadTable("command is not UTF-8", ("command",)) from None
    return command.strip("\n")
