"""By what a followed file is known again: which file it is, and the bytes that stood before where it was left."""

from __future__ import annotations

import os
import stat
from _blake2 import blake2b  # from hashlib it would bring all of OpenSSL along

from msgspec import Struct

from .source import BadInput, shown

__all__ = ["BEHIND", "Mark", "behind", "end_of", "print_of"]

BEHIND = 1 << 16
"""So many bytes before the position tell whether the file was overwritten in place."""


class Mark(Struct, frozen=True, array_like=True):
    device: int
    inode: int
    print: str = ""
    """Digest of the bytes before the position; empty: there are none, or they were not remembered."""

    def is_of(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def behind(fd: int, position: int) -> bytes:
    """The bytes before the position, as far back as they are looked at."""
    begin = max(0, position - BEHIND)
    return os.pread(fd, position - begin, begin)


def print_of(behind: bytes) -> str:
    return blake2b(behind, digest_size=16).hexdigest() if behind else ""


def end_of(path: str) -> tuple[int, Mark | None]:
    """Where following begins the first time: at the end of what is there, or at the start of what will be."""
    try:
        # A FIFO must not keep us waiting for its writer.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, None
    except (OSError, ValueError) as error:
        raise BadInput(f"{shown(path)} cannot be followed: {getattr(error, 'strerror', error)}") from None
    try:
        return _end(fd, path)
    finally:
        os.close(fd)


def _end(fd: int, path: str) -> tuple[int, Mark | None]:
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        raise BadInput(f"{shown(path)} is a directory; give a file or a FIFO to follow")
    if not stat.S_ISREG(status.st_mode):
        return 0, None
    return status.st_size, Mark(status.st_dev, status.st_ino, print_of(behind(fd, status.st_size)))
