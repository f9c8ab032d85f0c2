"""Starting a process where the C library cannot make a session in posix_spawn (glibc before 2.26), or is out of reach.

A Python of its own arranges descriptors and signals before it becomes the program: it costs milliseconds, but no code
runs between fork and exec in a process with threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from .descriptors import Descriptors, OpenedPath, Same

_ARRANGER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "arrange.py")


def popen_spawn(arguments: Sequence[str], environment: Mapping[str, str], descriptors: Descriptors) -> int:
    """As `libc_spawn.posix_spawn`."""
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
