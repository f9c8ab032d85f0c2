"""Watch processes, wake up the main thread, start threads. Also the interface of the event loop."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from . import processes


class Wakeup:
    """A pipe on which the main thread waits, and to which other threads and signals write."""

    def __init__(self) -> None:
        self._reads, self._writes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._reads, select.POLLIN)

    def __del__(self) -> None:
        os.close(self._reads)
        os.close(self._writes)

    def set(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full, so the waiter is awake
            os.write(self._writes, b"\0")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            while len(os.read(self._reads, 4096)) == 4096:
                pass

    def wait(self, seconds: float | None = None) -> bool:
        """Wait, and return whether the thread was woken up. Signal handlers have run before this returns."""
        return bool(self._poll.poll(None if seconds is None else seconds * 1000))

    def listen_to_signals(self) -> None:
        """Make every handled signal wake up the thread, too. May only be called in the main thread."""
        signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)

    def forget_signals(self) -> None:
        signal.set_wakeup_fd(-1)


T = TypeVar("T")


class Cancel(Protocol):
    def cancel(self) -> None: ...


class EventLoop(Protocol):
    """The part of the scheduler's event loop that engines use. All callbacks run in the loop's thread."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None: ...

    def remove_reader(self, fd: int) -> None: ...

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """Run a callback soon. This may be called from any thread."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancel: ...

    def run_in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None: ...


POLL_INTERVAL = 0.05


class Watch:
    """A watch for the end of one process. It uses a pidfd if possible, and otherwise polls."""

    __slots__ = ("_fd", "_listening", "_started", "_timer", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._listening: tuple[EventLoop, Callable[[], None]] | None = None
        self._timer: Cancel | None = None
        self._fd: int | None = None
        """The pidfd, or None if the process must be polled."""
        self._started: int | None = None
        with suppress(OSError):  # no more descriptors, or no such process
            if processes.available():
                self._fd = processes.open_process(pid)
        with suppress(OSError):
            if self._fd is None and (stat := processes.stat_of(pid)) is not None:
                self._started = stat.started

    def begin(self, loop: EventLoop, ended: Callable[[], None]) -> None:
        self._listening = (loop, ended)
        if self._fd is not None:
            loop.add_reader(self._fd, ended)
        else:
            self._timer = loop.call_later(POLL_INTERVAL, self._poll)

    def finish(self) -> os.waitid_result | None:
        """Stop watching a process that has ended. Return how it ended, or None if it was not a child."""
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
        """Send a signal to the process, but never to a later process with the same pid."""
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

    def _poll(self) -> None:
        if self._listening is None:
            return
        loop, ended = self._listening
        if self._has_ended():
            ended()
        else:
            self._timer = loop.call_later(POLL_INTERVAL, self._poll)

    def _has_ended(self) -> bool:
        try:
            # A child keeps its pid until it is reaped.
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            with suppress(OSError):
                now = processes.stat_of(self.pid)
                return now is None or not now.alive or self._started not in (None, now.started)
            return False


class NoThread(Exception):
    """Raised when no thread can be started. The message is shown to the user."""


def start_thread(
    work: Callable[[], None], name: str, failed: Callable[[BaseException], None] | None = None
) -> threading.Thread:
    """Start a daemon thread, or raise NoThread if that fails. `failed` is called with an exception of the thread."""

    def run() -> None:
        try:
            work()
        except BaseException as error:
            if failed is None:
                raise
            failed(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise NoThread(
            "cannot start another thread: too many processes (ulimit -u, a container's pids.max) or too little "
            "memory (ulimit -v); end some and try again"
        ) from error
    return thread


class WorkerThread:
    """A daemon thread that runs tasks in order.

    After each task, and whenever no task arrived in time, the thread calls `idle`. This returns how many seconds to
    wait for a task before the next call, or None to wait until there is one.
    """

    def __init__(
        self,
        name: str,
        failed: Callable[[BaseException], None] | None = None,
        idle: Callable[[], float | None] | None = None,
    ) -> None:
        self._idle = idle
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self._thread = start_thread(self._work, name, failed)

    def add(self, task: Callable[[], None]) -> None:
        self._tasks.put(task)

    def close(self, patience: float = 2.0) -> None:
        """Drop the tasks that have not started, and wait up to `patience` seconds for the running one."""
        self._closed = True
        self._tasks.put(None)
        self._thread.join(patience)

    def _work(self) -> None:
        task: Callable[[], None] | None = None
        while not self._closed:
            if task is not None:
                task()
            pause = self._idle() if self._idle is not None else None
            try:
                task = self._tasks.get(timeout=pause)
            except Empty:
                task = None
