"""The layout explains itself: imports point downwards, and the map names only what is there."""

from __future__ import annotations

import ast
import re

from support.house import PACKAGE, Arrow, arrows, defines, imports, sources

_BOTTOM = ("core", "process")
_MIDDLE = (*_BOTTOM, "views", "engines", "gpus", "sources", "logs", "python.user_code")
_SESSION = (*_MIDDLE, "session")
_TOP = (*_SESSION, "python.api", "hosts", "tui", "demo")
MAY_IMPORT: dict[str, tuple[str, ...]] = {  # besides themselves; the longest name that fits a module is its room
    "core": (),
    "process": (),
    "python.user_code": (),
    "views": ("core",),
    "logs": _BOTTOM,
    "engines": _BOTTOM,
    "gpus": _BOTTOM,
    "sources": (*_BOTTOM, "python.user_code"),
    "session": _MIDDLE,
    "python.api": _SESSION,
    "tasks": ("python.user_code", "python.api"),
    "hosts": _SESSION,
    "tui": (*_SESSION, "hosts"),
    "tui.terminal": ("core", "logs"),
    "demo": (*_SESSION, "tui"),
    "cli": (*_TOP, "__main__"),
}
ONLY_THERE = {  # what is heavy or dangerous is imported in these rooms alone
    "textual": ("tui", "demo"),
    "rich": ("tui", "demo", "views"),
    "pynvml": ("gpus.nvml",),
    "sqlite3": ("session.store",),
    "asyncio": ("tui",),
}


def _is_in(module: str, room: str) -> bool:
    return module == f"gputui.{room}" or module.startswith(f"gputui.{room}.")


def _room(module: str) -> str | None:
    rooms = [room for room in MAY_IMPORT if _is_in(module, room)]
    return max(rooms, key=len) if rooms else None


def _forbidden(arrow: Arrow) -> str | None:
    """The sentence about an arrow that may not be."""
    importer, imported = arrow
    library = imported.partition(".")[0]
    if library in ONLY_THERE and not any(_is_in(importer, room) for room in ONLY_THERE[library]):
        return f"{importer} imports {imported}: only {', '.join(ONLY_THERE[library])} may"
    room = _room(importer)
    if library != "gputui" or room is None or imported in ("gputui", "gputui.__version__"):
        return None
    if any(_is_in(imported, below) for below in (room, *MAY_IMPORT[room])):
        return None
    return f"{importer} imports {imported}: {room} may import only {', '.join(MAY_IMPORT[room]) or 'itself'}"


def test_no_module_imports_a_room_that_is_not_below_its_own() -> None:
    forbidden = [sentence for arrow in arrows() if (sentence := _forbidden(arrow)) is not None]
    assert not forbidden, "\n".join(forbidden)


def test_a_forbidden_import_is_named_with_both_its_ends() -> None:
    tree = ast.parse("def f():\n    from ..session.owner.owner import Owner\n")
    (imported,) = imports("gputui.core.job", tree)
    sentence = _forbidden(Arrow("gputui.core.job", imported))
    assert sentence == "gputui.core.job imports gputui.session.owner.owner.Owner: core may import only itself"


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


def test_every_module_is_in_a_room_whose_arrows_are_known() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE, PACKAGE / "python"}
    strays = [
        str(folder) for folder in folders if _room("gputui." + ".".join(folder.relative_to(PACKAGE).parts)) is None
    ]
    assert not strays


def test_every_room_says_at_its_door_what_it_is_for() -> None:
    doors = PACKAGE.rglob("__init__.py")
    assert [str(door) for door in doors if not ast.get_docstring(ast.parse(door.read_text()))] == []


def test_the_map_names_only_what_is_there() -> None:
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
