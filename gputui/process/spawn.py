"""Start processes that may outlive this one, with an exact set of descriptors and with default signal handlers.

This calls `posix_spawn` of the C library. Python's own function blocks all threads until the child has called exec, and
lacks options in some builds (conda's build cannot start a session).
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple


class OpenedPath(NamedTuple):
    """A file that the child opens itself."""

    path: str
    flags: int
    mode: int = 0


class CopyOf(NamedTuple):
    """A copy of another descriptor of the child."""

    number: int


Descriptors = Mapping[int, int | OpenedPath | CopyOf]
"""The child's descriptors by number. An int is one of our descriptors, which is copied."""

_NOWHERE = OpenedPath(os.devnull, os.O_WRONLY)
_STANDARD: Descriptors = {0: OpenedPath(os.devnull, os.O_RDONLY), 1: _NOWHERE, 2: _NOWHERE}


def spawn(arguments: Sequence[str], environment: Mapping[str, str], descriptors: Descriptors) -> int:
    """Start a program in a new session with default signal handlers, and return its pid.

    The first argument is the path of the program. Descriptors 0, 1 and 2 are /dev/null unless given. All other
    descriptors that are not given are closed. Raise OSError, or ValueError for NUL bytes.
    """
    c, quick = c_library(), quick_c_library()
    import ctypes

    pid = ctypes.c_int()
    words, variables = _strings(arguments), _strings(_variables(environment))
    actions = ctypes.create_string_buffer(_ROOM)
    with _out_of_the_way({**_STANDARD, **descriptors}) as wanted:
        _checked(quick.posix_spawn_file_actions_init(actions))
        try:
            _arrange(quick, actions, wanted)
            _checked(c.posix_spawn(ctypes.byref(pid), words[0], actions, _attributes(), words, variables))
        finally:
            quick.posix_spawn_file_actions_destroy(actions)
    return pid.value


@contextmanager
def _out_of_the_way(descriptors: Descriptors) -> Iterator[Descriptors]:
    """Copy our descriptors to numbers above the child's, so that none is overwritten before the child copies it."""
    above = max(descriptors) + 1
    high: dict[int, int] = {}
    try:
        for fd in descriptors.values():
            if isinstance(fd, int) and fd < above and fd not in high:
                high[fd] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)
        yield {number: high.get(to, to) if isinstance(to, int) else to for number, to in descriptors.items()}
    finally:
        for fd in high.values():
            os.close(fd)


_SETSIGDEF, _SETSIGMASK, _SETSID = 0x04, 0x08, 0x80
_ROOM = 1024
"""Bytes to reserve for a structure of the C library. The largest one in glibc needs 336 bytes."""


@cache
def c_library() -> Any:
    """Return the C library. Raise OSError if this Python cannot load it."""
    try:
        import ctypes  # slow to import
    except ImportError:
        raise OSError(errno.ENOSYS, "this Python was built without ctypes") from None
    return ctypes.CDLL(None)


@cache
def quick_c_library() -> Any:
    """Return the C library for calls that never wait. They do not release Python's interpreter lock."""
    import ctypes

    return ctypes.PyDLL(None)


def _strings(items: Sequence[str]) -> Any:
    """Return a C array of strings that ends with a null pointer."""
    import ctypes

    pieces = os.fsencode("\0".join(items)).split(b"\0") if items else []
    if len(pieces) != len(items):
        raise ValueError("embedded null byte")
    return (ctypes.c_char_p * (len(items) + 1))(*pieces)


def _variables(environment: Mapping[str, str]) -> list[str]:
    if "" in environment or "=" in "".join(environment):
        raise ValueError("illegal environment variable name")
    return [f"{name}={value}" for name, value in environment.items()]


def _arrange(c: Any, actions: Any, descriptors: Descriptors) -> None:
    """Add the file actions. Files are opened first, because a path may use a descriptor that a copy replaces."""
    for number, to in descriptors.items():
        if isinstance(to, OpenedPath):
            _checked(c.posix_spawn_file_actions_addopen(actions, number, os.fsencode(to.path), to.flags, to.mode))
    for number, to in descriptors.items():
        if isinstance(to, int):
            _checked(c.posix_spawn_file_actions_adddup2(actions, to, number))
    for number, to in descriptors.items():
        if isinstance(to, CopyOf):
            _checked(c.posix_spawn_file_actions_adddup2(actions, to.number, number))
    above = max(descriptors) + 1
    unwanted = set(range(above)) if _closes_from() else _inherited()
    for fd in unwanted - descriptors.keys():
        _checked(c.posix_spawn_file_actions_addclose(actions, fd))
    if _closes_from():
        _checked(c.posix_spawn_file_actions_addclosefrom_np(actions, above))


def _closes_from() -> bool:
    """Return whether the C library can close all descriptors above a number (glibc 2.34 or later)."""
    return hasattr(c_library(), "posix_spawn_file_actions_addclosefrom_np")


@cache
def _inherited() -> frozenset[int]:
    """Return the inheritable descriptors that our parent left open. Our own descriptors are closed automatically."""
    import resource

    # posix_spawn would fail for a descriptor beyond the limit.
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    inherited = set()
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            if 2 < fd < limit and os.get_inheritable(fd):
                inherited.add(fd)
    return frozenset(inherited)


@cache
def _attributes() -> Any:
    """Return the attributes for a new session with default signal handlers and no blocked signals."""
    import ctypes

    c = c_library()
    attributes, signals = ctypes.create_string_buffer(_ROOM), ctypes.create_string_buffer(_ROOM)
    _checked(c.posix_spawnattr_init(attributes))
    _checked(c.posix_spawnattr_setflags(attributes, ctypes.c_short(_SETSID | _SETSIGDEF | _SETSIGMASK)))
    c.sigemptyset(signals)
    _checked(c.posix_spawnattr_setsigmask(attributes, signals))
    c.sigfillset(signals)
    _checked(c.posix_spawnattr_setsigdefault(attributes, signals))
    return attributes


def _checked(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
