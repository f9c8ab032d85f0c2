"""The process that reads a configuration, started as `read FILE TASK ANSWER`.

TASK is the name of the task class, or empty if it is to be found. The answer is written as JSON to the descriptor
ANSWER: `{"ok": bundle}`, with null for a file that defines no configuration, or `{"error": message}`. Output that the
file prints goes to stderr.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from . import bundle
from .bundle import QuietConfigManager, provide_old_names
from .modules import MAIN, NotFound, Reached, describe_error, exit_at_once, load_file, locate


def main(words: list[str]) -> None:
    path, task, answer = words[0], words[1], int(words[2])
    os.set_inheritable(answer, False)
    os.dup2(2, 1)
    sys.dont_write_bytecode = True  # a stale cache would be used if a file is edited twice within a second
    sys.path[:0] = [os.path.dirname(os.path.abspath(path)), os.getcwd()]
    sys.argv = [path]
    provide_old_names()
    reply: dict[str, Any]
    try:
        reply = {"ok": _read(path, task)}
    except (bundle.BadConfig, NotFound) as error:
        reply = {"error": f"{os.path.basename(path)}: {error}"}
    except BaseException as error:
        reply = {"error": describe_error(error, path)}
    with open(answer, "wb") as file:
        file.write(json.dumps(reply).encode())
    exit_at_once()


def _read(path: str, task: str) -> bundle.Bundle | None:
    module, reached = load_file(path)
    if reached is None and not hasattr(module, "config"):
        return None
    manager = reached.scheduler._config_manager if reached is not None else _manager(module.config)
    return bundle.make_bundle(manager, _named(task) if task else _task(path, module, reached))


BASE = "GPUTask"
LARGEST_FILE = 1 << 20


_TYPES = {"scheduler_config": "a dictionary", "global_config": "a dictionary", "test_config": "a list of dictionaries"}


def _manager(config: Any) -> QuietConfigManager:
    if not isinstance(config, dict):
        raise bundle.BadConfig(f"config is {type(config).__name__}, but must be a dictionary")
    for key, kind in (("scheduler_config", dict), ("global_config", dict), ("test_config", (list, tuple))):
        if key in config and not isinstance(config[key], kind):
            raise bundle.BadConfig(f"{key} is {type(config[key]).__name__}, but must be {_TYPES[key]}")
    return QuietConfigManager(config)


def _task(path: str, module: ModuleType, reached: Reached | None) -> dict[str, Any]:
    if reached is not None:
        cls = reached.scheduler._gpu_task_class
        if cls.__module__ != module.__name__:
            return locate(cls)
        # A script would start its tasks if it were imported as a module, so it has to be loaded as a script.
        return {"module": MAIN, "name": cls.__qualname__, "main": {"name": None, "file": os.path.abspath(path)}}
    classes = {thing for thing in vars(module).values() if _is_task(thing)}
    classes -= {base for cls in classes for base in cls.__mro__[1:]}
    if len(classes) == 1:
        return locate(classes.pop())
    written = sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in classes) or _beside(path)
    if len(written) == 1:
        return _named(written[0])
    if written:
        raise bundle.BadConfig(f"several tasks found; choose one: --task {', --task '.join(written)}")
    raise bundle.BadConfig(f"no subclass of {BASE} found in it or beside it; name yours: --task MODULE.CLASS")


def _is_task(thing: object) -> bool:
    return isinstance(thing, type) and any(base.__name__ == BASE for base in thing.__mro__[1:])


def _beside(path: str) -> list[str]:
    """Return the classes derived from GPUTask in files next to the configuration, without importing the files."""
    directory = os.path.dirname(os.path.abspath(path))
    files = sorted(name for name in os.listdir(directory) if name.endswith(".py") and name[:-3].isidentifier())
    return [f"{file[:-3]}.{cls}" for file in files for cls in _task_classes(os.path.join(directory, file))]


def _task_classes(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(LARGEST_FILE))
    except (OSError, SyntaxError, ValueError):
        return []
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [node.name for node in classes if any(_last_name(base) == BASE for base in node.bases)]


def _last_name(base: ast.expr) -> str | None:
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else None


def _named(written: str) -> dict[str, Any]:
    """Find a class without importing its module. Only the job imports the module."""
    module, _, name = written.replace(":", ".").rpartition(".")
    if not module or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise bundle.BadConfig(f"invalid --task {written}: use MODULE.CLASS")
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise bundle.BadConfig(f"--task {written}: module {module} not found beside it or on the Python path")
    if spec.origin is not None and not _may_hold(spec.origin, name):
        class_names = _task_classes(spec.origin)
        hint = f"; available: {', '.join(class_names)}" if class_names else ""
        raise bundle.BadConfig(f"--task {written}: {os.path.basename(spec.origin)} has no {name}{hint}")
    return {"module": module, "name": name, "file": spec.origin}


def _may_hold(path: str, name: str) -> bool:
    """Return whether the name occurs in the file's text.

    This also finds the names of classes that are created dynamically.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return not path.endswith(".py") or name in file.read()
    except OSError:
        return True
