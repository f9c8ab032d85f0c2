"""Textual's driver for a terminal that may stall or vanish: no threads, never blocks, says once when it is lost.

Keyboard and screen are /dev/tty: a piped standard input is never taken as keys, redirected output changes nothing.
The seams with Textual: the abstract methods of `textual.driver.Driver` and its `_loop`, `_mouse`, `_size`,
`_down_buttons`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any, Protocol, cast

from textual import constants, events
from textual.app import App
from textual.driver import Driver
from textual.geometry import Size
from textual.message import Message

from .keys import KeyReader
from .tty import Tty
from .writer import TerminalWriter

__all__ = ["DriverHost", "SafeDriver"]

_KEYBOARD_PROTOCOL = "" if constants.DISABLE_KITTY_KEY else "\x1b[>25u"
_ASK_FOR_SYNC = "" if os.environ.get("TERM_PROGRAM") == "Apple_Terminal" else "\x1b[?2026$p"
_MOUSE_ON = "\x1b[?1000h\x1b[?1002h\x1b[?1006h"  # clicks, drags and the wheel: no report for a mere move
_MOUSE_OFF = "\x1b[?1006l\x1b[?1002l\x1b[?1000l"
_ENTER = "\x1b[?1049h\x1b[?25l" + _KEYBOARD_PROTOCOL + "\x1b[?2004h\x1b[?7l"
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?2004l\x1b[<u\x1b[?1049l\x1b[?25h"


class DriverHost(Protocol):
    """What the driver tells its app."""

    def terminal_lost(self) -> None:
        """The terminal is gone; said once."""

    def terminal_has_room(self) -> None:
        """What was queued has been taken; frames that were left out can be made up for."""

    def forget_screen(self) -> None:
        """Nothing is known any more about what the terminal shows."""


_KEEP_TITLE, _OLD_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_UNTITLED = ("", "dumb", "linux")
"""Terminals without a title; the console would print it."""


class SafeDriver(Driver):
    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._host = cast(DriverHost, app)
        self._tty = Tty.open()
        self._size = size or self._tty.size()
        self._writer: TerminalWriter | None = None
        self._keys: KeyReader | None = None
        self._to_ask = _ASK_FOR_SYNC
        self._lost = False
        self._title = ""

    @property
    def can_suspend(self) -> bool:
        return True

    @property
    def crowded(self) -> bool:
        """Whether the terminal lags so much that a frame is better left out."""
        return self._writer is not None and self._writer.crowded

    @property
    def silent_for(self) -> float:
        """Seconds for which the terminal has taken nothing of what it was sent; from any thread."""
        since = self._writer.waiting_since if self._writer is not None else None
        return time.monotonic() - since if since is not None else 0.0

    @property
    def lost(self) -> bool:
        return self._lost

    def lose(self) -> None:
        """The terminal is gone, whoever noticed it first."""
        if not self._lost:
            self._lost = True
            self._loop.call_soon_threadsafe(self._host.terminal_lost)

    def write(self, data: str) -> None:
        if self._writer is not None:
            self._writer.write(data.encode("utf-8", "replace"))

    def title(self, text: str) -> None:
        """What the terminal's tab says; the user's own comes back in the end."""
        if text == self._title or os.environ.get("TERM", "dumb") in _UNTITLED:
            return
        keep = "" if self._title else _KEEP_TITLE
        self._title = text
        self.write(f"{keep}\x1b]2;{text}\x07")

    def start_application_mode(self) -> None:
        loop = asyncio.get_running_loop()
        self._tty.take_keys_raw()
        self._host.forget_screen()
        self._writer = TerminalWriter(self._tty, loop, self._host.terminal_has_room, self.lose)
        self._keys = KeyReader(self._tty, loop, self.process_message, self.lose)
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        self._tell_size()
        self.write(_ENTER + (_MOUSE_ON if self._mouse else "") + self._question())

    def _question(self) -> str:
        """Asked once: an answer that comes after the app has left would be typed into the shell."""
        question, self._to_ask = self._to_ask, ""
        return question

    def disable_input(self) -> None:
        if self._keys is not None:
            self._keys.close()
            self._keys = None
            self._loop.remove_signal_handler(signal.SIGWINCH)

    def stop_application_mode(self) -> None:
        self.disable_input()
        writer, self._writer = self._writer, None
        if writer is not None:
            self._tty.restore()
            title, self._title = _OLD_TITLE if self._title else "", ""
            writer.finish((title + (_MOUSE_OFF if self._mouse else "") + _LEAVE).encode())

    def process_message(self, message: Message) -> None:
        idle_move = isinstance(message, events.MouseMove) and not message.button and not self._down_buttons
        if not idle_move:  # some terminals report moves unasked; nothing here wants them
            super().process_message(message)

    def _resized(self) -> None:
        self._host.forget_screen()
        self._tell_size()

    def _tell_size(self) -> None:
        size = Size(*self._tty.size())
        self.send_message(events.Resize(size, size))
