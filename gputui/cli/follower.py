"""Read a growing file line by line."""

from __future__ import annotations

import os

CHUNK = 1 << 20
LONGEST_LINE = 1 << 20
"""Length in bytes above which a line is split into lines of about this length."""


class Follower:
    """Reads the text appended to a file since the last call and splits it into lines."""

    def __init__(self, path: str) -> None:
        # Do not block if a job replaced its log with a FIFO.
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.rest = b""
        """The incomplete last line, without a newline."""

    def read(self) -> bytes:
        try:
            return os.read(self.fd, CHUNK)
        except OSError:
            return b""

    def lines(self, piece: bytes, *, last: bool = False) -> list[str]:
        """Return the lines completed by this piece of text.

        They look as on a terminal, after progress bars have overwritten themselves. `last`: also return an unfinished
        line.
        """
        *lines, self.rest = (self.rest + piece).split(b"\n")
        cut = len(self.rest) if last else _whole_characters(self.rest) if len(self.rest) > LONGEST_LINE else 0
        if cut:
            lines.append(self.rest[:cut])
            self.rest = self.rest[cut:]
        return [final_text(line) for line in lines]

    def close(self) -> None:
        os.close(self.fd)


def final_text(line: bytes) -> str:
    """Return what a terminal finally shows for a line that contains carriage returns."""
    return line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]


def _whole_characters(text: bytes) -> int:
    """Return the length of the text without an incomplete UTF-8 character at its end."""
    cut = len(text)
    while len(text) - cut < 4 and cut and text[cut - 1] & 0xC0 == 0x80:
        cut -= 1
    return cut - 1 if cut and text[cut - 1] & 0x80 else cut
