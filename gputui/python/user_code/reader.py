"""Load a user's .py file in a separate process and answer requests about it as lines of JSON.

The arguments are `read FILE REQUESTS ANSWERS`, where the last two are descriptors. The first answer describes what the
file defines. Each request `{"do": WORD, …}` is answered with `{"ok": …}` or `{"error": message}`. Output that the file
prints goes to stderr.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from importlib.util import find_spec
from typing import Any

from . import bundle
from .bundle import QuietConfigManager
from .modules import MAIN, LoadedFile, NotFound, describe_error, locate
from .old_names import provide_old_names


def main(words: list[str]) -> int:
    path, requests, answers = words[0], int(words[1]), int(words[2])
    for fd in (requests, answers):
        os.set_inheritable(fd, False)
    os.dup2(2, 1)
    sys.dont_write_bytecode = True  # a stale cache would be used if a file is edited twice within a second
    sys.path[:0] = [os.path.dirname(os.path.abspath(path)), os.getcwd()]
    sys.argv = [path]
    provide_old_names()
    with open(requests, "rb") as lines, open(answers, "wb") as replies:
        return _serve(path, lines, replies)


def _serve(path: str, requests: Any, replies: Any) -> int:
    def answer(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message).encode() + b"\n")
        replies.flush()

    try:
        file = LoadedFile(path)
        answer({"ok": {"defines": file.defines()}})
    except BaseException as error:
        answer({"error": describe_error(error, path)})
        return 1
    for line in requests:
        request = json.loads(line)
        try:
            assert request["do"] == "config"
            answer({"ok": bundle.make_bundle(_manager(file), _task(file, request.get("task")))})
        except (bundle.BadConfig, NotFound) as error:
            answer({"error": f"{os.path.basename(path)}: {error}"})
        except BaseException as error:
            answer({"error": describe_error(error, path)})
    return 0


BASE = "GPUTask"
LARGEST_FILE = 1 << 20


_TYPES = {"scheduler_config": "a dictionary", "global_config": "a dictionary", "test_config": "a list of dictionaries"}


def _manager(read: LoadedFile) -> QuietConfigManager:
    if read.reached is not None:
        manager: QuietConfigManager = read.reached.scheduler._config_manager
        return manager
    config = read.module.__dict__.get("config")
    if not isinstance(config, dict):
        raise bundle.BadConfig(f"config is {type(config).__name__}, but must be a dictionary")
    for key, kind in (("scheduler_config", dict), ("global_config", dict), ("test_config", (list, tuple))):
        if key in config and not isinstance(config[key], kind):
            raise bundle.BadConfig(f"{key} is {type(config[key]).__name__}, but must be {_TYPES[key]}")
    return QuietConfigManager(config)


def _task(read: LoadedFile, named: str | None) -> dict[str, Any]:
    if named is not None:
        return _named(named)
    if read.reached is not None:
        return _of_script(read, read.reached.scheduler._gpu_task_class)
    classes = {thing for thing in vars(read.module).values() if _is_task(thing)}
    classes -= {base for cls in classes for base in cls.__mro__[1:]}
    if len(classes) == 1:
        return locate(classes.pop())
    written = sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in classes) or _beside(read.path)
    if len(written) == 1:
        return _named(written[0])
    if written:
        raise bundle.BadConfig(f"several tasks found; choose one: --task {', --task '.join(written)}")
    raise bundle.BadConfig(f"no subclass of {BASE} found in it or beside it; name yours: --task MODULE.CLASS")


def _of_script(read: LoadedFile, cls: type) -> dict[str, Any]:
    """Describe a class that is defined in a script.

    The script must later be loaded as a script, because it would start its tasks if it were imported as a module.
    """
    if cls.__module__ != read.module.__name__:
        return locate(cls)
    main = {"name": None, "file": os.path.abspath(read.path)}
    return {"module": MAIN, "name": cls.__qualname__, "main": main}


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
    """Find a class without importing its module. Only the job imports it."""
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
