"""Followed files: what is appended to them, read from where it was left; FIFOs too.

Knows how far it read and by what the file can be told from another of its name; where that is kept is not its business.
"""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from .command_list import LONGEST_COMMAND, CommandLines
from .mark import BEHIND, Mark, behind, print_of
from .source import BadInput, Draft, shown

__all__ = ["Follower", "Read"]

CHUNK = 1 << 16


class Read(Struct, frozen=True):
    """Commands that came, and where to go on after them."""

    drafts: tuple[Draft, ...]
    position: int
    mark: Mark | None
    complaints: tuple[str, ...] = ()
    """Lines that were left out, and why."""
    rest: bytes = b""
    """Of a FIFO: what came after the last whole command, for it cannot be read again."""


class Follower:
    """Reads on whenever it is asked to."""

    def __init__(self, path: str, position: int, mark: Mark | None, rest: bytes = b"") -> None:
        self._path = path
        self._wanted = (position, mark)
        self._rest = rest
        self._fd: int | None = None
        self._mark: Mark | None = None
        self._is_fifo = False
        self._untold: list[str] = []
        self._begin(0)

    def _begin(self, position: int, lines: int = 0, behind: bytes = b"") -> None:
        self._read_to = position
        self._behind = behind
        """What stood before `read_to` when it was read."""
        self._safe = position
        """After the last command that was handed over whole; what follows may be half of one."""
        self._partial = b""
        self._skipping = False
        self._lines = CommandLines(self._path, after_line=lines)
        self._line = lines

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def wait(self, seconds: float) -> bool:
        """Until a FIFO has something, which is said; a file cannot be waited for."""
        if not self._is_fifo or self._fd is None:
            return False
        return bool(select.select([self._fd], [], [], seconds)[0])

    def read(self) -> Read | None:
        """What has come, a piece at a time; None: nothing."""
        if self._fd is None and not self._open():
            return None
        assert self._fd is not None
        data = self._fifo_next() if self._is_fifo else self._file_next()
        if data:
            return self._taken(data)
        return self._at_the_end()

    def _fifo_next(self) -> bytes:
        assert self._fd is not None
        try:
            return os.read(self._fd, CHUNK)
        except BlockingIOError:
            return b""

    def _file_next(self) -> bytes:
        """Read together with what stands before it: if that is not what was read, this is another text."""
        assert self._fd is not None
        before = len(self._behind)
        data = os.pread(self._fd, before + CHUNK, self._read_to - before)
        if data.startswith(self._behind):
            return data[before:]
        if os.fstat(self._fd).st_size >= self._read_to:
            self._tell_overwritten()
        self._begin(0)
        return os.pread(self._fd, CHUNK, 0)

    def _tell_overwritten(self) -> None:
        self._untold.append(f"{shown(self._path)} was overwritten: it is read from its start")

    def _taken(self, data: bytes, *, whole: bool = False) -> Read:
        """`whole`: nothing will follow, so a last line without an end is one too."""
        self._read_to += len(data)
        since_safe = (self._rest if self._is_fifo else b"") + data
        before = self._safe
        *complete, self._partial = (self._partial + data).split(b"\n")
        if whole and self._partial:
            complete.append(self._partial)
            self._partial = b""
        drafts: list[Draft] = []
        complaints, self._untold = self._untold, []
        at = self._read_to - len(self._partial) - sum(len(line) + 1 for line in complete)
        for line in complete:
            at += len(line) + 1
            self._take(line, drafts, complaints)
            if self._lines.between_commands:
                self._safe = min(at, self._read_to)
        self._give_up_on_long(complaints)
        self._remember(data, self._safe - before)
        if self._is_fifo:
            self._rest = since_safe[self._safe - before :] if not self._skipping else b""
        return Read(tuple(drafts), self._safe, self._mark, tuple(complaints), self._rest if self._is_fifo else b"")

    def _take(self, line: bytes, drafts: list[Draft], complaints: list[str]) -> None:
        self._line += 1
        if self._skipping:
            self._skipping = False
            self._lines = CommandLines(self._path, after_line=self._line)
            return
        try:
            drafts += self._lines.feed(line + b"\n")
        except BadInput as bad:
            complaints.append(f"{bad}; it was left out")
            self._lines = CommandLines(self._path, after_line=self._line)

    def _remember(self, data: bytes, came: int) -> None:
        """By what the next reader, and this one, will know the text again."""
        if self._mark is None:
            return
        read_so_far = self._behind + data
        if came:
            whole = read_so_far[: len(read_so_far) - (self._read_to - self._safe)]
            self._mark = replace(self._mark, print=print_of(whole[-BEHIND:]))
        self._behind = read_so_far[-BEHIND:]

    def _give_up_on_long(self, complaints: list[str]) -> None:
        if len(self._partial) <= LONGEST_COMMAND:
            return
        if not self._skipping:
            reason = f"is longer than the {LONGEST_COMMAND} bytes a command may have; it was left out"
            complaints.append(str(BadInput.at(self._path, self._line + 1, reason)))
        self._skipping = True
        self._partial = b""

    # The file itself: it may come later, be cut short, or be another one by now

    def _open(self) -> bool:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        self._adopt(fd)
        return True

    def _adopt(self, fd: int) -> None:
        status = os.fstat(fd)
        self._fd = fd
        self._is_fifo = not stat.S_ISREG(status.st_mode)
        self._mark = None if self._is_fifo else Mark(status.st_dev, status.st_ino)
        position, behind = self._left_at(fd, status)
        self._begin(position, 0 if self._is_fifo else _lines_before(fd, position), behind)
        if self._is_fifo and self._rest:
            rest, self._rest = self._rest, b""
            self._taken(rest)

    def _left_at(self, fd: int, status: os.stat_result) -> tuple[int, bytes]:
        """Where the reader before us was, if this is the text it read."""
        (position, mark), self._wanted = self._wanted, (0, None)
        if mark is None or self._mark is None or not mark.is_of(status) or status.st_size < position:
            return 0, b""
        stands = behind(fd, position)
        if mark.print not in ("", print_of(stands)):
            self._tell_overwritten()
            return 0, b""
        self._mark = replace(mark, print=print_of(stands))
        return position, stands

    def _at_the_end(self) -> Read | None:
        """All was read: has the file's name gone to another one, or has the FIFO's writer left?"""
        if self._is_fifo:
            return self._reopened_fifo()
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        if self._mark is not None and self._mark.is_of(status):
            return None
        return self._replaced()

    def _replaced(self) -> Read:
        rest = self._taken(b"", whole=True)
        self.close()
        self._wanted = (0, None)
        mark: Mark | None = None
        if self._open():
            mark = self._mark
        return Read(rest.drafts, 0, mark, rest.complaints)

    def _reopened_fifo(self) -> Read | None:
        """Opened anew before the old end is closed, or what a next writer has written already would be lost."""
        assert self._fd is not None
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not any(event & select.POLLHUP and not event & select.POLLIN for _, event in poll.poll(0)):
            return None
        rest = self._taken(b"", whole=True)
        self._rest = b""
        old, self._fd = self._fd, None
        with suppress(OSError):
            self._adopt(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        os.close(old)
        return replace(rest, rest=b"") if rest.drafts or rest.complaints else None


def _lines_before(fd: int, position: int) -> int:
    """For messages."""
    lines = at = 0
    while at < position and (data := os.pread(fd, min(1 << 20, position - at), at)):
        lines += data.count(b"\n")
        at += len(data)
    return lines
