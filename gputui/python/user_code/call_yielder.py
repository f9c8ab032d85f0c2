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


def _listen(requests: int, allowed: threading.Semaphore) -> None:
    """Count the items that may be taken from the yielder."""
    with os.fdopen(requests, "rb", buffering=0) as lines:
        for line in iter(lines.readline, b""):
            for _ in range(int(line)):
                allowed.release()
    os._exit(0)


def main(arguments: list[str]) -> None:
    path = arguments[0]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape", buffering=1)
    os.dup2(2, 1)  # the yielder's own prints go to stderr
    allowed = threading.Semaphore(0)
    requests = os.dup(0)  # not inherited by child processes, like `out`
    threading.Thread(target=_listen, args=(requests, allowed), daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.dont_write_bytecode = True  # a stale cache would be used if a file is edited twice within a second
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.argv[:] = [path]
    try:
        items = _items(path)
        while True:
            allowed.acquire()
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
