"""--stream: copies what jobs and yielders print to our own output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from gputui.core.job import Job, JobId
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.session.job_folders import Folders

# ---- `--stream` ----


CHUNK = 1 << 20
LONGEST_LINE = 1 << 20
"""Bytes; a longer one is passed on in pieces of about so much, each on a line of its own."""
Key = tuple[JobId, int, str]


class Streamer:
    """Called often; reads on where it stopped, a piece at a time. A half-written line waits for its end."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._open: dict[Key, tuple[int, bytes]] = {}
        self._copied: set[Key] = set()
        self._terminal = sys.stdout.isatty()

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> bool:
        """Whether there is more to copy at once."""
        for job_id in sorted(set(changed) | set(snapshot.active)):
            job = snapshot[job_id]
            if job.active is not None:
                self._begin(job, job.active.attempt)
            elif job.attempts and job.id in changed:
                self._begin(job, job.attempts[-1].number)
        copied = [self._copy(key, last=_is_over(snapshot, key)) for key in list(self._open)]
        return any(copied)

    def finish(self, snapshot: Snapshot) -> None:
        """All that ended attempts have written."""
        for key in [key for key in self._open if _is_over(snapshot, key)]:
            while self._copy(key, last=True):
                pass

    def _begin(self, job: Job, attempt: int) -> None:
        files = self._folders.written(job, attempt)
        for path in (files.out, files.err):
            key = (job.id, attempt, path or "")
            if path is not None and key not in self._open and key not in self._copied:
                with suppress(OSError):
                    # A job may have put a FIFO in its log's place: opening it must not wait for a writer.
                    self._open[key] = (os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), b"")

    def _copy(self, key: Key, *, last: bool) -> bool:
        """One piece; False: all there is was copied."""
        fd, rest = self._open[key]
        chunk = _read(fd)
        *lines, rest = (rest + chunk).split(b"\n")
        over = last and not chunk
        cut = len(rest) if over else _whole_characters(rest) if len(rest) > LONGEST_LINE else 0
        self._print(key, [*lines, rest[:cut]] if cut else lines)
        self._open[key] = (fd, rest[cut:])
        if over:
            os.close(fd)
            del self._open[key]
            self._copied.add(key)
        return bool(chunk)

    def _print(self, key: Key, lines: list[bytes]) -> None:
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
            print(f"[{key[0]}] {plain(text) if self._terminal else text}")
        if lines:
            sys.stdout.flush()


def _is_over(snapshot: Snapshot, key: Key) -> bool:
    active = snapshot[key[0]].active
    return active is None or active.attempt != key[1]


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK)
    except OSError:
        return b""


def _whole_characters(text: bytes) -> int:
    """How much of it can be cut off without cutting a character of UTF-8 in two."""
    cut = len(text)
    while len(text) - cut < 4 and cut and text[cut - 1] & 0xC0 == 0x80:
        cut -= 1
    return cut - 1 if cut and text[cut - 1] & 0x80 else cut


# ---- What a yielder prints, copied as it comes ----


MOST = 1 << 20
"""Bytes at once."""


class Prints:
    """Tells, line by line, what is appended to a log from now on."""

    def __init__(self, log: str, tell: Callable[[str], None]) -> None:
        self._log = log
        self._tell = tell
        self._position = os.path.getsize(log) if os.path.exists(log) else 0
        self._rest = b""

    def copy(self) -> None:
        try:
            with open(self._log, "rb") as file:
                file.seek(self._position)
                data = file.read(MOST)
        except FileNotFoundError:
            return
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._tell(plain(line.decode("utf-8", "replace")))
