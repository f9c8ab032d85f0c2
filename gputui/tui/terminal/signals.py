"""Signals that quit, stop and continue the app. All handlers except `_stop_at_once` run in the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from .driver import SafeDriver

_REQUESTS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class SignalHost(Protocol):
    """The callbacks for signals, described in `TerminalApp`."""

    def asked_to_leave(self, signum: int) -> None: ...

    def nobody_to_continue(self) -> None: ...

    def before_stop(self) -> None: ...

    def after_continue(self) -> None: ...


class Signals:
    """The signal handlers. They remain installed until the loop is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, driver: SafeDriver, host: SignalHost) -> None:
        self._loop, self._driver, self._host = loop, driver, host
        self._done_at_once = 0
        for number in _REQUESTS:
            loop.add_signal_handler(number, host.asked_to_leave, number)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup, end of file reports a hang-up
            loop.add_signal_handler(signal.SIGHUP, driver.report_loss)
        self._watch_stops()

    def stop(self) -> None:
        """Do what Ctrl-Z requests: give the terminal back, stop the whole process group, and return when it is
        continued.

        If the process is continued in the background (`bg`), the kernel stops it again before it can use the terminal.
        """
        if not _can_be_continued():
            self._host.nobody_to_continue()
            return
        self._driver.suspend_application_mode()
        try:
            self._host.before_stop()
            self._loop.remove_signal_handler(signal.SIGTSTP)
            self._loop.remove_signal_handler(signal.SIGCONT)
            try:
                os.kill(0, signal.SIGTSTP)
            finally:
                self._watch_stops()
        finally:
            self._driver.resume_application_mode()
        if not self._driver.lost:
            self._host.after_continue()

    @contextmanager
    def while_lent(self) -> Iterator[None]:
        """Handle SIGTSTP without the loop while another program has the terminal, because the loop may be blocked."""
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

    def _on_stop(self) -> None:
        """Handle SIGTSTP, unless `_stop_at_once` has handled it, because the loop reports those signals as well."""
        if self._done_at_once:
            self._done_at_once -= 1
        else:
            self.stop()

    def _on_continue(self) -> None:
        """Restore the terminal after `kill -STOP`, because the shell may have changed its state."""
        if not self._driver.lost:  # a hang-up sends SIGCONT too
            self._driver.suspend_application_mode()
            self._driver.resume_application_mode()

    def _watch_stops(self) -> None:
        self._loop.add_signal_handler(signal.SIGTSTP, self._on_stop)
        self._loop.add_signal_handler(signal.SIGCONT, self._on_continue)


def _can_be_continued() -> bool:
    """Return whether a shell controls this process group and could continue it."""
    import psutil  # slow to import, and only needed here

    for parent in psutil.Process().parents():
        if os.getsid(parent.pid) != os.getsid(0):
            return False
        if os.getpgid(parent.pid) != os.getpgrp():
            return True
    return False
