"""A pause that could not be stored, noted where a full disk has room: in a file whose place was taken long before.

Light, for verbs look at it too.
"""

from __future__ import annotations

import os
from contextlib import suppress

SIZE = 16
"""Bytes; always all of them are written, in place."""


def prepare(private: str) -> None:
    """Takes the file's place on the disk, if there is room."""
    with suppress(OSError):
        if not os.path.exists(_file(private)):
            _write(private, "", os.O_CREAT)


def note(private: str, word: str) -> bool:
    """Durable when it is True; the empty word takes back the one before."""
    try:
        _write(private, word)
    except OSError:
        return False
    return True


def noted(private: str) -> str:
    try:
        return _bytes(private).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _bytes(private: str) -> bytes:
    with open(_file(private), "rb") as file:
        return file.read(SIZE)


def _write(private: str, word: str, flags: int = 0) -> None:
    fd = os.open(_file(private), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
    try:
        os.pwrite(fd, word.encode().ljust(SIZE), 0)
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _file(private: str) -> str:
    return os.path.join(private, "pause")
