"""Textual's driver for a terminal that may stall or vanish: bytes in as keys, bytes out without waiting."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from textual import constants, events
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver
from textual.events import Key, Paste
from textual.geometry import Size
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen

from .tty import Tty

# ---- Bytes on their way to the terminal ----


CROWDED = 16 * 1024
"""With more than this unsent no further frame is worth drawing: it would be old when it is seen."""
FULL = 256 * 1024
"""With more than this unsent nothing at all is accepted."""

_PATIENCE_AT_THE_END = 0.1
_ABANDON_SEQUENCE = b"\x18\x1b[?2026l"  # CAN ends a sequence that was cut; then the end of a synchronised update


class TerminalWriter:
    def __init__(
        self, tty: Tty, loop: asyncio.AbstractEventLoop, on_room: Callable[[], None], on_loss: Callable[[], None]
    ) -> None:
        self._tty, self._loop = tty, loop
        self._on_room, self._on_loss = on_room, on_loss
        self._unsent = bytearray()
        self._waiting = False
        self.waiting_since: float | None = None
        """The monotonic time since when the terminal has taken nothing, while it owes us to."""
        self._gone = False

    @property
    def crowded(self) -> bool:
        return len(self._unsent) > CROWDED

    def write(self, data: bytes) -> bool:
        """Whether the data was accepted; false while the terminal has not taken what came before."""
        if self._gone or len(self._unsent) > FULL:
            return False
        self._unsent += data
        if not self._waiting:
            self._send()
        return True

    def finish(self, last: bytes) -> None:
        """Sends the last words and forgets the loop. On a stalled terminal they replace all that it never took."""
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


# ---- Bytes from the keyboard, turned into Textual's messages ----


_AFTER_ESCAPE = constants.ESCAPE_DELAY + 0.01


class KeyReader:
    """Reads when the loop says that there is something; an end of file or an error is the terminal's end."""

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
            return  # half a character; and to the parser an empty text is the end
        for message in self._parser.feed(text):
            self._on_message(message)
        if self._lone_escape is not None:
            self._lone_escape.cancel()
        self._lone_escape = self._loop.call_later(_AFTER_ESCAPE, self._tick)

    def _tick(self) -> None:
        for message in self._parser.tick():
            self._on_message(message)


# ---- Textual's driver for a terminal that may stall or vanish ----


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


# ---- One key after the other ----


PATIENCE = 0.25
"""Seconds after which a key that was not seen to be done holds up the others no longer."""


class Turns:
    """`deliver` hands a key or a paste to whoever has the focus now."""

    def __init__(self, app: App[Any], deliver: Callable[[Key | Paste], Awaitable[None]]) -> None:
        self._app = app
        self._deliver = deliver
        self._waiting: deque[Key | Paste] = deque()
        self._turn = 0
        self._patience: asyncio.TimerHandle | None = None
        """Runs out while a key is under way; None: the next one may go."""

    async def take(self, event: Key | Paste) -> None:
        self._waiting.append(event)
        await self._next()

    async def _next(self) -> None:
        if self._patience is not None or not self._waiting:
            return
        self._turn += 1
        self._patience = asyncio.get_running_loop().call_later(PATIENCE, self._done, self._turn)
        screen, target = self._app.screen, self._app.focused or self._app.screen
        await self._deliver(self._waiting.popleft())
        self._follow(self._turn, screen, [*target.ancestors_with_self])

    def _follow(self, turn: int, screen: Screen[Any], way: list[MessagePump]) -> None:
        """A key goes up from the focus to the app; whatever is sent after it arrives after it."""
        while way:
            if way.pop(0).call_later(self._follow, turn, screen, way):
                return
        if self._app.screen is screen:
            self._app.call_later(self._done, turn)  # behind a change of focus, which is sent this way too
        else:
            self._app.screen.call_after_refresh(self._app.call_later, self._done, turn)

    def _done(self, turn: int) -> None:
        if turn == self._turn and self._patience is not None:
            self._patience.cancel()
            self._patience = None
            if self._waiting:
                self._app.call_later(self._next)
