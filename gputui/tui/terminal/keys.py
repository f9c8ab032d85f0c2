"""Bytes from the keyboard, turned into Textual's messages.

The seam with Textual: `textual._xterm_parser.XTermParser` (`feed`, `tick`), private there; only this module uses it.
"""

from __future__ import annotations

import asyncio
import os
from codecs import getincrementaldecoder
from collections.abc import Callable

from textual import constants
from textual._xterm_parser import XTermParser
from textual.message import Message

from .tty import Tty

__all__ = ["KeyReader"]

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
