"""Which kind of input a file is, and who reads it. One place, for `run`, the screen, `add` and `reload` alike."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module

from .command_list import unreadable
from .source import BadInput, Draft, shown

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
"""Who reads the kinds that are just jobs, by name so that only what is needed is loaded. The Python kinds are more than
that: a yielder goes on giving, and a task config brings its own GPUs and results."""

_SUFFIXES = {
    ".toml": Kind.SPEC,
    ".yaml": Kind.SPEC,
    ".yml": Kind.SPEC,
    ".esy": Kind.PEASY,
    ".peasy": Kind.PEASY,
}


PARSERS: dict[Kind, str] = {Kind.COMMANDS: "command_list:parse_command_list", Kind.PEASY: "peasy:parse_batch"}
"""Who reads what comes without a name of its own, from standard input."""


def kind_of(path: str) -> Kind:
    """By its name; a Python file by what it defines."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".py":
        return _kind_of_python(path)
    return _SUFFIXES.get(suffix, Kind.COMMANDS)


def _kind_of_python(path: str) -> Kind:
    """Without running it: that is done elsewhere, where no GPU is to be seen."""
    names = _defined(path)
    if "yielder" in names:
        return Kind.YIELDER
    if "config" in names:
        return Kind.TASK_CONFIG
    raise BadInput(f"{shown(path)} defines neither yielder() nor config; name it .txt if it is a list of commands")


def _defined(path: str) -> set[str]:
    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are told when it is run
            tree = ast.parse(file.read())
    except SyntaxError as error:
        raise BadInput.at(path, error.lineno or 1, f"this is no Python: {error.msg}") from None
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"{shown(path)} is no Python: {error}") from None
    return {name for statement in ast.walk(tree) for name in _names(statement)}


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
    return []


def read_drafts(path: str, kind: Kind) -> list[Draft]:
    """All jobs of a file that is nothing but jobs; BadInput if anything in it is wrong."""
    drafts: list[Draft] = _named(READERS[kind])(path)
    return drafts


def parse_drafts(data: bytes, origin: str, kind: Kind) -> list[Draft]:
    """The same of data that was read already."""
    drafts: list[Draft] = _named(PARSERS[kind])(data, origin)
    return drafts


def _named(written: str) -> Callable[..., list[Draft]]:
    module, _, name = written.partition(":")
    reader: Callable[..., list[Draft]] = getattr(import_module(f"{__package__}.{module}"), name)
    return reader
