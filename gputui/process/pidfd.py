"""Handles on processes that a later process of the same number can never be confused with.

Knows the three worlds there are: a Python that offers pidfds, a Python that was built without them on a kernel
that has them (conda, older uv), and a kernel that has none (before 5.3), where callers must poll.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import cache
from typing import Any

OPEN_SYSCALL, SEND_SYSCALL = 434, 424
P_PIDFD: int = getattr(os, "P_PIDFD", 3)

native_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
native_send: Callable[[int, int], None] | None = getattr(signal, "pidfd_send_signal", None)
kernel_has_them: bool | None = None
"""None: not asked yet."""


def available() -> bool:
    global kernel_has_them
    if kernel_has_them is None:
        kernel_has_them = _works()
    return kernel_has_them


def open_process(pid: int) -> int:
    """A descriptor that becomes readable when the process ends; ProcessLookupError: there is none."""
    if native_open is not None:
        return native_open(pid)
    return _syscall(OPEN_SYSCALL, pid, 0)


def send_signal(fd: int, signum: int) -> None:
    if native_send is not None:
        native_send(fd, signum)
    else:
        _syscall(SEND_SYSCALL, fd, int(signum), None, 0)


def reap(pid: int, fd: int | None) -> os.waitid_result | None:
    """The end of a child of ours; None: not ours, or not ended. Never takes any other child's end."""
    try:
        if fd is not None:
            return _waitid(P_PIDFD, fd)
        return _waitid(os.P_PID, pid)
    except ChildProcessError:
        return None
    except OSError:
        # Linux 5.3 opens pidfds but cannot wait for them yet.
        return reap(pid, None) if fd is not None else None


def _waitid(kind: int, which: int) -> os.waitid_result | None:
    return os.waitid(kind, which, os.WEXITED | os.WNOHANG)


def _works() -> bool:
    try:
        os.close(open_process(os.getpid()))
    except (OSError, ImportError):  # ImportError: a Python without ctypes
        return False
    return True


@cache
def _libc() -> Any:
    import ctypes  # costs every process that imports it; most never come here

    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: int | None) -> int:
    import ctypes

    result = int(_libc().syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
