"""File descriptors: those a new process is given, and those that no forked worker may keep."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

# ---- What a new process finds under the numbers of its descriptors, told before it exists ----


class OpenedPath(NamedTuple):
    """Opened by the child or for it, so that whoever starts it needs no descriptor."""

    path: str
    flags: int
    mode: int = 0


class Same(NamedTuple):
    """What another number of the child leads to."""

    number: int


Descriptors = Mapping[int, int | OpenedPath | Same]
"""The child's numbers; a plain int is a descriptor of ours."""

NOTHING_TO_READ = OpenedPath(os.devnull, os.O_RDONLY)
NOWHERE = OpenedPath(os.devnull, os.O_WRONLY)
STANDARD: Descriptors = {0: NOTHING_TO_READ, 1: NOWHERE, 2: NOWHERE}


@contextmanager
def out_of_the_way(descriptors: Descriptors) -> Iterator[Descriptors]:
    """The same with ours above all of the child's numbers, so that none is overwritten before it is copied."""
    above = max(descriptors) + 1
    low = {fd for fd in descriptors.values() if isinstance(fd, int) and fd < above}
    if not low:
        yield descriptors
        return
    high: dict[int, int] = {}
    try:
        for fd in low:
            high[fd] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)
        yield {number: high.get(to, to) if isinstance(to, int) else to for number, to in descriptors.items()}
    finally:
        for fd in high.values():
            os.close(fd)


# ---- Descriptors that this process alone may hold ----


_private: set[int] = set()
_gate = threading.Lock()
"""Held while somebody forks, and while a descriptor is opened that is not among ours yet."""


def open_private(path: str, flags: int, mode: int = 0o600) -> int:
    """As `os.open`, for this process alone; to be closed by `close_private`."""
    with _gate:
        fd = os.open(path, flags | os.O_CLOEXEC, mode)
        _private.add(fd)
    return fd


def keep_private(fd: int) -> None:
    """One that came from elsewhere; to be closed by `close_private`."""
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
