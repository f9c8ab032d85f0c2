"""`--gpu-file`: lanes that follow a file; whoever writes it adds and takes away GPUs while jobs run."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from gputui.core.lanes import Lane
from gputui.gpus.hardware import find_hardware
from gputui.gpus.lanes import lanes
from gputui.gpus.wanted import BadGpus, parse_gpus
from gputui.session.journal import Journal
from gputui.session.owner.loop import Loop

LOOK_EVERY = 1.0
LARGEST = 65536
Mark = tuple[int, int, int]


class GpuFile:
    """Looks once a second. A file that is empty, gone or nonsense changes nothing: the last good list stays."""

    def __init__(
        self, loop: Loop, path: Callable[[], str | None], change: Callable[[tuple[Lane, ...]], None], journal: Journal
    ) -> None:
        self._loop = loop
        self._path = path
        self._change = change
        self._journal = journal
        self._seen: tuple[str, Mark] | None = None
        loop.call_later(LOOK_EVERY, self._look)

    def look_again(self) -> None:
        """What it said came to nothing."""
        self._seen = None

    def _look(self) -> None:
        self._loop.call_later(LOOK_EVERY, self._look)
        path = self._path()
        if path is None:
            return
        mark = _mark(path)
        if mark is None or self._seen == (path, mark):
            return
        self._seen = (path, mark)
        try:
            self._change(read(path))
        except (BadGpus, OSError, UnicodeDecodeError) as error:
            self._journal.write(f"{path} is not followed, the lanes stay as they are: {error}")


def read(path: str) -> tuple[Lane, ...]:
    """Raises BadGpus for an empty file too: a writer that truncates first must not take all lanes away."""
    lines = (line.partition("#")[0].strip() for line in _text(path).splitlines())
    words = " ".join(line for line in lines if line)
    if not words:
        raise BadGpus("it is empty; write the GPUs into it: 0,1")
    return lanes(parse_gpus(words), find_hardware()).lanes


def _text(path: str) -> str:
    """The owner's thread reads it, so it must not be one that waits for a writer."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BadGpus("it is not a regular file; give one that can be read again and again")
        return os.read(fd, LARGEST).decode()
    finally:
        os.close(fd)


def _mark(path: str) -> Mark | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
