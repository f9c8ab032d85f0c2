"""A log as a pager may have it: colours stay, which `less -R` is for, and nothing else acts on a terminal."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from .plain import plain

__all__ = ["paged", "paged_lines"]

LONGEST_LINE = 1 << 20
"""A line without end comes in pieces."""
_SGR = re.compile("(\x1b\\[[0-9;:]{0,64}m)")
_RESET = "\x1b[0m"


def paged_lines(path: str) -> Iterator[bytes]:
    """From the file as it is now; OSError if there is no plain file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no plain file")
        while line := file.readline(LONGEST_LINE):
            yield paged(line)


def paged(line: bytes) -> bytes:
    """One line; redrawn with carriage returns it reads as its last state."""
    text = line.decode("utf-8", "replace")
    if text.removesuffix("\n").isprintable():
        return text.encode("utf-8", "replace")
    whole = text.removesuffix("\n").rstrip("\r").rpartition("\r")[2]
    end = "\n" if text.endswith("\n") else ""
    # Every other piece is a colour.
    pieces = [piece if at % 2 else _harmless(piece) for at, piece in enumerate(_SGR.split(whole))]
    return ("".join(pieces) + (_RESET if len(pieces) > 1 else "") + end).encode("utf-8", "replace")


def _harmless(piece: str) -> str:
    return "\t".join(map(plain, piece.split("\t")))
