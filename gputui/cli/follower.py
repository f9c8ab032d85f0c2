"""Read growing files line by line, and copy the output of jobs and yielders to standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from gputui.core.job import Job, JobId
from gputui.logs.plain import plain

if TYPE_CHECKING:
    from gputui.core.snapshot import Snapshot
    from gputui.session.job_directories import Directories

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


# Copying to standard output


Key = tuple[JobId, int, str]
"""The job, the number of its attempt, and the log's path."""


class Streamer:
    """Copies the output of jobs line by line (`--stream`). Each update copies one piece of each log."""

    def __init__(self, directories: Directories) -> None:
        self._directories = directories
        self._open: dict[Key, Follower] = {}
        self._copied: set[Key] = set()
        self._terminal = sys.stdout.isatty()

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> bool:
        """Copy a piece of each log, and return whether there may be more."""
        for job_id in sorted(set(changed) | set(snapshot.active)):
            job = snapshot[job_id]
            if job.active is not None:
                self._open_logs(job, job.active.attempt)
            elif job.attempts and job.id in changed:
                self._open_logs(job, job.attempts[-1].number)
        copied = [self._copy(key, last=_has_ended(snapshot, key)) for key in list(self._open)]
        return any(copied)

    def finish(self, snapshot: Snapshot) -> None:
        """Copy the rest of the logs of attempts that have ended."""
        for key in [key for key in self._open if _has_ended(snapshot, key)]:
            while self._copy(key, last=True):
                pass

    def _open_logs(self, job: Job, attempt: int) -> None:
        files = self._directories.current_files(job, attempt)
        for path in (files.out, files.err):
            key = (job.id, attempt, path or "")
            if path is not None and key not in self._open and key not in self._copied:
                with suppress(OSError):
                    self._open[key] = Follower(path)

    def _copy(self, key: Key, *, last: bool) -> bool:
        """Copy one piece of a log, and return whether there may be more.

        `last`: nothing more will be written to the log.
        """
        log = self._open[key]
        piece = log.read()
        ended = last and not piece
        lines = log.lines(piece, last=ended)
        for line in lines:
            print(f"[{key[0]}] {plain(line) if self._terminal else line}")
        if lines:
            sys.stdout.flush()
        if ended:
            log.close()
            del self._open[key]
            self._copied.add(key)
        return bool(piece)


def _has_ended(snapshot: Snapshot, key: Key) -> bool:
    active = snapshot[key[0]].active
    return active is None or active.attempt != key[1]


class YielderOutput:
    """Copies the lines that are appended to the yielders' log from now on."""

    def __init__(self, log: str, write_line: Callable[[str], None]) -> None:
        self._path = log
        self._write_line = write_line
        self._start = os.path.getsize(log) if os.path.exists(log) else 0
        self._log: Follower | None = None

    def copy(self) -> None:
        if self._log is None:
            if not os.path.exists(self._path):
                return
            self._log = Follower(self._path)
            os.lseek(self._log.fd, self._start, os.SEEK_SET)
        while piece := self._log.read():
            for line in self._log.lines(piece):
                self._write_line(plain(line))
