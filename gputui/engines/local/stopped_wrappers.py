"""Wakes wrappers that somebody stopped: they could not write down how their command ended, and would end never."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

from gputui.process.event_loop import Cancel, EventLoop
from gputui.process.processes import stat_of

from .live import LiveAttempt

LOOK_EVERY = 2.0
"""Seconds: the kernel tells nobody but a parent, and an adopted wrapper is no child of ours."""


class StoppedWrappers:
    """Looks at the wrappers as long as there are any. A command that was stopped stays stopped."""

    def __init__(self, loop: EventLoop, attempts: Callable[[], Iterable[LiveAttempt]]) -> None:
        self._loop = loop
        self._attempts = attempts
        self._timer: Cancel | None = None

    def begin(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_EVERY, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        for live in self._attempts():
            self.begin()
            with suppress(OSError):
                self._wake(live)

    def _wake(self, live: LiveAttempt) -> None:
        if live.watch is not None and (stat := stat_of(live.watch.pid)) is not None and stat.stopped:
            live.watch.signal(signal.SIGCONT)
