"""The signals that ask the app to leave, to stop for a while, or to draw itself again.

All of them run in the event loop, never in the middle of other code. Knows the app by `SignalHost` only.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import psutil

from .driver import SafeDriver

__all__ = ["SignalHost", "Signals"]

_REQUESTS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class SignalHost(Protocol):
    def asked_to_leave(self, signum: int) -> None:
        """SIGTERM, SIGINT or SIGUSR1 came."""

    def nobody_to_continue(self) -> None:
        """It was to stop, but there is no shell that could bring it back."""

    def before_stop(self) -> None:
        """The screen has been left and the process is about to stop."""

    def after_continue(self) -> None:
        """The process goes on and has its screen back; not said when the terminal was lost meanwhile."""


class Signals:
    """In force until the loop is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, driver: SafeDriver, host: SignalHost) -> None:
        self._loop, self._driver, self._host = loop, driver, host
        self._done_at_once = 0
        for number in _REQUESTS:
            loop.add_signal_handler(number, host.asked_to_leave, number)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup the end of the file tells it
            loop.add_signal_handler(signal.SIGHUP, driver.lose)
        self._watch_stops()

    def stop(self) -> None:
        """What Ctrl-Z means: gives the terminal back, stops with all of this job, and returns when continued.

        Continued in the background (`bg`), the kernel stops it again before it can touch the terminal.
        """
        if not _can_be_continued():
            self._host.nobody_to_continue()
            return
        self._driver.suspend_application_mode()
        try:
            self._host.before_stop()
            with self._unwatched_stops():
                os.kill(0, signal.SIGTSTP)
        finally:
            self._driver.resume_application_mode()
        if not self._driver.lost:
            self._host.after_continue()

    @contextmanager
    def while_lent(self) -> Iterator[None]:
        """While another program has the terminal. The loop may wait for it, so a stop cannot wait for the loop."""
        self._loop.remove_signal_handler(signal.SIGCONT)
        signal.signal(signal.SIGTSTP, self._stop_at_once)
        try:
            yield
        finally:
            self._watch_stops()

    def _stop_at_once(self, *_: object) -> None:
        self._done_at_once += 1
        self._host.before_stop()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._host.after_continue()

    def _told_to_stop(self) -> None:
        """The loop hears of every SIGTSTP, also of those that were done at once."""
        if self._done_at_once:
            self._done_at_once -= 1
        else:
            self.stop()

    def _continued(self) -> None:
        """Somebody else stopped us (kill -STOP), and what the shell did to the terminal is unknown."""
        if not self._driver.lost:  # a hang-up sends SIGCONT too
            self._driver.suspend_application_mode()
            self._driver.resume_application_mode()

    def _watch_stops(self) -> None:
        self._loop.add_signal_handler(signal.SIGTSTP, self._told_to_stop)
        self._loop.add_signal_handler(signal.SIGCONT, self._continued)

    @contextmanager
    def _unwatched_stops(self) -> Iterator[None]:
        self._loop.remove_signal_handler(signal.SIGTSTP)
        self._loop.remove_signal_handler(signal.SIGCONT)
        try:
            yield
        finally:
            self._watch_stops()


def _can_be_continued() -> bool:
    """Whether a shell watches this job; a stopped app that nobody can continue is as good as dead."""
    for parent in psutil.Process().parents():
        if os.getsid(parent.pid) != os.getsid(0):
            return False
        if os.getpgid(parent.pid) != os.getpgrp():
            return True
    return False
