"""Users' modules: loading a file, saying where a class or a function can be found again, and finding it there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

MAIN = "__main__"
LOADED_MAIN = "__mp_main__"
"""What a main script is called while it is loaded for what it defines; multiprocessing calls it the same."""


class NotFound(ValueError):
    """The message is the sentence the user reads."""


class Reached(BaseException):
    """A script that is loaded only for what it defines has come to the line that would start its tasks.

    Not an Exception, so that no `except Exception` of the script's own holds it up.
    """

    def __init__(self, scheduler: Any) -> None:
        super().__init__()
        self.scheduler = scheduler


class Loading:
    """Whether a user's script is being loaded for what it defines."""

    now = False
    wanted: str | None = None
    """Only the start of this class's tasks is the end of it; None: the first start of any."""

    @classmethod
    @contextmanager
    def script(cls, wanted: str | None) -> Iterator[None]:
        before = cls.now, cls.wanted
        cls.now, cls.wanted = True, wanted
        try:
            yield
        finally:
            cls.now, cls.wanted = before

    @classmethod
    def reach(cls, scheduler: Any, task: str) -> None:
        """A script came to the line that starts this class's tasks."""
        if cls.wanted is None or cls.wanted == task:
            raise Reached(scheduler)


NOTHING_STARTS = ""
"""No class is called so: an imported module that would start tasks is loaded to its end, and starts none."""


def load_file(path: str) -> tuple[ModuleType, Reached | None]:
    """The file as a module of its own name, which pickles can refer to; and how far it came, if it did not end."""
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_loader

    name = os.path.splitext(os.path.basename(path))[0]
    if name in getattr(sys, "stdlib_module_names", ()) or name == MAIN:
        name = f"{name}_of_user"
    spec = spec_from_loader(name, SourceFileLoader(name, path))
    assert spec is not None
    assert isinstance(spec.loader, SourceFileLoader)
    module = module_from_spec(spec)
    sys.modules[name] = module
    return module, _defined(module, spec.loader.get_code(name))


def _defined(module: ModuleType, code: Any, wanted: str | None = None) -> Reached | None:
    try:
        with Loading.script(wanted):
            exec(code, module.__dict__)
    except Reached as reached:
        return reached
    return None


def whereabouts(thing: Any) -> dict[str, Any]:
    """Where another process finds a class or function of a module; NotFound if it cannot."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if module is None or not name or "<" in name:
        raise NotFound(f"{name or thing!r} is not defined at the top of a module, where a job could find it")
    if module in (MAIN, LOADED_MAIN):
        return {"module": MAIN, "name": name, "main": main_script()}
    file = getattr(sys.modules.get(module), "__file__", None)
    return {"module": module, "name": name, "file": os.path.abspath(file) if file else None}


def main_script() -> dict[str, str | None]:
    """The script that runs, by its name when it was started with -m, else by its path."""
    main = sys.modules[MAIN]
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if spec is None and (file is None or not os.path.exists(file)):
        raise NotFound("what is defined at a prompt or in a notebook cannot be found by a job; put it in a file")
    return {"name": spec.name if spec is not None else None, "file": os.path.abspath(file) if file else None}


def found(where: dict[str, Any]) -> Any:
    """The class or function of `whereabouts`; its module is imported for it."""
    module = (
        load_main(where["main"], where["name"])
        if where["module"] == MAIN
        else _imported(where["module"], where.get("file"))
    )
    thing: Any = module
    for part in where["name"].split("."):
        if not hasattr(thing, part):
            raise NotFound(f"{getattr(module, '__file__', None) or where['module']} has no {where['name']}")
        thing = getattr(thing, part)
    return thing


def load_main(main: dict[str, str | None], wanted: str | None = None) -> ModuleType:
    """The main script of another process, as a module whose guarded part does not run."""
    if LOADED_MAIN in sys.modules:
        return sys.modules[LOADED_MAIN]
    module = ModuleType(LOADED_MAIN)
    code = _code(main, module)
    sys.modules[MAIN] = sys.modules[LOADED_MAIN] = module
    _defined(module, code, wanted)
    return module


def _code(main: dict[str, str | None], module: ModuleType) -> Any:
    from importlib.util import find_spec

    name, file = main["name"], main["file"]
    spec = find_spec(name) if name else None
    if spec is not None and spec.loader is not None and name is not None:
        module.__package__, module.__spec__, module.__file__ = spec.parent, spec, spec.origin
        return spec.loader.get_code(name)  # type: ignore[attr-defined]  # what can be run with -m has it
    if file is None:
        raise NotFound(f"there is no module {name} any more")
    module.__file__ = file
    with open(file, "rb") as opened:
        return compile(opened.read(), file, "exec")


def _imported(name: str, file: str | None) -> ModuleType:
    from importlib import import_module

    try:
        with Loading.script(NOTHING_STARTS):
            return import_module(name)
    except ModuleNotFoundError as error:
        # Its own imports may fail too; that is another story, and told as it is.
        if file is None or error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not os.path.exists(file):
        raise NotFound(f"there is no module {name}, and {file} is gone")
    module = module_from_spec(spec)
    sys.modules[name] = module
    with Loading.script(NOTHING_STARTS):
        spec.loader.exec_module(module)
    return module
