"""The structure of the code, as far as import-linter does not check it."""

from __future__ import annotations

import ast
import re

from support.sources import PACKAGE, defines, sources


def test_no_handler_calls_the_same_handler_of_its_base_class() -> None:
    """Textual calls the handlers of all base classes itself, so that one would run twice; `on_event` is not one."""
    twice = [
        f"{module}:{node.lineno} super().{node.attr}"
        for module, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.lstrip("_").startswith("on_") and node.attr != "on_event"
        and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
    ]  # fmt: skip
    assert not twice, "\n".join(twice)


def test_every_package_has_a_docstring() -> None:
    doors = PACKAGE.rglob("__init__.py")
    assert [str(door) for door in doors if not ast.get_docstring(ast.parse(door.read_text()))] == []


def test_the_readme_names_only_existing_code() -> None:
    written = re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", (PACKAGE / "README.md").read_text())
    missing = []
    for file, name in written:
        path = PACKAGE.parent / file if file.startswith("tests/") else PACKAGE / file
        if not path.exists():
            missing.append(file)
        elif name and not defines(path, name):
            missing.append(f"{file}::{name}")
    assert len(written) > 50
    assert not missing
