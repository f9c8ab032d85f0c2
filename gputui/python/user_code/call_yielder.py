"""The process that runs a yielder, started as `yield FILE`.

It writes one JSON line per item to its original standard output. Each line on its standard input contains the number of
further items that it may yield. The process exits when its standard input ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from .modules import NotFound, exit_at_once, format_traceback, line_of, load_file, words


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


def main(arguments: list[str]) -> None:
    path = arguments[0]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape", buffering=1)
    os.dup2(2, 1)  # the yielder's own prints go to stderr
    allowance = Allowance(os.dup(0))  # not inherited by child processes, like `out`
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.dont_write_bytecode = True  # a stale cache would be used if a file is edited twice within a second
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.argv[:] = [path]
    try:
        items = _items(path)
        while True:
            allowance.take()
            item = next((item for item in items if not _is_nothing(item)), None)
            reply = {"end": True} if item is None else _described(item)
            out.write(json.dumps(reply, default=_plain) + "\n")
            if item is None:
                break
    except NotFound as error:
        out.write(json.dumps({"error": str(error)}) + "\n")
    except BaseException as error:
        print(format_traceback(error), end="", file=sys.stderr)
        line = line_of(error, os.path.abspath(path))
        out.write(json.dumps({"error": (f"line {line}: " if line else "") + words(error)}) + "\n")
    exit_at_once()


def _items(path: str) -> Iterator[Any]:
    module, _ = load_file(path)
    yielder = getattr(module, "yielder", None)
    if not callable(yielder):
        raise NotFound("it has no function yielder(); write one that yields commands")
    yielded = yielder()
    try:
        return iter(yielded)
    except TypeError:
        raise NotFound(f"yielder() returned {yielded!r}; it must yield commands, or return a list of them") from None


def _described(item: Any) -> dict[str, Any]:
    if isinstance(item, str):
        return {"job": {"command": item}}
    keys = getattr(item, "keys", None)
    if callable(keys):
        return {"job": {str(key): item[key] for key in keys()}}
    if isinstance(item, (tuple, list, bytes)):
        return {"error": f"yielded {item!r}; yield a string, or a mapping with a command and settings"}
    return {"job": {"command": str(item)}}


def _is_nothing(item: Any) -> bool:
    """Return whether an item means that the yielder has no job at the moment."""
    return item is None or (isinstance(item, str) and not item.strip())


def _plain(value: Any) -> Any:
    """Convert values that JSON does not support, such as NumPy numbers and paths."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)
