"""Private file descriptors, which are closed in forked workers."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

_private: set[int] = set()
_gate = threading.Lock()
"""A lock that is held during a fork, and while a private descriptor is already open but not yet registered."""


def open_private(path: str, flags: int, mode: int = 0o600) -> int:
    """Open a file for this process only. The caller must close it with `close_private`."""
    with _gate:
        fd = os.open(path, flags | os.O_CLOEXEC, mode)
        _private.add(fd)
    return fd


def keep_private(fd: int) -> None:
    """Register a descriptor as private. The caller must close it with `close_private`."""
    _private.add(fd)


def close_private(fd: int) -> None:
    with _gate:
        _private.discard(fd)
        os.close(fd)


def _in_child() -> None:
    for fd in _private:
        with suppress(OSError):
            os.close(fd)
    _private.clear()
    _gate.release()


os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_in_child)
