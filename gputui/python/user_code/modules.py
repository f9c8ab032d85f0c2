"""Users' modules: loading a file, finding its classes, reading only the user's own files, errors in one sentence."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# ---- Users' modules ----


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


# ---- Reading what only this user can have written, where others may write beside us ----


OTHERS_WRITE = 0o022
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Doubtful(OSError):
    """It is there, but others could have written it; the message is the sentence the user reads."""


def open_own(path: str, above: int | None = None) -> int:
    """A descriptor of a plain file of this user that nobody else can write; Doubtful for any other.

    `above`: the descriptor of the folder that holds it, if that was looked at.
    """
    try:
        fd = os.open(path if above is None else os.path.basename(path), _READ, dir_fd=above)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Doubtful(f"{path} is a link, so it is not read") from error
        raise
    why = doubt(os.fstat(fd), path)
    if why is None:
        return fd
    os.close(fd)
    raise Doubtful(why)


def doubt(about: os.stat_result, path: str) -> str | None:
    """The sentence why a file or folder is not believed; None: it is this user's alone."""
    if about.st_uid != os.getuid():
        return f"{path} belongs to another user, so it is not read"
    if about.st_mode & OTHERS_WRITE:
        return f"others can write to {path}, so it is not read; if you trust it: chmod go-w {path}"
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        return f"{path} is neither a file nor a folder, so it is not read"
    return None


# ---- Where a job finds what its session keeps for it ----


USER_CODE = os.path.dirname(os.path.abspath(__file__))
"""This folder, for Pythons that have no gputui: they are given its path."""


def keepsake(session: str, name: str) -> str:
    return os.path.join(session, ".gputui", "keepsakes", name)


# ---- What went wrong in a user's Python, in one sentence ----


LONGEST = 500


def sentence(error: BaseException, path: str) -> str:
    """Where in this file it happened, and what."""
    line = _line(error, os.path.abspath(path))
    where = os.path.basename(path) + (f", line {line}" if line else "")
    return f"{where}: {words(error)}"


def words(error: BaseException) -> str:
    """As Python's last line of a traceback."""
    if isinstance(error, SystemExit):
        return f"it left with sys.exit({error.code!r}) instead of defining something"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    try:
        text = str(error).partition("\n")[0]
    except Exception:  # a user's exception may fail even at this
        text = ""
    name = type(error).__name__
    return f"{name}: {text[:LONGEST]}" if text else name


def _line(error: BaseException, path: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename is not None and os.path.abspath(error.filename) == path:
        return error.lineno
    line, step = None, error.__traceback__
    while step is not None:
        if os.path.abspath(step.tb_frame.f_code.co_filename) == path:
            line = step.tb_lineno
        step = step.tb_next
    return line


# ---- Tracebacks as users want them ----


OURS = os.path.dirname(os.path.abspath(__file__))


def text(error: BaseException) -> str:
    from traceback import format_exception

    step = error.__traceback__
    while step is not None and _is_ours(step.tb_frame.f_code.co_filename):
        step = step.tb_next
    return "".join(format_exception(type(error), error, step or error.__traceback__))


def _is_ours(file: str) -> bool:
    return file.startswith(OURS) or "importlib" in file


@contextmanager
def told() -> Iterator[None]:
    """An exception is printed and goes no further; leaving and being interrupted are left to Python."""
    try:
        yield
    except Exception as error:
        sys.stdout.flush()
        print(text(error), end="", file=sys.stderr, flush=True)


# ---- A file that was loaded ----


LOOKED_FOR = ("config", "yielder")


class FileRefused(Exception):
    """An order that cannot be carried out; the message is the sentence the user reads."""


class LoadedFile:
    """A file that was loaded."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.module: ModuleType
        self.reached: Reached | None
        self.module, self.reached = load_file(path)

    def defines(self) -> list[str]:
        if self.reached is not None:
            return ["config"]
        named = [name for name in LOOKED_FOR if hasattr(self.module, name)]
        config = getattr(self.module, "config", None)
        if len(named) > 1 and not (isinstance(config, dict) and "scheduler_config" in config):
            named.remove("config")  # the word may mean anything
        return named
