"""What the source code says: modules, imports, sentences, and the promised shapes of --json."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# ---- The package as its source tells it ----


PACKAGE = Path(__file__).parents[2] / "gputui"


@cache
def sources() -> dict[str, ast.Module]:
    """Every module's source, by the module's name."""
    return {module_name(path): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def defines(path: Path, name: str) -> bool:
    """Whether the file has this function, class, method or value: `Owner._turn`."""
    scope: list[ast.stmt] = ast.parse(path.read_text()).body
    for part in name.split("."):
        meant = next((statement for statement in scope if part in _names(statement)), None)
        if meant is None:
            return False
        scope = meant.body if isinstance(meant, ast.ClassDef) else []
    return True


def _names(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return []


# ---- Every sentence the product can say, as its source has it ----


TO_MACHINES = re.compile(
    r"^gputui\.(inside|process|demo\.train|python\.user_code|logs\.(crashes|metrics|likeness|signatures|progress)"
    r"|tui\.(terminal|themes|looks)|session\.store\.(?!opening|rescue)|engines\.local\.wrapper|engines\.slurm\.script"
    r"|cli\.report\.page|cli\.commands\.completion|core\.validate)"
)
"""Modules whose texts are programs, patterns, SQL or styles."""
NOT_SAID = re.compile(
    r"\\[sdwb(]|\(\?|[{;]\s*(height|width|background|color|margin|padding|layout)\s*:|^%|^\s*\$|<\w+|^[\W\d_]*$"
)


class Sentence(NamedTuple):
    module: str
    line: int
    text: str


@cache
def sentences() -> list[Sentence]:
    """By module, in the order of the source."""
    return [
        Sentence(module, line, text)
        for module, tree in sorted(sources().items())
        if not TO_MACHINES.match(module)
        for line, text in _texts(tree)
        if _is_said(text)
    ]


def _is_said(text: str) -> bool:
    return bool(re.search(r"[^\W\d_]{2,}", text)) and " " in text.strip() and not NOT_SAID.search(text)


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    for child in _without_docstring(node):
        if isinstance(child, ast.JoinedStr):
            yield child.lineno, text_of(child)
            yield from (
                found for value in child.values if isinstance(value, ast.FormattedValue) for found in _texts(value)
            )
        elif isinstance(child, ast.Constant):
            if isinstance(child.value, str):
                yield child.lineno, child.value
        elif not isinstance(child, ast.Assert):
            yield from _texts(child)


def _without_docstring(node: ast.AST) -> Iterator[ast.AST]:
    """Texts that stand alone as a statement document what is above them."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield child


def text_of(node: ast.JoinedStr | ast.Constant) -> str:
    """As it is written, with `{…}` for what is filled in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in parts)


# ---- The shapes that `--json` promises ----


ANSWERS = Path(__file__).parent.parent / "unit" / "cli" / "answers.json"


def valid(command: str, text: str) -> Any:
    """The value, which has the promised shape."""
    import jsonschema

    value, schema = json.loads(text), json.loads(ANSWERS.read_text())
    jsonschema.validate(value, {"$defs": schema["$defs"], **schema["properties"][command]})
    return value
