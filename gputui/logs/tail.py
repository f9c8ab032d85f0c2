"""The end of a log file, however long the file is."""

from __future__ import annotations

import os
import stat

__all__ = ["FAR_TAIL_BYTES", "TAIL_BYTES", "read_tail"]

TAIL_BYTES = 16384
FAR_TAIL_BYTES = 4 * TAIL_BYTES
"""For the few logs whose end does not hold the cause, such as those of eight ranks."""


def read_tail(path: str, limit: int = TAIL_BYTES) -> bytes:
    """The last `limit` bytes of a regular file; empty when there is none to read."""
    try:
        # A job may have put a FIFO in its log's place: opening it must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        return os.pread(descriptor, limit, max(0, status.st_size - limit))
    except OSError:
        return b""
    finally:
        os.close(descriptor)
