"""A Textual driver for a terminal that may stall or vanish. It reads keys and writes output without waiting."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from textual import constants, events
from textual.app import App
from textual.driver import Driver
from textual.events import Key, Paste
from textual.geometry import Size
from textual.message import Message
from textual.message_pump import MessagePump
from textual.messages import TerminalSupportsSynchronizedOutput
from textual.screen import Screen

from .textual_private import XTermParser
from .tty import Tty

if TYPE_CHECKING:
    from .app import TerminalApp

# Output

SKIP_FRAMES_ABOVE = 16 * 1024
"""Number of unsent bytes above which frames are skipped, because they would be outdated when they arrive."""
QUEUE_LIMIT = 256 * 1024
"""Number of unsent bytes above which no more data is accepted."""

_PATIENCE_AT_THE_END = 0.1
_ABANDON_SEQUENCE = b"\x18\x1b[?2026l"  # CAN ends a truncated sequence; the rest ends a synchronised update


class TerminalWriter:
    """A writer that sends what the terminal accepts and queues the rest."""

    def __init__(
        self, tty: Tty, loop: asyncio.AbstractEventLoop, on_room: Callable[[], None], on_loss: Callable[[], None]
    ) -> None:
        self._tty, self._loop = tty, loop
        self._on_room, self._on_loss = on_room, on_loss
        self._unsent = bytearray()
        self._waiting = False
        self.waiting_since: float | None = None
        """Monotonic time since which the terminal has accepted nothing, or None if no bytes are unsent."""
        self._gone = False

    @property
    def crowded(self) -> bool:
        return len(self._unsent) > SKIP_FRAMES_ABOVE

    def write(self, data: bytes) -> bool:
        """Write or queue the data. Return False if too much is already queued."""
        if self._gone or len(self._unsent) > QUEUE_LIMIT:
            return False
        self._unsent += data
        if not self._waiting:
            self._send()
        return True

    def finish(self, last: bytes) -> None:
        """Write the last data without the event loop. On a stalled terminal, this data replaces everything unsent."""
        self._stop_waiting()
        data, self._unsent = bytes(self._unsent) + last, bytearray()
        if self._gone:
            return
        try:
            if self._tty.write_within(data, _PATIENCE_AT_THE_END):
                self._tty.discard_unread_output()
                self._tty.write_within(_ABANDON_SEQUENCE + last, 0.0)
        except OSError:
            self._gone = True

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._tty.descriptor, self._unsent)]
                self.waiting_since = time.monotonic() if self._waiting else None
        except BlockingIOError:
            self._wait()
        except OSError:
            self._lose()
        else:
            self._stop_waiting()

    def _send_rest(self) -> None:
        self._send()
        if not self._unsent and not self._gone:
            self._on_room()

    def _wait(self) -> None:
        if not self._waiting:
            self._waiting, self.waiting_since = True, time.monotonic()
            self._loop.add_writer(self._tty.descriptor, self._send_rest)

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting, self.waiting_since = False, None
            self._loop.remove_writer(self._tty.descriptor)

    def _lose(self) -> None:
        self._gone = True
        self._unsent.clear()
        self._stop_waiting()
        self._on_loss()


# Input

_AFTER_ESCAPE = constants.ESCAPE_DELAY + 0.01


class KeyReader:
    """A reader that turns bytes from the terminal into Textual messages and reports when the terminal is lost."""

    def __init__(
        self,
        tty: Tty,
        loop: asyncio.AbstractEventLoop,
        on_message: Callable[[Message], None],
        on_loss: Callable[[], None],
    ) -> None:
        self._tty, self._loop = tty, loop
        self._on_message, self._on_loss = on_message, on_loss
        self._parser = XTermParser()
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._lone_escape: asyncio.TimerHandle | None = None
        loop.add_reader(tty.descriptor, self._read)

    def close(self) -> None:
        self._loop.remove_reader(self._tty.descriptor)
        if self._lone_escape is not None:
            self._lone_escape.cancel()

    def _read(self) -> None:
        try:
            data = os.read(self._tty.descriptor, 4096)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._feed(self._decode(data))
        else:
            self.close()
            self._on_loss()

    def _feed(self, text: str) -> None:
        if not text:
            return  # half a character; an empty text would mean end of file to the parser
        for message in self._parser.feed(text):
            self._on_message(message)
        if self._lone_escape is not None:
            self._lone_escape.cancel()
        self._lone_escape = self._loop.call_later(_AFTER_ESCAPE, self._tick)

    def _tick(self) -> None:
        for message in self._parser.tick():
            self._on_message(message)


# The driver

_KEYBOARD_PROTOCOL = "" if getattr(constants, "DISABLE_KITTY_KEY", False) else "\x1b[>25u"  # since Textual 8.2.7
_ASK_FOR_SYNC = "" if os.environ.get("TERM_PROGRAM") == "Apple_Terminal" else "\x1b[?2026$p"
_MOUSE_ON = "\x1b[?1000h\x1b[?1002h\x1b[?1006h"  # clicks, drags and the wheel: no report for a mere move
_MOUSE_OFF = "\x1b[?1006l\x1b[?1002l\x1b[?1000l"
_ENTER = "\x1b[?1049h\x1b[?25l" + _KEYBOARD_PROTOCOL + "\x1b[?2004h\x1b[?7l"
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?2004l\x1b[<u\x1b[?1049l\x1b[?25h"


_SYNC_START, _SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
_WORTH_SYNC = 512
"""Minimum size in bytes of a frame sent as a synchronized update. A smaller frame arrives in one piece anyway."""
_KEEP_TITLE, _OLD_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_UNTITLED = ("", "dumb", "linux")
"""Values of TERM for terminals without a title. The Linux console would print the title as text."""


class SafeDriver(Driver):
    """A driver that never blocks when reading or writing. Its app must be a `TerminalApp`."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        self._tty = Tty.open()
        super().__init__(app, debug=debug, mouse=mouse, size=size or self._tty.size())
        self._host = cast("TerminalApp[Any]", app)
        self._host.terminal = self
        self._event_loop = asyncio.get_running_loop()
        self._wants_mouse = mouse
        self._dragging = False
        self._writer: TerminalWriter | None = None
        self._keys: KeyReader | None = None
        self._sync_query = _ASK_FOR_SYNC
        self._synchronizes = False
        self._title = ""
        self.lost = False

    @property
    def can_suspend(self) -> bool:
        return True

    @property
    def crowded(self) -> bool:
        """Whether the terminal lags so much that a frame should be skipped."""
        return self._writer is not None and self._writer.crowded

    @property
    def silent_for(self) -> float:
        """Seconds for which the terminal has accepted nothing. This may be read from any thread."""
        since = self._writer.waiting_since if self._writer is not None else None
        return time.monotonic() - since if since is not None else 0.0

    def report_loss(self) -> None:
        """Notify the app, only once, that the terminal is gone."""
        if not self.lost:
            self.lost = True
            self._event_loop.call_soon_threadsafe(self._host.terminal_lost)

    def write(self, data: str) -> None:
        if self._writer is not None:
            self._writer.write(data.encode("utf-8", "replace"))

    def write_frame(self, frame: str) -> None:
        """Write a frame. A large frame is sent as one synchronized update."""
        if self._synchronizes and len(frame) >= _WORTH_SYNC:
            frame = f"{_SYNC_START}{frame}{_SYNC_END}"
        if frame:
            self.write(frame)

    def title(self, text: str) -> None:
        """Set the title of the terminal. The previous title is restored at the end."""
        if text == self._title or os.environ.get("TERM", "dumb") in _UNTITLED:
            return
        keep = "" if self._title else _KEEP_TITLE
        self._title = text
        self.write(f"{keep}\x1b]2;{text}\x07")

    def start_application_mode(self) -> None:
        loop = self._event_loop
        self._tty.take_keys_raw()
        self._host.forget_screen()
        self._writer = TerminalWriter(self._tty, loop, self._host.terminal_has_room, self.report_loss)
        self._keys = KeyReader(self._tty, loop, self.process_message, self.report_loss)
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        self._send_size()
        # Ask once: an answer that arrives after the app has left would be typed into the shell.
        query, self._sync_query = self._sync_query, ""
        self.write(_ENTER + (_MOUSE_ON if self._wants_mouse else "") + query)

    def disable_input(self) -> None:
        if self._keys is not None:
            self._keys.close()
            self._keys = None
            self._event_loop.remove_signal_handler(signal.SIGWINCH)

    def stop_application_mode(self) -> None:
        self.disable_input()
        writer, self._writer = self._writer, None
        if writer is not None:
            self._tty.restore()
            title, self._title = _OLD_TITLE if self._title else "", ""
            writer.finish((title + (_MOUSE_OFF if self._wants_mouse else "") + _LEAVE).encode())

    def process_message(self, message: Message) -> None:
        if isinstance(message, TerminalSupportsSynchronizedOutput):
            self._synchronizes = True
        if isinstance(message, events.MouseDown | events.MouseUp | events.MouseMove):
            if isinstance(message, events.MouseMove) and not message.button and not self._dragging:
                return  # some terminals report moves unasked
            self._dragging = message.button > 0 and not isinstance(message, events.MouseUp)
        super().process_message(message)

    def _resized(self) -> None:
        self._host.forget_screen()
        self._send_size()

    def _send_size(self) -> None:
        size = Size(*self._tty.size())
        self.send_message(events.Resize(size, size))


