"""Any line of a log file of any size, by number, and the end of a file."""

from __future__ import annotations

import os
import re
import stat
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

# ---- Where the newlines of a block of a file are, for the few blocks that are on the screen ----


BLOCK = 1 << 18
KEPT_BLOCKS = 4
"""A block of nothing but newlines takes 2 MB here, so only what a screen shows is kept."""

_NEWLINE = re.compile(b"\n")


class Newlines:
    """Absolute offsets of newlines, block by block."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        self._kept: OrderedDict[int, tuple[int, array[int]]] = OrderedDict()

    def of(self, block: int, counted: int) -> array[int]:
        """Those before the offset `counted`, up to which the file is known."""
        start = block * BLOCK
        length = min(BLOCK, counted - start)
        kept_block = self._kept.get(block)
        if kept_block is not None and kept_block[0] == length:
            self._kept.move_to_end(block)
            return kept_block[1]
        data = self._read(start, length)
        offsets = array("Q", [match.start() + start for match in _NEWLINE.finditer(data)])
        self._kept[block] = (length, offsets)
        self._kept.move_to_end(block)
        if len(self._kept) > KEPT_BLOCKS:
            self._kept.popitem(last=False)
        return offsets


# ---- Any line of a log file of any size, by number, without ever holding the file ----


LONGEST_READ = 1 << 16
FIRST_LOOK = 4 * BLOCK


class FileChange(Enum):
    """What a look at the file found."""

    NOTHING = auto()
    GREW = auto()
    ANEW = auto()
    """It was truncated, replaced or is there for the first time: line numbers of before mean nothing now."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """The bytes of a line that are worth decoding, without its newline."""

    shown: bytes
    size: int
    """Of the whole line, in bytes."""


class LineIndex:
    """A growing file as numbered lines `first … end - 1`; a file that is not there yet has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._identity: tuple[int, int] | None = None
        self._restart(0)

    def _restart(self, size: int) -> None:
        self.size = size
        """As of the last look."""
        self._pivot = max(0, size - 1) // BLOCK
        self._begin = self._counted = self._pivot * BLOCK
        self._before = array("Q", [0])
        """Newlines in the k blocks before the pivot."""
        self._after = array("Q", [0])
        """Newlines in the k full blocks from the pivot on."""
        self._newest = 0
        """Newlines from the pivot on, the block that still grows included."""
        self._ends_open = False
        self._newlines = Newlines(self.read)

    @property
    def first(self) -> int:
        """Until the index is complete, this line may begin in the middle."""
        return -self._before[-1]

    @property
    def end(self) -> int:
        return self._newest + (1 if self._ends_open else 0)

    @property
    def complete(self) -> bool:
        """Are there numbers for all lines up to the beginning of the file?"""
        return self._begin == 0

    @property
    def begin(self) -> int:
        """The offset from which on lines have numbers."""
        return self._begin

    @property
    def unread(self) -> int:
        """Bytes at the file's end that have not been counted yet."""
        return self.size - self._counted

    def look(self, seconds: float = 0.02) -> FileChange:
        """Takes in what was written since the last look, for at most about this long."""
        change = self._find_file()
        if self._file is None:
            return change
        size = os.fstat(self._file).st_size
        if size < self._counted or change is FileChange.ANEW:
            self._restart(size)
            change = FileChange.ANEW
        self.size = size
        if self._count_on(seconds) and change is FileChange.NOTHING:
            change = FileChange.GREW
        while self._begin > 0 and self._counted - self._begin < FIRST_LOOK:
            self._count_block_before()
        return change

    def jump_to_end(self) -> None:
        """Begins anew at the end of a file that grows faster than it can be counted."""
        self._restart(self.size)
        self.look()

    def extend(self, seconds: float) -> bool:
        """Counts further towards the beginning of the file; True when it is reached."""
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
        # A progress bar redrawn for hours is one line: only its last states say anything.
        states = self.read(stop - LONGEST_READ // 2, LONGEST_READ // 2).partition(b"\r")[2]
        return RawLine(states, len(states))

    def start(self, number: int) -> int:
        """The offset of a line's first byte."""
        if number <= self.first:
            return self._begin
        return self._newline(number - 1) + 1 if number <= self._newest else self._counted

    def line_at(self, offset: int) -> int:
        """The number of the line that has this byte, which must not lie before `begin`."""
        block = min(offset, max(0, self._counted - 1)) // BLOCK
        if block >= self._pivot:
            newlines_before = self._after[block - self._pivot]
        else:
            newlines_before = -self._before[self._pivot - block]
        return newlines_before + bisect_left(self._newlines_of(block), offset)

    def read(self, offset: int, length: int) -> bytes:
        """Empty where there is nothing to read (any more)."""
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
        """The offset of a newline; those from the pivot on are numbered 0, 1 …, those before it -1, -2 …"""
        if number >= 0:
            k = bisect_right(self._after, number) - 1
            block, place = self._pivot + k, number - self._after[k]
        else:
            k = bisect_left(self._before, -number)
            block, place = self._pivot - k, self._before[k] + number
        offsets = self._newlines_of(block)
        # A file truncated since the last look has fewer than were counted; the next look will tell.
        return offsets[place] if place < len(offsets) else self._counted

    def _newlines_of(self, block: int) -> array[int]:
        return self._newlines.of(block, self._counted)

    def _count_on(self, seconds: float) -> bool:
        """Counts what is new at the end; True when there was something."""
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
        """Opens what the path names now; a file that was removed is shown on from its descriptor."""
        try:
            status = os.stat(self._path)
        except (OSError, ValueError):
            return FileChange.NOTHING
        identity = (status.st_dev, status.st_ino)
        if identity == self._identity or not stat.S_ISREG(status.st_mode):
            return FileChange.NOTHING
        try:
            # Between the two calls the job may put a FIFO there: opening must not wait for a writer.
            file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return FileChange.NOTHING
        self.close()
        self._file, self._identity = file, identity
        return FileChange.ANEW


# ---- The end of a log file, however long the file is ----


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
