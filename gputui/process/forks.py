"""Descriptors that this process alone may hold: a worker that somebody's program forks closes them before it goes on.

Programs of users fork (multiprocessing does), in one thread while another asks a session something. Without this the
worker would hold the session's lock for as long as it lives. Nothing here matters to a child that calls exec.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

_ours: set[int] = set()
_gate = threading.Lock()
"""Held while somebody forks, and while a descriptor is opened that is not among ours yet."""


def opened(path: str, flags: int, mode: int = 0o600) -> int:
    """As `os.open`, for this process alone; to be closed by `close`."""
    with _gate:
        fd = os.open(path, flags | os.O_CLOEXEC, mode)
        _ours.add(fd)
    return fd


def keep(fd: int) -> None:
    """One that came from elsewhere; to be closed by `close`."""
    _ours.add(fd)


def close(fd: int) -> None:
    with _gate:
        _ours.discard(fd)
        os.close(fd)


def _in_child() -> None:
    for fd in _ours:
        with suppress(OSError):
            os.close(fd)
    _ours.clear()
    _gate.release()


os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_in_child)
