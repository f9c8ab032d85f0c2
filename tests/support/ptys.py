"""A `gputui` at a terminal of its own: keys in, screen out, Ctrl-C as the kernel delivers it."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .waiting import until

CTRL_C = "\x03"


class Terminal:
    def __init__(self, words: Sequence[str], cwd: Path) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *words], stdin=slave, stdout=slave, stderr=slave, cwd=cwd, close_fds=True
        )
        os.close(slave)
        self._seen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while chunk := os.read(self._master, 1 << 16):
                self._seen += chunk

    @property
    def text(self) -> str:
        """Everything that was ever written to it."""
        return self._seen.decode("utf-8", "replace")

    def shows(self, wanted: str) -> None:
        until(lambda: wanted in self.text or self._ended(), f"the terminal shows {wanted!r}; it shows {self.text!r}")
        assert wanted in self.text, self.text

    def _ended(self) -> bool:
        if self.process.poll() is None:
            return False
        self._reader.join(5)
        return True

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def status(self) -> int:
        """How it ended, once it has."""
        status = self.process.wait(60)
        self._reader.join(5)
        return status

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def at_a_terminal(words: Sequence[str], cwd: Path) -> Iterator[Terminal]:
    terminal = Terminal(words, cwd)
    try:
        yield terminal
    finally:
        terminal.close()
