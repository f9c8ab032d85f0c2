"""Seeing processes end: by pidfd where the kernel has them, else by looking at /proc every 50 ms."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from . import pidfd, processes
from .event_loop import Cancel, EventLoop

POLL_INTERVAL = 0.05


class Watch:
    """One process, pinned from the creation of this on; `begin` calls back once when it has ended."""

    __slots__ = ("_fd", "_listening", "_started", "_timer", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._listening: tuple[EventLoop, Callable[[], None]] | None = None
        self._timer: Cancel | None = None
        self._fd = _pinned(pid)
        self._started = _start_of(pid) if self._fd is None else None

    def begin(self, loop: EventLoop, ended: Callable[[], None]) -> None:
        self._listening = (loop, ended)
        if self._fd is not None:
            loop.add_reader(self._fd, ended)
        else:
            self._timer = loop.call_later(POLL_INTERVAL, self._look)

    def finish(self) -> os.waitid_result | None:
        """After its end: lets go of it, and says how it ended if it was our child."""
        self._stop_listening()
        result = pidfd.reap(self.pid, self._fd)
        self.close()
        return result

    def close(self) -> None:
        self._stop_listening()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def signal(self, signum: int) -> None:
        """Never reaches a later process of the same number."""
        with suppress(OSError):
            if self._fd is not None:
                pidfd.send_signal(self._fd, signum)
            elif not self._has_ended():
                os.kill(self.pid, signum)

    def _stop_listening(self) -> None:
        if self._listening is None:
            return
        loop, self._listening = self._listening[0], None
        if self._timer is not None:
            self._timer.cancel()
        elif self._fd is not None:
            loop.remove_reader(self._fd)

    def _look(self) -> None:
        if self._listening is None:
            return
        loop, ended = self._listening
        if self._has_ended():
            ended()
        else:
            self._timer = loop.call_later(POLL_INTERVAL, self._look)

    def _has_ended(self) -> bool:
        try:
            # A child keeps its number until it is reaped, and asking for it needs no descriptor.
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return self._stranger_has_ended()

    def _stranger_has_ended(self) -> bool:
        try:
            now = processes.stat_of(self.pid)
        except OSError:
            return False
        return now is None or not now.alive or self._started not in (None, now.started)


def _pinned(pid: int) -> int | None:
    """None: to be polled, because there are no pidfds, none left for us, or the process is gone."""
    if not pidfd.available():
        return None
    try:
        return pidfd.open_process(pid)
    except OSError:
        return None


def _start_of(pid: int) -> int | None:
    """None: gone, or it could not be seen."""
    try:
        stat = processes.stat_of(pid)
    except OSError:
        return None
    return stat.started if stat is not None else None
