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
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from gputui.process.watch import NoThread, start_thread

if TYPE_CHECKING:
    from gputui.core.events import Event
    from gputui.core.scheduler import Scheduler, Undo

    from .loading import SourceRecord
    from .messages import Layout

# The event loop


T = TypeVar("T")
Callback = Callable[[], object]
CLOSED = -1
LONGEST_SLEEP = 86_400.0
"""Maximum number of seconds that the loop sleeps. epoll counts milliseconds in 32 bits, which is too short for time
limits of months.
"""


class Timer:
    """A scheduled call that can be canceled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """An event loop that runs callbacks in the thread that called `run`. Of its methods, only `call_soon_threadsafe` is
    thread-safe.
    """

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._watched: dict[int, Callback] = {}
        self._soon: deque[Callback] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._ties = itertools.count()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Reentrant, because a signal handler may interrupt the main thread in `call_soon_threadsafe`.
        self._wake_lock = threading.RLock()
        self._watch(self._wake_fd, select.EPOLLIN, self._woken)
        self._running = False
        self._worker: _Worker | None = None

    def run(self) -> None:
        """Run until `stop` is called."""
        self._running = True
        while self._running:
            self._run_due()
            if self._running:
                self._run_ready()

    def stop(self) -> None:
        """Make `run` return once the current callback has finished. Call this only in the loop's thread."""
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
        """Call `callback` when the descriptor is writable. The descriptor must not have a reader."""
        self._watch(fd, select.EPOLLOUT, callback)

    def remove_reader(self, fd: int) -> None:
        del self._watched[fd]
        self._poll.unregister(fd)

    remove_writer = remove_reader

    def call_soon(self, callback: Callback) -> None:
        self._soon.append(callback)

    def call_soon_threadsafe(self, callback: Callback) -> None:
        """Run the callback in the loop's thread. Any thread may call this. After `close`, the callback is dropped."""
        self._soon.append(callback)
        with self._wake_lock:
            if self._wake_fd != CLOSED:
                os.eventfd_write(self._wake_fd, 1)

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._ties), timer))
        return timer

    def run_in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run `work` in the worker thread, which does one task at a time, and pass its result to `then` in the loop's
        thread.

        If no thread can be started, `work` runs at once in the calling thread. An exception of `work` is raised in the
        loop's thread.
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
            # An earlier callback may have removed the descriptor, and its number may be reused already.
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
    """A thread for work that would delay a turn."""

    def __init__(self) -> None:
        """Start the thread. Raise NoThread if it cannot be started."""
        self._tasks: queue.SimpleQueue[Callback | None] = queue.SimpleQueue()
        self._thread = start_thread(self._work, "gputui-worker")

    def take(self, task: Callback) -> None:
        self._tasks.put(task)

    def close(self) -> None:
        """Finish the queued tasks and end the thread."""
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


def _raise(defect: BaseException) -> None:
    raise defect


# Requests from other threads


class TurnContext(Protocol):
    """What a request may use while it is carried out in the owner's thread: the scheduler, and methods to change the
    session.
    """

    scheduler: Scheduler
    now: float
    sources: dict[str, SourceRecord]
    """The session's sources by their keys. Changes to the dictionary are stored with the rest of the turn."""

    def handle(self, event: Event | Undo) -> None: ...

    def lay_out(self, layout: Layout) -> None:
        """Set how the directories of jobs that have not started are named. Raise Refusal if such a directory already
        exists.
        """

    def keep_environment(self, environment: dict[str, str]) -> str:
        """Store an environment at the end of the turn and return its digest."""


Work = Callable[[TurnContext], T]


class OwnerGone(Exception):
    """Raised when the owner ended before it could answer. The request may have been carried out."""


LOOK_AT_OWNER = 1.0
"""Seconds between two checks whether the owner that should answer is still alive."""


class Ticket(Generic[T]):
    """A request to the owner and its answer. The answer is given once it is durable."""

    def __init__(
        self, work: Work[T], uuid: str | None = None, *, owner_gone: Callable[[], bool] = lambda: False
    ) -> None:
        """Create a ticket for a request. `owner_gone` returns whether the owner has ended without answering, which can
        happen if it runs out of memory.
        """
        self.work = work
        self._owner_gone = owner_gone
        self.uuid = uuid
        """The id of the request. A repeated request gets the same answer and is not carried out again."""
        self.reply: Callable[[Ticket[T]], bytes] | None = None
        """Function that encodes the answer for the socket and for the store."""
        self.changes = False
        """Whether the request changed something that must be durable before it is answered."""
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._then: Callable[[Ticket[T]], None] | None = None

    def outcome(self) -> T:
        """Return the answer or raise the error, even if it is not durable yet. Only for the owner's thread."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set by now

    def result(self, timeout: float | None = None) -> T:
        """Wait for the answer and return it. If the request raised an exception, usually a Refusal, raise that. Raise
        OwnerGone if the owner has ended.
        """
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            gone = self._owner_gone()  # checked before the wait, because the owner may answer and then end at once
            if self._done.wait(max(0.0, min(LOOK_AT_OWNER, deadline - time.monotonic()))):
                return self.outcome()
            if gone:
                raise OwnerGone("the scheduler has died")
            if time.monotonic() >= deadline:
                raise TimeoutError("the scheduler did not answer in time")

    def when_done(self, then: Callable[[Ticket[T]], None]) -> None:
        """Call `then` in the owner's thread once there is an answer. If there is one already, call `then` at once in
        this thread.
        """
        with self._lock:
            self._then = then
            late = self._done.is_set()
        if late:
            then(self)

    def carry_out(self, act: TurnContext) -> None:
        try:
            self._value = self.work(act)
        except Exception as error:
            self._error = error

    @property
    def failed(self) -> bool:
        return self._error is not None

    def answer(self, value: T) -> None:
        """Replace the answer before it is given."""
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
