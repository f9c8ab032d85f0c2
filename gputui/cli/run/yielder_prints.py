"""What a yielder prints, copied as it comes: its log belongs to the session, and whoever runs it wants to see it."""

from __future__ import annotations

import os
from collections.abc import Callable

from gputui.logs.plain import plain

MOST = 1 << 20
"""Bytes at once."""


class Prints:
    """Tells, line by line, what is appended to a log from now on."""

    def __init__(self, log: str, tell: Callable[[str], None]) -> None:
        self._log = log
        self._tell = tell
        self._position = os.path.getsize(log) if os.path.exists(log) else 0
        self._rest = b""

    def copy(self) -> None:
        try:
            with open(self._log, "rb") as file:
                file.seek(self._position)
                data = file.read(MOST)
        except FileNotFoundError:
            return
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._tell(plain(line.decode("utf-8", "replace")))
