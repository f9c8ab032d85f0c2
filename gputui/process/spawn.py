"""The one way to start a process that may outlive what we are doing, with exact descriptors and default signals."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from .descriptors import STANDARD, Descriptors, OpenedPath, Same, out_of_the_way


def spawn(arguments: Sequence[str], environment: Mapping[str, str], descriptors: Descriptors) -> int:
    """The new process's pid; its first argument is the program's path. Raises OSError, or ValueError for NUL bytes.

    0, 1 and 2 lead nowhere unless they are named.
    """
    with out_of_the_way({**STANDARD, **descriptors}) as wanted:
        try:
            from .libc_spawn import posix_spawn  # ctypes costs every process that imports it

            return posix_spawn(arguments, environment, wanted)
        except (NotImplementedError, ImportError):
            return popen_spawn(arguments, environment, wanted)


# ---- Where the C library cannot make a session in posix_spawn (glibc before 2.26), or is out of reach ----


_ARRANGER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "arrange.py")


def popen_spawn(arguments: Sequence[str], environment: Mapping[str, str], descriptors: Descriptors) -> int:
    """As `libc_spawn.posix_spawn`, by a Python of its own that arranges descriptors before it becomes the program.

    It costs milliseconds, but no code runs between fork and exec in a process with threads.
    """
    import subprocess

    os.stat(arguments[0])  # a program that is not there is told now: afterwards nobody could
    with ExitStack() as opened:
        ours = {number: _ours(to, opened) for number, to in descriptors.items() if not isinstance(to, Same)}
        for number, to in descriptors.items():
            if isinstance(to, Same):
                ours[number] = ours[to.number]
        copies = ",".join(f"{fd}:{number}" for number, fd in ours.items())
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", _ARRANGER, copies, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=tuple(ours.values()),
            start_new_session=True,
        )
    # Otherwise subprocess would reap the child behind our back.
    process.returncode = 0
    return process.pid


def _ours(to: int | OpenedPath, opened: ExitStack) -> int:
    if isinstance(to, int):
        return to
    fd = os.open(to.path, to.flags | os.O_CLOEXEC, to.mode)
    opened.callback(os.close, fd)
    return fd
