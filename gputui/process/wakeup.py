"""What the main thread waits on: any thread can wake it, and so can every signal, at any moment.

A `threading.Event` cannot: a handler that sets it while the main thread is inside of it waits for ever for itself,
and a signal that the kernel gives to another thread, or just before the wait begins, wakes nobody.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

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
