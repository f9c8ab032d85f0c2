"""`--stream`: copies what jobs print to our own output, each line with its job's number."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from gputui.core.job import Job, JobId
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.session.folders import Folders

CHUNK = 1 << 16
Key = tuple[JobId, int, str]


class Streamer:
    """Called often; reads on where it stopped. A half-written line waits for its end."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._open: dict[Key, tuple[int, bytes]] = {}
        self._copied: set[Key] = set()
        self._terminal = sys.stdout.isatty()

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> None:
        for job_id in sorted(set(changed) | set(snapshot.active)):
            job = snapshot[job_id]
            if job.active is not None:
                self._begin(job, job.active.attempt)
            elif job.attempts and job.id in changed:
                self._begin(job, job.attempts[-1].number)
        for key in list(self._open):
            job = snapshot[key[0]]
            over = job.active is None or job.active.attempt != key[1]
            self._copy(key, last=over)

    def _begin(self, job: Job, attempt: int) -> None:
        files = self._folders.written(job, attempt)
        for path in (files.out, files.err):
            key = (job.id, attempt, path or "")
            if path is not None and key not in self._open and key not in self._copied:
                with suppress(OSError):
                    self._open[key] = (os.open(path, os.O_RDONLY | os.O_CLOEXEC), b"")

    def _copy(self, key: Key, *, last: bool) -> None:
        fd, rest = self._open[key]
        while chunk := os.read(fd, CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            self._print(key, lines)
        if last:
            self._print(key, [rest] if rest else [])
            os.close(fd)
            del self._open[key]
            self._copied.add(key)
        else:
            self._open[key] = (fd, rest)

    def _print(self, key: Key, lines: list[bytes]) -> None:
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
            print(f"[{key[0]}] {plain(text) if self._terminal else text}")
        sys.stdout.flush()
