"""The package as its source tells it: its folders, its classes, and which module imports which. Nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "gputui"


class Arrow(NamedTuple):
    """One module imports another, or something in it."""

    importer: str
    imported: str


@cache
def sources() -> dict[str, ast.Module]:
    """Every module's source, by the module's name."""
    return {module_name(path): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_package(module: str) -> bool:
    return PACKAGE.parent.joinpath(*module.split("."), "__init__.py").exists()


def arrows() -> list[Arrow]:
    return [Arrow(module, name) for module, tree in sources().items() for name in imports(module, tree)]


def imports(module: str, tree: ast.Module) -> Iterator[str]:
    """What it imports, wherever in it that stands; `from x import y` is `x.y`."""
    package = module.split(".") if is_package(module) else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = [*above, *(node.module.split(".") if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)


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
