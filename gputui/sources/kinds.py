"""The kinds of input files, and the readers for them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

from .command_list import unreadable
from .source import BadInput, Draft, shown

if TYPE_CHECKING:
    import ast

__all__ = ["PARSERS", "READERS", "Kind", "kind_of", "parse_drafts", "read_drafts"]


class Kind(StrEnum):
    COMMANDS = "commands"
    SPEC = "spec"
    PEASY = "peasy"
    YIELDER = "yielder"
    TASK_CONFIG = "task_config"


READERS: dict[Kind, str] = {
    Kind.COMMANDS: "command_list:read_command_list",
    Kind.SPEC: "spec_file:read_spec",
    Kind.PEASY: "peasy:read_batch",
}
"""Readers of files that contain only jobs. They are given by name so that only the needed module is imported."""

_SUFFIXES = {
    ".toml": Kind.SPEC,
    ".yaml": Kind.SPEC,
    ".yml": Kind.SPEC,
    ".esy": Kind.PEASY,
    ".peasy": Kind.PEASY,
}


PARSERS: dict[Kind, str] = {Kind.COMMANDS: "command_list:parse_command_list", Kind.PEASY: "peasy:parse_batch"}
"""Parsers of standard input, by name."""


def kind_of(path: str) -> Kind:
    """Return the kind of a file, determined by its suffix.

    For a Python file the kind depends on the names that it defines. The file is parsed but not run.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix != ".py":
        return _SUFFIXES.get(suffix, Kind.COMMANDS)
    names = _defined_names(path)
    if "yielder" in names:
        return Kind.YIELDER
    if "config" in names:
        return Kind.TASK_CONFIG
    raise BadInput(f"{shown(path)} defines neither yielder() nor config; name it .txt if it is a list of commands")


def _defined_names(path: str) -> set[str]:
    import ast  # needed for Python files only

    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings are shown when the file is run
            tree = ast.parse(file.read())
    except SyntaxError as error:
        raise BadInput.at(path, error.lineno or 1, f"invalid Python: {error.msg}") from None
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"invalid Python in {shown(path)}: {error}") from None
    return {name for statement in ast.walk(tree) for name in _names(statement)}


def _names(node: ast.AST) -> list[str]:
    import ast

    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
    return []


def read_drafts(path: str, kind: Kind) -> list[Draft]:
    """Return the jobs of a file that contains only jobs. Raise BadInput if anything in it is invalid."""
    drafts: list[Draft] = _named(READERS[kind])(path)
    return drafts


def parse_drafts(data: bytes, origin: str, kind: Kind) -> list[Draft]:
    drafts: list[Draft] = _named(PARSERS[kind])(data, origin)
    return drafts


def _named(written: str) -> Callable[..., list[Draft]]:
    module, _, name = written.partition(":")
    reader: Callable[..., list[Draft]] = getattr(import_module(f"{__package__}.{module}"), name)
    return reader
