"""Run a yielder: `python3 call_yielder.py FILE`.

This file is run by its path with any Python, so it must not import anything from gputui. It writes one JSON line per
item to its original standard output. Each line on its standard input contains the number of further items that it may
yield. The process exits when its standard input ends.
"""

import json
import os
import sys
import threading


class Allowance:
    """The number of items that may still be taken from the yielder."""

    def __init__(self, requests: int) -> None:
        self._left = 0
        self._requests = requests
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with os.fdopen(self._requests, "rb", buffering=0) as requests:
            for line in iter(requests.readline, b""):
                with self._changed:
                    self._left += int(line)
                    self._changed.notify()
        os._exit(0)

    def take(self) -> None:
        with self._changed:
            while self._left == 0:
                self._changed.wait()
            self._left -= 1


def plain(value: object) -> object:
    """Convert values that JSON does not support, such as NumPy numbers and paths."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


def described(item: object) -> object:
    if isinstance(item, str):
        return {"job": {"command": item}}
    keys = getattr(item, "keys", None)
    if callable(keys):
        return {"job": {str(key): item[key] for key in keys()}}  # type: ignore[index]
    if isinstance(item, (tuple, list, bytes)):
        return {"error": f"yielded {item!r}; yield a string, or a mapping with a command and settings"}
    return {"job": {"command": str(item)}}


def is_nothing(item: object) -> bool:
    """Return whether an item means that the yielder has no job at the moment."""
    return item is None or (isinstance(item, str) and not item.strip())


class NotAYielder(Exception):
    """The file defines no yielder. The message is shown without a traceback."""


def items(path: str) -> object:
    from importlib.util import module_from_spec, spec_from_file_location

    name = os.path.splitext(os.path.basename(path))[0]
    module_spec = spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = module_from_spec(module_spec)
    sys.modules[name] = module
    module_spec.loader.exec_module(module)
    yielder = getattr(module, "yielder", None)
    if not callable(yielder):
        raise NotAYielder("it has no function yielder(); write one that yields commands")
    yielded = yielder()
    try:
        return iter(yielded)
    except TypeError:
        raise NotAYielder(f"yielder() returned {yielded!r}; it must yield commands, or return a list of them") from None


def main(path: str) -> int:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape", buffering=1)
    os.dup2(2, 1)  # the yielder's own prints go to stderr
    requests = os.dup(0)  # not inherited by child processes, like `out`
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.dont_write_bytecode = True  # a stale cache would be used if a file is edited twice within a second
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    sys.argv[:] = [path]
    allowance = Allowance(requests)

    def reply(message: object) -> None:
        out.write(json.dumps(message, default=plain) + "\n")

    try:
        yielded = items(path)
        while True:
            allowance.take()
            try:
                item = next(yielded)  # type: ignore[call-overload]
                while is_nothing(item):
                    item = next(yielded)  # type: ignore[call-overload]
            except StopIteration:
                reply({"end": True})
                return 0
            reply(described(item))
    except NotAYielder as error:
        reply({"error": str(error)})
        return 1
    except BaseException as error:
        import traceback

        traceback.print_exc()
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        where = f"line {frames[-1].lineno}: " if frames and frames[-1].filename == os.path.abspath(path) else ""
        error_lines = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
        reply({"error": where + (error_lines[-1] if error_lines else repr(error))})
        return 1


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stderr.flush()
    os._exit(code)
