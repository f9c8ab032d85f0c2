"""Access to the lines of a log file of any size by their numbers, and to the end of a file."""

from __future__ import annotations

import os
import stat
import time
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path

from gputui.core.regex import lazy_regex

BLOCK = 1 << 18
KEPT_BLOCKS = 4
"""Number of blocks whose newline offsets are kept.

The offsets of a block that contains only newlines take 2 MB, so only the blocks on the screen are kept.
"""

_NEWLINE = lazy_regex(b"\n")


LONGEST_READ = 1 << 16
FIRST_LOOK = 4 * BLOCK


class FileChange(Enum):
    NOTHING = auto()
    GREW = auto()
    ANEW = auto()
    """The file was truncated, replaced or created, so earlier line numbers are invalid."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line without its newline: the bytes to show, and the size of the whole line."""

    shown: bytes
    size: int
    """Size of the whole line in bytes."""


class LineIndex:
    """A growing file as numbered lines `first … end - 1`.

    The contents are not kept in memory, and the file need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._identity: tuple[int, int] | None = None
        self._restart(0)

    def _restart(self, size: int) -> None:
        self.size = size
        """Size of the file in bytes at the last look."""
        self._pivot = max(0, size - 1) // BLOCK
        self._begin = self._counted = self._pivot * BLOCK
        self._before = array("Q", [0])
        """Element k is the number of newlines in the k blocks directly before the pivot."""
        self._after = array("Q", [0])
        """Element k is the number of newlines in the k full blocks that begin at the pivot."""
        self._newest = 0
        """Number of newlines after the pivot, including those in the last block, which is still growing."""
        self._ends_open = False
        self._newlines_between = lru_cache(maxsize=KEPT_BLOCKS)(self._find_newlines)

    @property
    def first(self) -> int:
        """Number of the first known line. Until the index is complete, the beginning of that line may be missing."""
        return -self._before[-1]

    @property
    def end(self) -> int:
        return self._newest + (1 if self._ends_open else 0)

    @property
    def complete(self) -> bool:
        """Whether all lines have numbers, from the beginning of the file."""
        return self._begin == 0

    @property
    def begin(self) -> int:
        """The offset at which the known lines begin."""
        return self._begin

    @property
    def unread(self) -> int:
        """Number of bytes at the end of the file that have not been searched for newlines yet."""
        return self.size - self._counted

    def look(self, seconds: float = 0.02) -> FileChange:
        """Count the lines written since the last look, for at most about `seconds`."""
        change = self._find_file()
        if self._file is None:
            return change
        size = os.fstat(self._file).st_size
        if size < self._counted or change is FileChange.ANEW:
            self._restart(size)
            change = FileChange.ANEW
        self.size = size
        if self._count_new(seconds) and change is FileChange.NOTHING:
            change = FileChange.GREW
        while self._begin > 0 and self._counted - self._begin < FIRST_LOOK:
            self._count_block_before()
        return change

    def jump_to_end(self) -> None:
        """Restart at the end of the file, because it grows faster than its lines can be counted."""
        self._restart(self.size)
        self.look()

    def extend(self, seconds: float) -> bool:
        """Count lines towards the beginning of the file. Return whether the beginning has been reached."""
        deadline = time.monotonic() + seconds
        while self._begin > 0 and time.monotonic() < deadline:
            self._count_block_before()
        return self.complete

    def line(self, number: int) -> RawLine:
        start, stop = self.start(number), self._stop(number)
        size = max(0, stop - start)
        if size <= LONGEST_READ:
            return RawLine(self.read(start, size), size)
        head = self.read(start, LONGEST_READ // 2)
        if b"\r" not in head:
            return RawLine(head, size)
        # A progress bar that was redrawn for hours is a single line. Only its last states matter.
        states = self.read(stop - LONGEST_READ // 2, LONGEST_READ // 2).partition(b"\r")[2]
        return RawLine(states, len(states))

    def start(self, number: int) -> int:
        """Return the offset of the first byte of a line."""
        if number <= self.first:
            return self._begin
        return self._newline(number - 1) + 1 if number <= self._newest else self._counted

    def line_at(self, offset: int) -> int:
        """Return the number of the line that contains the byte at an offset, which must not be before `begin`."""
        block = min(offset, max(0, self._counted - 1)) // BLOCK
        if block >= self._pivot:
            newlines_before = self._after[block - self._pivot]
        else:
            newlines_before = -self._before[self._pivot - block]
        return newlines_before + bisect_left(self._newlines(block), offset)

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file. The result is empty if the file has no bytes at this offset."""
        if self._file is None or length <= 0:
            return b""
        try:
            return os.pread(self._file, length, offset)
        except OSError:
            return b""

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = self._identity = None

    def _stop(self, number: int) -> int:
        return self._newline(number) if number < self._newest else self._counted

    def _newline(self, number: int) -> int:
        """Return the offset of a newline.

        Newlines have the numbers 0, 1 … after the pivot, and -1, -2 … before it.
        """
        if number >= 0:
            k = bisect_right(self._after, number) - 1
            block, place = self._pivot + k, number - self._after[k]
        else:
            k = bisect_left(self._before, -number)
            block, place = self._pivot - k, self._before[k] + number
        offsets = self._newlines(block)
        # A file that was truncated since the last look has fewer lines than were counted. The next look notices this.
        return offsets[place] if place < len(offsets) else self._counted

    def _newlines(self, block: int) -> array[int]:
        """Return the offsets of the newlines in the part of a block that has been counted."""
        return self._newlines_between(block * BLOCK, min((block + 1) * BLOCK, self._counted))

    def _find_newlines(self, start: int, stop: int) -> array[int]:
        data = self.read(start, stop - start)
        return array("Q", [match.start() + start for match in _NEWLINE.finditer(data)])

    def _count_new(self, seconds: float) -> bool:
        """Count new lines at the end of the file. Return whether there were any."""
        deadline = time.monotonic() + seconds
        before = self._counted
        while self._counted < self.size:
            data = self.read(self._counted, min(BLOCK - self._counted % BLOCK, self.size - self._counted))
            if not data:
                break
            self._newest += data.count(b"\n")
            self._ends_open = not data.endswith(b"\n")
            self._counted += len(data)
            if self._counted % BLOCK == 0:
                self._after.append(self._newest)
            if time.monotonic() > deadline:
                break
        return self._counted > before

    def _count_block_before(self) -> None:
        self._begin -= BLOCK
        self._before.append(self._before[-1] + self.read(self._begin, BLOCK).count(b"\n"))

    def _find_file(self) -> FileChange:
        """Open the file that the path currently names. A removed file stays readable through its descriptor."""
        try:
            status = os.stat(self._path)
        except (OSError, ValueError):
            return FileChange.NOTHING
        identity = (status.st_dev, status.st_ino)
        if identity == self._identity or not stat.S_ISREG(status.st_mode):
            return FileChange.NOTHING
        try:
            # The job may have put a FIFO there in the meantime, and opening it must not wait for a writer.
            file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return FileChange.NOTHING
        self.close()
        self._file, self._identity = file, identity
        return FileChange.ANEW


TAIL_BYTES = 16384
FAR_TAIL_BYTES = 4 * TAIL_BYTES
"""Number of bytes to read if the last TAIL_BYTES do not contain the cause, as in a log of eight ranks."""


def read_tail(path: str, limit: int = TAIL_BYTES) -> bytes:
    """Return the last `limit` bytes of a regular file, or empty bytes if it cannot be read."""
    try:
        # A job may have replaced its log by a FIFO, and opening it must not wait for a writer.
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
