"""The base class of the apps: signals that quit, stop and continue it, keys, the clipboard and notifications."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, ClassVar

from textual import events
from textual.app import ReturnType
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.filter import LineFilter

from gputui.logs.plain import plain

from .driver import KeyQueue, SafeDriver
from .screen_diff import Sanitize
from .textual_private import CellDiffApp, parser_works
from .tty import Colours

LONGEST = 200
BELL = "\a"
_NINE = ("iTerm.app", "WezTerm", "ghostty", "vscode", "WarpTerminal", "rio")
_SEVEN = ("rxvt", "foot")


def notification(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the escape sequence for a notification. A terminal of unknown type gets both forms (OSC 9 and OSC 777)."""
    message = plain(text)[:LONGEST]
    nine, seven = f"\x1b]9;{message}\x07", f"\x1b]777;notify;gputui;{message.replace(';', ',')}\x07"
    term = environment.get("TERM", "")
    if environment.get("TERM_PROGRAM") in _NINE or term.startswith(("xterm-kitty", "xterm-ghostty")):
        return BELL + nine
    if environment.get("VTE_VERSION") or term.startswith(_SEVEN):
        return BELL + seven
    return BELL + nine + seven


TMUX_COPY = ("tmux", "load-buffer", "-w", "-")
"""A command that copies its input to tmux's buffer and to the clipboard of the terminal in which tmux runs."""
TMUX_TIMEOUT = 5.0


class TerminalApp(CellDiffApp[ReturnType]):
    """An app for terminals that may stall, hang up, or be lent to another program."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False),
        Binding("ctrl+l", "redraw", "Redraw", show=False),
        Binding("ctrl+z", "suspend_process", "Stop", show=False),
    ]

    def __init__(self, *, colours: Colours = Colours.RGB, cell_diff: bool = True) -> None:
        """Create the app. `colours` is the result of `tty.colours()`."""
        self.colours = colours
        self._signals: Signals | None = None
        self._last_input = time.monotonic()
        self._last_line = Sanitize()  # one object, since strips cache the results of filters
        few = colours in (Colours.SIXTEEN, Colours.NONE)
        super().__init__(ansi_color=few or None, cell_diff=cell_diff)
        self._keys = KeyQueue(self, super().on_event)
        self.animation_level = "none"
        if few:
            self.theme = "ansi-dark"  # rounding a theme of many colours to 16 or to none makes it unreadable

    # To be overridden

    def terminal_lost(self) -> None:
        """Exit because the terminal has hung up. Called once."""
        self.exit(return_code=128 + signal.SIGHUP)

    def asked_to_leave(self, signum: int) -> None:
        """Exit because of SIGTERM, SIGINT or SIGUSR1. Ctrl-C counts as SIGINT."""
        self.exit(return_code=128 + signum)

    def before_stop(self) -> None:
        """Prepare for the stop of the process by Ctrl-Z. Called after the terminal was given back."""

    def after_continue(self) -> None:
        """Continue after `before_stop`. Not called if the terminal was lost in the meantime."""

    def nobody_to_continue(self) -> None:
        """Tell the user that Ctrl-Z does nothing because no shell could continue a stopped app."""
        self.notify("cannot suspend: no shell could resume gputui; press q to quit", markup=False)

    def call_user(self, message: str) -> None:
        """Ring the bell, and show a notification if the terminal supports it."""
        if self.terminal is not None:
            self.terminal.write(notification(message))

    def copy_to_clipboard(self, text: str) -> None:
        """Copy with OSC 52. Inside tmux, also copy with a tmux command because tmux ignores OSC 52 by default."""
        super().copy_to_clipboard(text)

        def copy_to_tmux() -> None:
            """Copy to tmux. This runs in a thread because the tmux server may be slow or gone."""
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run(TMUX_COPY, input=text.encode("utf-8", "replace"), capture_output=True,
                               timeout=TMUX_TIMEOUT)  # fmt: skip

        if os.environ.get("TMUX"):
            self.run_worker(copy_to_tmux, thread=True, exit_on_error=False, group="clipboard")

    # Keys

    @property
    def idle_for(self) -> float:
        """Seconds since the last key, paste or mouse input, or since the start."""
        return time.monotonic() - self._last_input

    def action_interrupt(self) -> None:
        self.asked_to_leave(signal.SIGINT)

    def action_redraw(self) -> None:
        self.forget_screen()

    def action_suspend_process(self) -> None:
        if self._signals is not None:
            self._signals.stop()

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Lend the terminal to another program, such as a pager. Ctrl-Z works there too."""
        with super().suspend(), self._signals.while_lent() if self._signals is not None else nullcontext():
            yield

    # Called by Textual

    def get_driver_class(self) -> type[Driver]:
        return SafeDriver if parser_works() else super().get_driver_class()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._last_line]

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent | events.Paste):
            self._last_input = time.monotonic()
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self._keys.put(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        """Install the signal handlers. Textual calls this in addition to a subclass's own `on_mount`."""
        if self._signals is None and self.terminal is not None:
            self._signals = Signals(asyncio.get_running_loop(), self.terminal, self)


# Signals


class Signals:
    """The signal handlers, installed until the loop is closed. All except `_stop_at_once` run in the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, driver: SafeDriver, app: TerminalApp[Any]) -> None:
        self._loop, self._driver, self._app = loop, driver, app
        self._done_at_once = 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            loop.add_signal_handler(number, app.asked_to_leave, number)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup, end of file reports a hang-up
            loop.add_signal_handler(signal.SIGHUP, driver.report_loss)
        self._watch_stops()

    def stop(self) -> None:
        """Do what Ctrl-Z requests: give the terminal back, stop the whole process group, and return when it is
        continued.

        If the process is continued in the background (`bg`), the kernel stops it again before it can use the terminal.
        """
        if not _can_be_continued():
            self._app.nobody_to_continue()
            return
        self._driver.suspend_application_mode()
        try:
            self._app.before_stop()
            self._loop.remove_signal_handler(signal.SIGTSTP)
            self._loop.remove_signal_handler(signal.SIGCONT)
            try:
                os.kill(0, signal.SIGTSTP)
            finally:
                self._watch_stops()
        finally:
            self._driver.resume_application_mode()
        if not self._driver.lost:
            self._app.after_continue()

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
        self._app.before_stop()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._app.after_continue()

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
