"""The owner's event loop, and tickets for requests from other threads."""

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
from typing import Generic, Protocol, TypeVar

from gputui.core.events import Event
from gputui.core.scheduler import Scheduler
from gputui.process.watch import NoThread, begin

from .layouts import Layout
from .loading import SourceRecord

# ---- The owner's event loop ----


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


# ---- A request to the owner from another thread, and its answer, which is given only when it is durable ----


class Act(Protocol):
    """What a request may do in the owner's thread: look at the scheduler and hand it events."""

    scheduler: Scheduler
    now: float
    sources: dict[str, SourceRecord]
    """Those the session remembers, by their keys; a change of it is stored with the rest of the turn's."""

    def handle(self, event: Event) -> None: ...

    def lay_out(self, layout: Layout) -> None:
        """Jobs that have not begun get folders with these names; Refusal: such folders are there already."""

    def keep_environment(self, environment: dict[str, str]) -> str:
        """Stores an environment with this change; returns its digest."""


Work = Callable[[Act], T]


class OwnerGone(Exception):
    """The owner ended before it could answer; whether the request was carried out must be looked up."""


class Ticket(Generic[T]):
    def __init__(self, work: Work[T], uuid: str | None = None) -> None:
        self.work = work
        self.uuid = uuid
        """Names the request for ever: repeated, it is answered as before and not carried out again."""
        self.reply: Callable[[Ticket[T]], bytes] | None = None
        """How its answer looks on the wire, for the store to remember."""
        self.changes = False
        """It changed something, which must be durable before it is answered."""
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._then: Callable[[Ticket[T]], None] | None = None

    def outcome(self) -> T:
        """What came of it, durable or not; for the owner's thread."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # carried out by now

    def result(self, timeout: float | None = None) -> T:
        """Waits for the answer; raises what the request raised, a Refusal above all."""
        if not self._done.wait(timeout):
            raise TimeoutError("the owner did not answer in time")
        return self.outcome()

    def when_done(self, then: Callable[[Ticket[T]], None]) -> None:
        """Called when the answer is there: in the owner's thread, or at once if it is there already."""
        with self._lock:
            self._then = then
            late = self._done.is_set()
        if late:
            then(self)

    def carry_out(self, act: Act) -> None:
        try:
            self._value = self.work(act)
        except Exception as error:
            self._error = error

    @property
    def failed(self) -> bool:
        return self._error is not None

    def answer(self, value: T) -> None:
        """Another one than it had, before it is given."""
        self._value = value

    def fail(self, error: BaseException) -> None:
        self._error = self._error or error

    def settle(self, error: BaseException | None = None) -> None:
        self._error = self._error or error
        with self._lock:
            self._done.set()
            then = self._then
        if then is not None:
            then(self)
