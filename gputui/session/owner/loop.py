"""The owner's event loop: file descriptors, timers, and calls from other threads; nothing else.

Not asyncio: importing that costs a process more than twice what starting Python does, and a waiting keeper
must be small. The owner needs no coroutines, it works turn by turn.
"""

from __future__ import annotations

import heapq
import itertools
import os
import queue
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from gputui.process.threads import NoThread, begin

T = TypeVar("T")
Callback = Callable[[], None]
CLOSED = -1
LONGEST_SLEEP = 86_400.0
"""Seconds: epoll counts milliseconds in 32 bits, and a time limit of months is more than that."""


class Timer:
    """A call that will be made once; `cancel` takes it back."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Runs callbacks in the thread that called `run`; only `call_soon_threadsafe` may be called from others."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._watched: dict[int, Callback] = {}
        self._soon: deque[Callback] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._ties = itertools.count()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # A handler of signals may call while the loop's own thread, if that is the main one, is calling.
        self._wake_lock = threading.RLock()
        self._watch(self._wake_fd, select.EPOLLIN, self._woken)
        self._running = False
        self._worker: _Worker | None = None

    def run(self) -> None:
        """Until `stop`."""
        self._running = True
        while self._running:
            self._run_due()
            if self._running:
                self._run_ready()

    def stop(self) -> None:
        """From within the loop: `run` returns when the callback under way has."""
        self._running = False

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._poll.close()
        with self._wake_lock:
            os.close(self._wake_fd)
            self._wake_fd = CLOSED

    def add_reader(self, fd: int, callback: Callback) -> None:
        self._watch(fd, select.EPOLLIN, callback)

    def add_writer(self, fd: int, callback: Callback) -> None:
        """For a descriptor that is not read at the same time."""
        self._watch(fd, select.EPOLLOUT, callback)

    def remove_reader(self, fd: int) -> None:
        del self._watched[fd]
        self._poll.unregister(fd)

    remove_writer = remove_reader

    def call_soon(self, callback: Callback) -> None:
        self._soon.append(callback)

    def call_soon_threadsafe(self, callback: Callback) -> None:
        """After `close` it does nothing: the descriptor's number may be somebody else's by then."""
        self._soon.append(callback)
        with self._wake_lock:
            if self._wake_fd != CLOSED:
                os.eventfd_write(self._wake_fd, 1)

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._ties), timer))
        return timer

    def run_in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Does slow work elsewhere, one piece at a time, and hands its result back to this thread.

        Where the machine gives no thread it is done here and now. What it raises, this thread raises.
        """
        if self._worker is None:
            try:
                self._worker = _Worker()
            except NoThread:
                self._hand_back(work, then)
                return
        self._worker.take(lambda: self._hand_back(work, then))

    def _hand_back(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        try:
            result = work()
        except BaseException as error:
            defect = error
            self.call_soon_threadsafe(lambda: _raise(defect))
        else:
            self.call_soon_threadsafe(lambda: then(result))

    def _watch(self, fd: int, events: int, callback: Callback) -> None:
        self._poll.register(fd, events)
        self._watched[fd] = callback

    def _run_ready(self) -> None:
        ready = [(fd, self._watched[fd]) for fd, _ in self._poll.poll(self._patience())]
        for fd, callback in ready:
            # One callback may have removed another's descriptor, whose number may have a new owner already.
            if self._watched.get(fd) is callback:
                callback()

    def _woken(self) -> None:
        os.eventfd_read(self._wake_fd)

    def _run_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                timer.callback()
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def _patience(self) -> float | None:
        if self._soon:
            return 0.0
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        return min(LONGEST_SLEEP, max(0.0, self._timers[0][0] - time.monotonic()))


class _Worker:
    """One thread for the work that must not hold up a turn."""

    def __init__(self) -> None:
        """Raises NoThread."""
        self._tasks: queue.SimpleQueue[Callback | None] = queue.SimpleQueue()
        self._thread = begin(self._work, "gputui-worker")

    def take(self, task: Callback) -> None:
        self._tasks.put(task)

    def close(self) -> None:
        """Finishes what was taken."""
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


def _raise(defect: BaseException) -> None:
    raise defect
