"""TOML and YAML files as plain values, with the lines on which their keys stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from .command_list import read_whole
from .source import BadInput, shown

__all__ = ["Place", "SpecDocument", "parse_toml", "parse_yaml", "read_document"]

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

    from .toml_lines import line_of

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
