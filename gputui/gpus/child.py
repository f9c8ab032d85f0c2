"""One sampler process as its owner holds it: two pipes and a pid. Owns starting, reading and letting go of it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gputui.process.spawn import spawn

from .frames import FrameReader
from .sample import Sample

SAMPLER = (sys.executable, "-P", "-m", "gputui.gpus.nvml")
"""With -P, so that a file of the user's named like one of our modules is not imported."""

_DATA_FD = 3
_CHUNK = 1 << 16
_LONGEST_ERROR = 2000


class SamplerGone(Exception):
    """The process has closed its end."""


class Child:
    """A running sampler. It ends by itself when this end of its pipes closes, whatever closes it."""

    def __init__(self, interval: float, command: Sequence[str], environment: Mapping[str, str]) -> None:
        control, self._control = os.pipe()
        self.data, data = os.pipe()
        self._errors = os.memfd_create("gputui-sampler-errors", os.MFD_CLOEXEC)
        self._frames = FrameReader()
        os.set_blocking(self.data, False)
        os.set_blocking(self._control, False)
        try:
            # In a session of its own, so that Ctrl-C in the owner's terminal does not reach it.
            words = [*command, str(_DATA_FD), repr(interval)]
            self.pid = spawn(words, environment, {0: control, 2: self._errors, _DATA_FD: data})
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
