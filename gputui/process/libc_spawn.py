"""posix_spawn called in the C library: Python's own lets no other thread run until the child has called exec.

On a busy machine that wait is most of what a start takes; and what Python's own can do depends on where Python was
built (conda's knows no sessions). Offers what `spawn` needs of it and no more.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from .descriptors import Descriptors, OpenedPath, Same

_SETSIGDEF, _SETSIGMASK, _SETSID = 0x04, 0x08, 0x80
_ROOM = 1024
"""Bytes for any of the library's own structures; the largest has 336 in glibc."""
_libc = ctypes.CDLL(None)
_closes_from = hasattr(_libc, "posix_spawn_file_actions_addclosefrom_np")


def posix_spawn(arguments: Sequence[str], environment: Mapping[str, str], descriptors: Descriptors) -> int:
    """NotImplementedError: this C library cannot; other errors are those of `os.posix_spawn`."""
    words, variables, pid = _strings(arguments), _strings(_variables(environment)), ctypes.c_int()
    attributes, actions = _attributes(), ctypes.create_string_buffer(_ROOM)
    _checked(_libc.posix_spawn_file_actions_init(actions))
    try:
        _arrange(actions, descriptors)
        _checked(_libc.posix_spawn(ctypes.byref(pid), words[0], actions, attributes, words, variables))
    finally:
        _libc.posix_spawn_file_actions_destroy(actions)
    return pid.value


def _strings(items: Sequence[str]) -> Any:
    """As C wants them: an array that ends with a null pointer."""
    pieces = os.fsencode("\0".join(items)).split(b"\0") if items else []
    if len(pieces) != len(items):
        raise ValueError("embedded null byte")
    return (ctypes.c_char_p * (len(items) + 1))(*pieces)


def _variables(environment: Mapping[str, str]) -> list[str]:
    if any(not name or "=" in name for name in environment):
        raise ValueError("illegal environment variable name")
    return [f"{name}={value}" for name, value in environment.items()]


def _arrange(actions: Any, descriptors: Descriptors) -> None:
    """Opens before copies, for a path may lead through a descriptor of ours that a copy would replace."""
    for number, to in descriptors.items():
        if isinstance(to, OpenedPath):
            path = os.fsencode(to.path)
            _checked(_libc.posix_spawn_file_actions_addopen(actions, number, path, to.flags, to.mode))
    for number, to in descriptors.items():
        if isinstance(to, int):
            _checked(_libc.posix_spawn_file_actions_adddup2(actions, to, number))
    for number, to in descriptors.items():
        if isinstance(to, Same):
            _checked(_libc.posix_spawn_file_actions_adddup2(actions, to.number, number))
    _close_others(actions, descriptors)


def _close_others(actions: Any, inherited: Descriptors) -> None:
    if not _closes_from:
        _close(actions, (fd for fd in _inherited() if fd not in inherited))
        return
    above = max(inherited) + 1
    _close(actions, (fd for fd in range(above) if fd not in inherited))
    _checked(_libc.posix_spawn_file_actions_addclosefrom_np(actions, above))


def _close(actions: Any, numbers: Iterable[int]) -> None:
    for fd in numbers:
        _checked(_libc.posix_spawn_file_actions_addclose(actions, fd))


@cache
def _inherited() -> tuple[int, ...]:
    """What whoever started us left open; our own descriptors close by themselves."""
    # One beyond the limit cannot be named in an action, and the whole start would fail.
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return tuple(fd for fd in map(int, os.listdir("/proc/self/fd")) if 2 < fd < limit and _inheritable(fd))


def _inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


@cache
def _attributes() -> Any:
    attributes, signals = ctypes.create_string_buffer(_ROOM), ctypes.create_string_buffer(_ROOM)
    _checked(_libc.posix_spawnattr_init(attributes))
    if _libc.posix_spawnattr_setflags(attributes, ctypes.c_short(_SETSID | _SETSIGDEF | _SETSIGMASK)) != 0:
        raise NotImplementedError("this C library cannot make a session in posix_spawn")
    _libc.sigemptyset(signals)
    _checked(_libc.posix_spawnattr_setsigmask(attributes, signals))
    _libc.sigfillset(signals)
    _checked(_libc.posix_spawnattr_setsigdefault(attributes, signals))
    return attributes


def _checked(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