# Key queue

KEY_TIMEOUT = 0.25
"""Seconds after which a key that is still being handled no longer delays the next one."""


class KeyQueue:
    """A queue that delivers one key or paste at a time, each to the widget focused after the previous one."""

    def __init__(self, app: App[Any], deliver: Callable[[Key | Paste], Awaitable[None]]) -> None:
        self._app = app
        self._deliver = deliver
        self._waiting: deque[Key | Paste] = deque()
        self._number = 0
        self._patience: asyncio.TimerHandle | None = None
        """A timer that runs while a key is handled, or None if the next key can be delivered."""

    async def put(self, event: Key | Paste) -> None:
        self._waiting.append(event)
        await self._next()

    async def _next(self) -> None:
        if self._patience is not None or not self._waiting:
            return
        self._number += 1
        self._patience = asyncio.get_running_loop().call_later(KEY_TIMEOUT, self._done, self._number)
        screen, target = self._app.screen, self._app.focused or self._app.screen
        await self._deliver(self._waiting.popleft())
        self._follow(self._number, screen, [*target.ancestors_with_self])

    def _follow(self, number: int, screen: Screen[Any], path: list[MessagePump]) -> None:
        """Follow a key from the focused widget up to the app to learn when it has been handled. At each widget, a
        message sent after the key also arrives after it.
        """
        while path:
            if path.pop(0).call_later(self._follow, number, screen, path):
                return
        if self._app.screen is screen:
            self._app.call_later(self._done, number)  # after a change of focus, which is sent the same way
        else:
            self._app.screen.call_after_refresh(self._app.call_later, self._done, number)

    def _done(self, number: int) -> None:
        if number == self._number and self._patience is not None:
            self._patience.cancel()
            self._patience = None
            if self._waiting:
                self._app.call_later(self._next)
