"""Copying a growing log to the output: byte for byte into a file or pipe, harmless on a terminal."""

from __future__ import annotations

import codecs
import os
import sys
from typing import Protocol

from gputui.logs.plain import plain
from gputui.views.format import cut


class Sink(Protocol):
    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


CHUNK = 1 << 16
LONGEST_LINE = 1 << 20
"""A line without end is shown in pieces."""
UNKNOWN_WIDTH = 80
"""Of a terminal that was never told its size."""


class Raw:
    """As it was written."""

    def write(self, data: bytes) -> None:
        sys.stdout.flush()
        view = memoryview(data)
        while view:
            view = view[os.write(sys.stdout.fileno(), view) :]

    def close(self) -> None:
        pass


class Plain:
    """Line by line without anything that a terminal obeys; a line still being written is shown as far as it is."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._shown = False

    def write(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        if len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], ""
        if lines or self._rest:
            self._clear()
            sys.stdout.write("".join(f"{_as_left(line)}\n" for line in lines))
            self._show_rest()
            sys.stdout.flush()

    def _show_rest(self) -> None:
        if self._rest:
            columns = os.get_terminal_size(sys.stdout.fileno()).columns or UNKNOWN_WIDTH
            sys.stdout.write(cut(_as_left(self._rest), columns - 1))
            self._shown = True

    def _clear(self) -> None:
        if self._shown:
            sys.stdout.write("\r\x1b[K")
            self._shown = False

    def close(self) -> None:
        self._clear()
        if self._rest:
            sys.stdout.write(f"{_as_left(self._rest)}\n")
        self._rest = ""
        sys.stdout.flush()


def _as_left(line: str) -> str:
    """What a terminal would show in the end: a progress bar writes over itself."""
    whole = line.rstrip("\r")
    return plain(whole.rpartition("\r")[2])


def sink() -> Sink:
    return Plain() if sys.stdout.isatty() else Raw()


class Log:
    """One attempt's file, read on from where it was left."""

    def __init__(self, path: str, sink: Sink, last_lines: int | None = None) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._sink = sink
        if last_lines is not None:
            os.lseek(self._fd, start_of_last(self._fd, last_lines), os.SEEK_SET)

    def copy(self) -> bool:
        """All there is; whether there was any."""
        copied = False
        while data := os.read(self._fd, CHUNK):
            self._sink.write(data)
            copied = True
        return copied

    def same_file(self, other: Log) -> bool:
        return os.path.samestat(os.fstat(self._fd), os.fstat(other._fd))

    def close(self) -> None:
        self._sink.close()
        os.close(self._fd)


def start_of_last(fd: int, lines: int) -> int:
    """Where the last lines begin, read backward: the cost is that of the lines, not of the file."""
    end = os.fstat(fd).st_size
    if lines == 0:
        return end
    at = end
    needed = lines + (1 if end and os.pread(fd, 1, end - 1) == b"\n" else 0)
    while at > 0:
        size = min(CHUNK, at)
        at -= size
        block = os.pread(fd, size, at)
        place = len(block)
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            needed -= 1
            if needed == 0:
                return at + place + 1
    return 0
