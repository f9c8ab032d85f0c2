"""posix_spawn called in the C library: Python's own lets no other thread run until the child has called exec.

On a busy machine that wait is most of what a start takes. Offers what wrappers need of it and no more.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

_SETSIGDEF, _SETSIGMASK, _SETSID = 0x04, 0x08, 0x80
_ROOM = 1024
"""Bytes for any of the library's own structures; the largest has 336 in glibc."""
_libc = ctypes.CDLL(None)


def posix_spawn(arguments: Sequence[str], environment: dict[str, str], file_actions: Iterable[tuple[Any, ...]]) -> int:
    """The pid of a process with a session of its own and default signals; errors are those of `os.posix_spawn`."""
    words, variables, pid = _strings(arguments), _strings(_variables(environment)), ctypes.c_int()
    attributes, actions = _attributes(), ctypes.create_string_buffer(_ROOM)
    _checked(_libc.posix_spawn_file_actions_init(actions))
    try:
        for action in file_actions:
            _add(actions, *action)
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


def _variables(environment: dict[str, str]) -> list[str]:
    if any(not name or "=" in name for name in environment):
        raise ValueError("illegal environment variable name")
    return [f"{name}={value}" for name, value in environment.items()]


def _add(actions: Any, kind: int, fd: int, *rest: Any) -> None:
    if kind == os.POSIX_SPAWN_OPEN:
        path, flags, mode = rest
        _checked(_libc.posix_spawn_file_actions_addopen(actions, fd, os.fsencode(path), flags, mode))
    elif kind == os.POSIX_SPAWN_DUP2:
        _checked(_libc.posix_spawn_file_actions_adddup2(actions, fd, *rest))
    else:
        _checked(_libc.posix_spawn_file_actions_addclose(actions, fd))


@cache
def _attributes() -> Any:
    made, signals = ctypes.create_string_buffer(_ROOM), ctypes.create_string_buffer(_ROOM)
    _checked(_libc.posix_spawnattr_init(made))
    if _libc.posix_spawnattr_setflags(made, ctypes.c_short(_SETSID | _SETSIGDEF | _SETSIGMASK)) != 0:
        raise NotImplementedError("this C library cannot make a session in posix_spawn")
    _libc.sigemptyset(signals)
    _checked(_libc.posix_spawnattr_setsigmask(made, signals))
    _libc.sigfillset(signals)
    _checked(_libc.posix_spawnattr_setsigdefault(made, signals))
    return made


def _checked(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
