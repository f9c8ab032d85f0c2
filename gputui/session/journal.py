"""scheduler.log: what the owner did and what went wrong, one line each, bounded in size."""

from __future__ import annotations

import os
import time
from contextlib import suppress

LARGEST = 4_000_000


class Journal:
    """Never raises: a log that cannot be written must not stop what it tells about."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, text: str) -> None:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] {text}\n"
        with suppress(OSError):
            self._rotate()
            with open(self._path, "a", encoding="utf-8", errors="replace") as file:
                file.write(line)

    def _rotate(self) -> None:
        with suppress(FileNotFoundError):
            if os.stat(self._path).st_size > LARGEST:
                os.replace(self._path, self._path + ".1")
