"""Load users' modules, find classes and functions in them, and describe their errors."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

MAIN = "__main__"
LOADED_MAIN = "__mp_main__"
"""Module name of a main script that is loaded only for its definitions, as in multiprocessing."""


class NotFound(ValueError):
    """Raised when a class, function or module was not found. The message is shown to the user."""


class Reached(BaseException):
    """Raised when a script that is loaded for its definitions reaches the line that would start its tasks.

    This is not derived from Exception, so that an `except Exception` in the script does not catch it.
    """

    def __init__(self, scheduler: Any) -> None:
        super().__init__()
        self.scheduler = scheduler


class Loading:
    """The state of loading a user's script for its definitions."""

    now = False
    wanted: str | None = None
    """Name of the task class for which loading stops when its tasks would be started. None means any class."""

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
        """Stop loading the script because it starts tasks of the wanted class."""
        if cls.wanted is None or cls.wanted == task:
            raise Reached(scheduler)


NOTHING_STARTS = ""
"""Value of `wanted` that matches no class.

It is used for imported modules. A module that would start tasks is then loaded to its end without starting any.
"""


def load_file(path: str) -> tuple[ModuleType, Reached | None]:
    """Load a file as a module named after the file, so that pickles can refer to it.

    Return the module and, if loading stopped early, the point that it reached.
    """
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


def locate(thing: Any) -> dict[str, Any]:
    """Describe where another process can import a class or function from. Raise NotFound if it cannot be imported
    there.
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if module is None or not name or "<" in name:
        raise NotFound(f"{name or thing!r} is not defined at the top level of a module, so jobs cannot find it")
    if module in (MAIN, LOADED_MAIN):
        return {"module": MAIN, "name": name, "main": main_script()}
    file = getattr(sys.modules.get(module), "__file__", None)
    return {"module": module, "name": name, "file": os.path.abspath(file) if file else None}


def main_script() -> dict[str, str | None]:
    """Describe the running script, by its module name if it was started with -m and by its path otherwise."""
    main = sys.modules[MAIN]
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if spec is None and (file is None or not os.path.exists(file)):
        raise NotFound("jobs cannot find code defined at a prompt or in a notebook; put it in a file")
    return {"name": spec.name if spec is not None else None, "file": os.path.abspath(file) if file else None}


def import_object(where: dict[str, Any]) -> Any:
    """Import a class or function from a description made by `locate`."""
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
    """Load the main script of another process without running its `if __name__ == "__main__"` part."""
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
        return spec.loader.get_code(name)  # type: ignore[attr-defined]  # exists for modules that run with -m
    if file is None:
        raise NotFound(f"module {name} no longer exists")
    module.__file__ = file
    with open(file, "rb") as opened:
        return compile(opened.read(), file, "exec")


def _imported(name: str, file: str | None) -> ModuleType:
    from importlib import import_module

    try:
        with Loading.script(NOTHING_STARTS):
            return import_module(name)
    except ModuleNotFoundError as error:
        # Failed imports within the module are reported as they are.
        if file is None or error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not os.path.exists(file):
        raise NotFound(f"no module {name}, and {file} is gone")
    module = module_from_spec(spec)
    sys.modules[name] = module
    with Loading.script(NOTHING_STARTS):
        spec.loader.exec_module(module)
    return module


# Reading files that only this user can have written


OTHERS_WRITE = 0o022
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Untrusted(OSError):
    """Raised when other users could have written a file. The message is shown to the user."""


def open_own(path: str, above: int | None = None) -> int:
    """Open a regular file that belongs to this user and that no other user can write.

    Raise Untrusted for any other file. `above` is a descriptor of the file's directory.
    """
    try:
        fd = os.open(path if above is None else os.path.basename(path), _READ, dir_fd=above)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Untrusted(f"{path} is a symlink; not read") from error
        raise
    why = why_untrusted(os.fstat(fd), path)
    if why is None:
        return fd
    os.close(fd)
    raise Untrusted(why)


def why_untrusted(about: os.stat_result, path: str) -> str | None:
    """Return the reason why a file or directory is not trusted, or None if only this user can write it."""
    if about.st_uid != os.getuid():
        return f"{path} belongs to another user; not read"
    if about.st_mode & OTHERS_WRITE:
        return f"others can write to {path}; not read; if you trust it: chmod go-w {path}"
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        return f"{path} is neither a file nor a directory; not read"
    return None


USER_CODE = os.path.dirname(os.path.abspath(__file__))
"""The directory of this package. Its path is used with Python interpreters in which gputui is not installed."""


def keepsake(session: str, name: str) -> str:
    """Return the path of a keepsake, which is a file that the session keeps for a job."""
    return os.path.join(session, ".gputui", "keepsakes", name)


# Errors of users' code


LONGEST = 500


def describe_error(error: BaseException, path: str) -> str:
    """Describe an error and the position in the given file where it occurred."""
    line = line_of(error, os.path.abspath(path))
    where = os.path.basename(path) + (f", line {line}" if line else "")
    return f"{where}: {words(error)}"


def words(error: BaseException) -> str:
    """Describe an error in the form of a traceback's last line."""
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r})"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    try:
        text = str(error).partition("\n")[0]
    except Exception:  # a user's exception may fail even at this
        text = ""
    name = type(error).__name__
    return f"{name}: {text[:LONGEST]}" if text else name


def line_of(error: BaseException, path: str) -> int | None:
    """Return the line of the file in which an error occurred, or None if it occurred elsewhere."""
    if isinstance(error, SyntaxError) and error.filename is not None and os.path.abspath(error.filename) == path:
        return error.lineno
    line, step = None, error.__traceback__
    while step is not None:
        if os.path.abspath(step.tb_frame.f_code.co_filename) == path:
            line = step.tb_lineno
        step = step.tb_next
    return line


def format_traceback(error: BaseException) -> str:
    """Format a traceback, omitting frames of gputui and importlib above the user's code."""
    from traceback import format_exception

    step = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not (file.startswith(USER_CODE) or "importlib" in file):
            break
        step = step.tb_next
    return "".join(format_exception(type(error), error, step or error.__traceback__))


def exit_at_once() -> None:
    """End this process without waiting for threads that the user's code may have started."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
