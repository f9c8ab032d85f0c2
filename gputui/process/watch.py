"""Seeing processes end, waking the main thread, and the part of the event loop that others use."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from . import processes

# ---- What the main thread waits on ----


MOST_AT_ONCE = 4096


class Wakeup:
    def __init__(self) -> None:
        self._reads, self._writes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._reads, select.POLLIN)

    def __del__(self) -> None:
        os.close(self._reads)
        os.close(self._writes)

    def set(self) -> None:
        with suppress(BlockingIOError):  # it is full: whoever waits is awake
            os.write(self._writes, b"\0")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            while len(os.read(self._reads, MOST_AT_ONCE)) == MOST_AT_ONCE:
                pass

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it was woken; signals' handlers have run by then."""
        return bool(self._poll.poll(None if seconds is None else seconds * 1000))

    def listen_to_signals(self) -> None:
        """From now on every signal that has a handler wakes it too; only in the main thread."""
        signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)

    def forget_signals(self) -> None:
        signal.set_wakeup_fd(-1)


# ---- The part of the owner's loop that others are lent ----


T = TypeVar("T")


class Cancel(Protocol):
    def cancel(self) -> None: ...


class EventLoop(Protocol):
    """The part of the owner's loop that engines use. All callbacks run in the owner's thread."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None: ...

    def remove_reader(self, fd: int) -> None: ...

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """From any thread."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancel: ...

    def run_in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None: ...


# ---- Seeing processes end ----


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
        result = processes.reap(self.pid, self._fd)
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
                processes.send_signal(self._fd, signum)
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
    if not processes.available():
        return None
    try:
        return processes.open_process(pid)
    except OSError:
        return None


def _start_of(pid: int) -> int | None:
    """None: gone, or it could not be seen."""
    try:
        stat = processes.stat_of(pid)
    except OSError:
        return None
    return stat.started if stat is not None else None


# ---- Threads on a machine that may have none left ----


class NoThread(Exception):
    """The message is the sentence the user reads."""


def begin(work: Callable[[], None], name: str) -> threading.Thread:
    """A thread that works already, and that no process waits for at its end. Raises NoThread."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise NoThread(
            "this machine gives gputui no further thread: too many processes (ulimit -u, a container's pids.max) or "
            "too little memory (ulimit -v); end some and try again"
        ) from error
    return thread
