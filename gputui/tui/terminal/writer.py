"""Bytes on their way to the terminal: never waited for, bounded, and each write goes out whole or not at all.

Knows the event loop and a `Tty`; knows nothing of what the bytes mean.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from .tty import Tty

__all__ = ["CROWDED", "FULL", "TerminalWriter"]

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
