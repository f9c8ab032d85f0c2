"""The one way to start a process that may outlive what we are doing, with exact descriptors and default signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .descriptors import STANDARD, Descriptors, out_of_the_way


def spawn(arguments: Sequence[str], environment: Mapping[str, str], descriptors: Descriptors) -> int:
    """The new process's pid; its first argument is the program's path. Raises OSError, or ValueError for NUL bytes.

    0, 1 and 2 lead nowhere unless they are named.
    """
    with out_of_the_way({**STANDARD, **descriptors}) as wanted:
        try:
            from .libc_spawn import posix_spawn  # ctypes costs every process that imports it

            return posix_spawn(arguments, environment, wanted)
        except (NotImplementedError, ImportError):
            from .popen_spawn import popen_spawn

            return popen_spawn(arguments, environment, wanted)
