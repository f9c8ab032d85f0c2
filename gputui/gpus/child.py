"""One sampler process as its owner holds it: two pipes and a pid. Owns starting, reading and letting go of it."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .frames import FrameReader
from .sample import Sample

SAMPLER = (sys.executable, "-P", "-m", "gputui.gpus.nvml")
"""With -P, so that a file of the user's named like one of our modules is not imported."""

_DATA_FD = 3
_LOWEST_FREE_FD = 10
_CHUNK = 1 << 16
_LONGEST_ERROR = 2000


class SamplerGone(Exception):
    """The process has closed its end."""


class Child:
    """A running sampler. It ends by itself when this end of its pipes closes, whatever closes it."""

    def __init__(self, interval: float, command: Sequence[str], environment: Mapping[str, str]) -> None:
        control, self._control = _pipe()
        self.data, data = _pipe()
        self._errors = os.memfd_create("gputui-sampler-errors", os.MFD_CLOEXEC)
        self._frames = FrameReader()
        os.set_blocking(self.data, False)
        os.set_blocking(self._control, False)
        try:
            self.pid = _spawn([*command, str(_DATA_FD), repr(interval)], environment, control, data, self._errors)
        except OSError:
            self._close_pipes()
            raise
        finally:
            os.close(control)
            os.close(data)

    def read(self) -> Sample | None:
        """The newest sample that has come; raises SamplerGone at its end, GarbledStream on nonsense."""
        newest = None
        while True:
            try:
                data = os.read(self.data, _CHUNK)
            except BlockingIOError:
                return newest
            if not data:
                if newest is None:
                    raise SamplerGone(self._last_words())
                return newest
            newest = self._frames.feed(data) or newest

    def set_interval(self, seconds: float) -> None:
        try:
            os.write(self._control, f"interval {seconds!r}\n".encode())
        except OSError:
            return  # it is going; its successor is started with the new interval

    def abandon(self) -> None:
        """Never waits: a process whose call hangs in the kernel ends when the kernel lets it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._close_pipes()

    def reaped(self) -> bool:
        """Its end has been collected, by us or by somebody else."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def wait(self, seconds: float) -> bool:
        """Like `reaped`, with a little patience."""
        deadline = time.monotonic() + seconds
        while not (reaped := self.reaped()) and time.monotonic() < deadline:
            time.sleep(0.002)
        return reaped

    def _last_words(self) -> str:
        size = os.fstat(self._errors).st_size
        words = os.pread(self._errors, _LONGEST_ERROR, max(0, size - _LONGEST_ERROR)).decode("utf-8", "replace")
        return words.strip().rpartition("\n")[2]

    def _close_pipes(self) -> None:
        for fd in (self._control, self.data, self._errors):
            os.close(fd)


def _pipe() -> tuple[int, int]:
    """Above the numbers that the child's own descriptors get, so that none overwrites another."""
    low = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FREE_FD) for fd in low]
    for fd in low:
        os.close(fd)
    return high[0], high[1]


def _spawn(argv: list[str], environment: Mapping[str, str], control: int, data: int, errors: int) -> int:
    """In a session of its own, so that Ctrl-C in the owner's terminal does not reach it."""
    return os.posix_spawn(
        argv[0],
        argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, errors, 2),
            (os.POSIX_SPAWN_DUP2, control, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, data, _DATA_FD),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
    )
