"""Followed files and FIFOs: read the commands appended after a remembered position."""

from __future__ import annotations

import os
import select
import stat
from _blake2 import blake2b  # hashlib would load all of OpenSSL
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from .command_list import LONGEST_COMMAND, CommandLines
from .source import BadInput, Draft, shown

CHUNK = 1 << 16
BEHIND = 1 << 16
"""Number of bytes before the position that are compared, to detect a file that was overwritten in place."""


class Mark(Struct, frozen=True, array_like=True):
    """Identifies a file that was read up to some position."""

    device: int
    inode: int
    print: str = ""
    """Digest of the bytes before the position, or "" if there are none."""

    def is_of(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def behind(fd: int, position: int) -> bytes:
    """Return the bytes before the position, at most `BEHIND`."""
    begin = max(0, position - BEHIND)
    return os.pread(fd, position - begin, begin)


def print_of(behind: bytes) -> str:
    return blake2b(behind, digest_size=16).hexdigest() if behind else ""


def end_of(path: str) -> tuple[int, Mark | None]:
    """Return the position at which to start following: the end of the file, or 0 if the file does not exist yet."""
    try:
        # Opening a FIFO must not wait for its writer.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot follow {shown(path)}: {getattr(error, 'strerror', error)}") from None
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise BadInput(f"{shown(path)} is a directory; use a file or a FIFO")
        if not stat.S_ISREG(status.st_mode):
            return 0, None
        return status.st_size, Mark(status.st_dev, status.st_ino, print_of(behind(fd, status.st_size)))
    finally:
        os.close(fd)


class Read(Struct, frozen=True):
    """New commands, and the position at which to continue after them."""

    drafts: tuple[Draft, ...]
    position: int
    mark: Mark | None
    complaints: tuple[str, ...] = ()
    """Messages about invalid lines, which were skipped."""
    rest: bytes = b""
    """Bytes after the last complete command of a FIFO. They are kept because a FIFO cannot be read again."""


class Follower:
    """Reads what has been appended to a file since the last call."""

    def __init__(self, path: str, position: int, mark: Mark | None, rest: bytes = b"") -> None:
        self._path = path
        self._wanted = (position, mark)
        self._wanted_rest = rest
        self._fd: int | None = None
        self._mark: Mark | None = None
        self._is_fifo = False
        self._pending_complaints: list[str] = []
        self._begin(0)

    def _begin(self, position: int, line: int = 0, behind: bytes = b"") -> None:
        self._safe = self._position = position
        """Position after the last complete command, where a later follower continues.

        While a line that is too long is skipped, `_position` moves on, but `_safe` stays before that line.
        """
        self._line = line
        self._behind = behind
        """The bytes before the position, at most `BEHIND`."""
        self._rest = b""
        """The bytes read after the position. They may be part of a command."""
        self._skipping = False

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def wait(self, seconds: float) -> bool:
        """Wait until a FIFO has data, and return whether it has. For a file return immediately."""
        if not self._is_fifo or self._fd is None:
            return False
        return bool(select.select([self._fd], [], [], seconds)[0])

    def read(self) -> Read | None:
        """Return the next chunk of new commands, or None if there is nothing new."""
        if self._fd is None and not self._open():
            return None
        assert self._fd is not None
        if not self._is_fifo:
            data = self._read_file(self._fd)
            return self._parse(data) if data else self._check_replaced()
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            data = b""
        return self._parse(data) if data else self._check_hung_up()

    def _read_file(self, fd: int) -> bytes:
        # The bytes before are read again: if they have changed, the file was overwritten.
        before = self._behind + self._rest
        data = os.pread(fd, len(before) + CHUNK, self._position - len(self._behind))
        if data.startswith(before):
            return data[len(before) :]
        if os.fstat(fd).st_size >= self._position + len(self._rest):
            self._report_overwritten()
        self._begin(0)
        return os.pread(fd, CHUNK, 0)

    def _report_overwritten(self) -> None:
        self._pending_complaints.append(f"{shown(self._path)} was overwritten; reading from the start")

    def _parse(self, new: bytes, *, is_last: bool = False) -> Read:
        """Parse the lines since the position. With `is_last`, also parse a last line without a newline."""
        data = self._rest + new
        *complete, partial = data.split(b"\n")
        if is_last and partial:
            complete.append(partial)
            partial = b""
        drafts: list[Draft] = []
        complaints, self._pending_complaints = self._pending_complaints, []
        lines = CommandLines(self._path, after_line=self._line)
        at = done = 0
        for number, line in enumerate(complete, start=self._line + 1):
            at = min(at + len(line) + 1, len(data))
            try:
                if self._skipping:
                    lines = CommandLines(self._path, after_line=number)
                elif draft := lines.parse(line):
                    drafts.append(draft)
            except BadInput as bad:
                complaints.append(f"{bad}; skipped")
                lines = CommandLines(self._path, after_line=number)
            self._skipping = False
            if lines.between_commands:
                done, self._line = at, number
        self._rest = data
        if done:
            self._move_on(done)
            self._safe = self._position
            self._mark = self._mark and replace(self._mark, print=print_of(self._behind))
        if len(partial) > LONGEST_COMMAND and not self._skipping:
            self._line += self._rest.count(b"\n")
            reason = f"is longer than the limit of {LONGEST_COMMAND} bytes; skipped"
            complaints.append(str(BadInput.at(self._path, self._line + 1, reason)))
            self._skipping = True
        if self._skipping:
            self._move_on(len(self._rest))
        return Read(tuple(drafts), self._safe, self._mark, tuple(complaints), self._rest if self._is_fifo else b"")

    def _move_on(self, size: int) -> None:
        self._position += size
        self._behind = (self._behind + self._rest[:size])[-BEHIND:]
        self._rest = self._rest[size:]

    # Opening the file, which may appear later, be truncated or be replaced

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
        position, behind = self._start_position(fd, status)
        self._begin(position, 0 if self._is_fifo else _lines_before(fd, position), behind)
        if self._is_fifo:
            self._rest, self._wanted_rest = self._wanted_rest, b""

    def _start_position(self, fd: int, status: os.stat_result) -> tuple[int, bytes]:
        """Return the remembered position and the bytes before it.

        If the file is not the remembered one, return its start.
        """
        (position, mark), self._wanted = self._wanted, (0, None)
        if mark is None or self._mark is None or not mark.is_of(status) or status.st_size < position:
            return 0, b""
        before = behind(fd, position)
        if mark.print != print_of(before):
            self._report_overwritten()
            return 0, b""
        self._mark = replace(mark, print=print_of(before))
        return position, before

    def _check_replaced(self) -> Read | None:
        """At the end of the open file, check whether its path now names another file. If so, open that."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        if self._mark is not None and self._mark.is_of(status):
            return None
        rest = self._parse(b"", is_last=True)
        self.close()
        self._wanted = (0, None)
        mark = self._mark if self._open() else None
        return Read(rest.drafts, 0, mark, rest.complaints)

    def _check_hung_up(self) -> Read | None:
        """Open a FIFO again after its last writer has closed it."""
        assert self._fd is not None
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not any(event & select.POLLHUP and not event & select.POLLIN for _, event in poll.poll(0)):
            return None
        rest = self._parse(b"", is_last=True)
        # Open the new end before closing the old one. Otherwise data from the next writer would be lost.
        old, self._fd = self._fd, None
        with suppress(OSError):
            self._adopt(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        os.close(old)
        return replace(rest, rest=b"") if rest.drafts or rest.complaints else None


def _lines_before(fd: int, position: int) -> int:
    """Count the lines before a position, because messages contain line numbers."""
    lines = at = 0
    while at < position and (data := os.pread(fd, min(1 << 20, position - at), at)):
        lines += data.count(b"\n")
        at += len(data)
    return lines
