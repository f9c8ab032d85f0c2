"""A configuration file as the reader describes it to gputui: a bundle, once it is known which class is the task."""

from __future__ import annotations

import ast
import os
from importlib.util import find_spec
from typing import Any

from . import bundle
from .bundle import QuietConfigManager
from .modules import MAIN, FileRefused, LoadedFile, NotFound, whereabouts

BASE = "GPUTask"
LARGEST_FILE = 1 << 20


def described(read: LoadedFile, order: dict[str, Any]) -> dict[str, Any]:
    """`task`: the class that the user named, if one was named."""
    try:
        return bundle.made(_manager(read), _task(read, order.get("task")))
    except (bundle.BadConfig, NotFound) as error:
        raise FileRefused(f"{os.path.basename(read.path)}: {error}") from None


def _manager(read: LoadedFile) -> QuietConfigManager:
    if read.reached is not None:
        manager: QuietConfigManager = read.reached.scheduler._config_manager
        return manager
    config = read.module.__dict__.get("config")
    if not isinstance(config, dict):
        raise bundle.BadConfig(f"config is {type(config).__name__}, and should be a dictionary")
    for key, kind in (("scheduler_config", dict), ("global_config", dict), ("test_config", (list, tuple))):
        if key in config and not isinstance(config[key], kind):
            raise bundle.BadConfig(f"{key} is {type(config[key]).__name__}, and should be {_NAMES[key]}")
    return QuietConfigManager(config)


_NAMES = {"scheduler_config": "a dictionary", "global_config": "a dictionary", "test_config": "a list of dictionaries"}


def _task(read: LoadedFile, named: str | None) -> dict[str, Any]:
    if named is not None:
        return _named(named)
    if read.reached is not None:
        return _of_script(read, read.reached.scheduler._gpu_task_class)
    classes = {thing for thing in vars(read.module).values() if _is_task(thing)}
    classes -= {base for cls in classes for base in cls.__mro__[1:]}
    if len(classes) == 1:
        return whereabouts(classes.pop())
    written = sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in classes) or _beside(read.path)
    if len(written) == 1:
        return _named(written[0])
    if written:
        raise bundle.BadConfig(f"which task? Give one of --task {', --task '.join(written)}")
    raise bundle.BadConfig(f"no class derived from {BASE} is in it or beside it; name yours: --task MODULE.CLASS")


def _of_script(read: LoadedFile, cls: type) -> dict[str, Any]:
    """A class of the script itself is found by loading it as a script: as a module it would start its tasks."""
    if cls.__module__ != read.module.__name__:
        return whereabouts(cls)
    main = {"name": None, "file": os.path.abspath(read.path)}
    return {"module": MAIN, "name": cls.__qualname__, "main": main}


def _is_task(thing: object) -> bool:
    return isinstance(thing, type) and any(base.__name__ == BASE for base in thing.__mro__[1:])


def _beside(path: str) -> list[str]:
    """Classes derived from GPUTask in the files beside the configuration; these are read, not imported."""
    folder = os.path.dirname(os.path.abspath(path))
    files = sorted(name for name in os.listdir(folder) if name.endswith(".py") and name[:-3].isidentifier())
    return [f"{file[:-3]}.{cls}" for file in files for cls in _task_classes(os.path.join(folder, file))]


def _task_classes(path: str) -> list[str]:
    tree = _parsed(path)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)] if tree is not None else []
    return [node.name for node in classes if any(_last_name(base) == BASE for base in node.bases)]


def _last_name(base: ast.expr) -> str | None:
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else None


def _parsed(path: str) -> ast.Module | None:
    try:
        with open(path, "rb") as file:
            return ast.parse(file.read(LARGEST_FILE))
    except (OSError, SyntaxError, ValueError):
        return None


def _named(written: str) -> dict[str, Any]:
    """Looked up without importing it: that is left to the job."""
    module, _, name = written.replace(":", ".").rpartition(".")
    if not module or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise bundle.BadConfig(f"--task {written} is no MODULE.CLASS")
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise bundle.BadConfig(f"--task {written}: there is no module {module} beside it or where Python looks")
    if spec.origin is not None and not _may_hold(spec.origin, name):
        class_names = _task_classes(spec.origin)
        hint = f"; it has {', '.join(class_names)}" if class_names else ""
        raise bundle.BadConfig(f"--task {written}: {os.path.basename(spec.origin)} has no {name}{hint}")
    return {"module": module, "name": name, "file": spec.origin}


def _may_hold(path: str, name: str) -> bool:
    """Whether the file's text mentions the name at all; who makes classes in other ways still does that."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return not path.endswith(".py") or name in file.read()
    except OSError:
        return True
