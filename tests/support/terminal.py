"""A real terminal for a program under test: keys in, every byte counted, and the screen as a user would see it.

The terminal can stall (nobody reads), hang up, and change its size, as the far end of an SSH connection does.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .emulation import Emulator, Picture
from .waiting import until

__all__ = ["CTRL_C", "CTRL_L", "CTRL_Z", "RecordedTerminal", "recorded"]

CTRL_C, CTRL_L, CTRL_Z = "\x03", "\x0c", "\x1a"
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "PS1": "$ "}
UNWANTED = ("NO_COLOR", "COLUMNS", "LINES", "TERM_PROGRAM")

_BECOME_LEADER = 'trap "" $0; : <>"$tty_of_test"; exec "$@"'
_SYNC_QUERY, _SYNC_ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"

Redirect = int | Any | None


class RecordedTerminal:
    """The program is the leader of its own session, as after a login; `ignoring` names signals it starts ignoring."""

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        stdin: Redirect = None,
        stdout: Redirect = None,
        stderr: Redirect = None,
        ignoring: str = "",
    ) -> None:
        self._master, self.slave = pty.openpty()
        os.set_blocking(self._master, False)
        self.emulator = Emulator(*size)
        self._text: str | None = None
        """The screen's, until something changes it."""
        self.recorded = bytearray()
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._stalled = False
        self.resize(*size)
        self.modes_before = termios.tcgetattr(self.slave)
        name = os.ttyname(self.slave)
        self.process = subprocess.Popen(
            ["setsid", "sh", "-c", _BECOME_LEADER, ignoring or "URG", *map(str, words)],
            stdin=self.slave if stdin is None else stdin,
            stdout=self.slave if stdout is None else stdout,
            stderr=self.slave if stderr is None else stderr,
            env=environment(env or {}) | {"tty_of_test": name},
            cwd=cwd,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    # What the user does

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self._text = None
            self.emulator.resize(columns, rows)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def stall(self) -> None:
        """From now on nothing is taken off the terminal."""
        with self._lock:
            self._stalled = True

    def go_on(self) -> None:
        with self._lock:
            self._stalled = False

    def hang_up(self) -> None:
        """The connection is gone: the kernel hangs up on the program."""
        if not self._closed.is_set():
            self._closed.set()
            self._reader.join()
            os.close(self._master)

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    # What the user sees

    @property
    def text(self) -> str:
        with self._lock:
            if self._text is None:
                self._text = self.emulator.text
            return self._text

    @property
    def picture(self) -> Picture:
        """Every cell with its looks, for comparisons."""
        with self._lock:
            return self.emulator.picture

    @property
    def count(self) -> int:
        """Bytes that the program has written so far, as far as they were read."""
        with self._lock:
            return len(self.recorded)

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    def since(self, count: int) -> bytes:
        with self._lock:
            return bytes(self.recorded[count:])

    def shows(self, wanted: str) -> None:
        with suppress(AssertionError):  # the screen itself tells more
            until(lambda: wanted in self.text or self._ended(), f"the screen shows {wanted!r}")
        assert wanted in self.text, f"wanted {wanted!r}, but the screen shows:\n{self.text}"

    def settles(self, quiet: float = 0.15) -> int:
        """Waits until the program has slept and written nothing for a while; returns the bytes up to here."""
        seen, since = self.count, time.monotonic()

        def calm() -> bool:
            nonlocal seen, since
            if self.count != seen or self._works():
                seen, since = self.count, time.monotonic()
            return time.monotonic() - since > quiet

        until(calm, "the program writes nothing any more")
        return seen

    def status(self, seconds: float = 60.0) -> int:
        """How it ended, once it has."""
        status = self.process.wait(seconds)
        if not self._closed.is_set():
            self.settles(0.05)
        return status

    def end(self) -> None:
        """Also of whatever else runs in the session of this terminal."""
        for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
            with suppress(ProcessLookupError):
                if os.getsid(pid) == self.process.pid:
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.hang_up()
        os.close(self.slave)

    def _works(self) -> bool:
        """Whether it would go on if the machine let it, or has written what nobody has read yet."""
        with suppress(OSError):
            state = Path(f"/proc/{self.process.pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
            return state == b"R" or (not self._stalled and bool(select.select([self._master], [], [], 0)[0]))
        return False

    def _ended(self) -> bool:
        if self.process.poll() is None:
            return False
        self.settles(0.05)
        return True

    def _read(self) -> None:
        while not self._closed.is_set():
            if self._stalled:
                time.sleep(0.01)
            elif select.select([self._master], [], [], 0.05)[0]:
                self._take()

    def _take(self) -> None:
        with self._lock, suppress(OSError):
            if self._stalled:
                return
            chunk = os.read(self._master, 1 << 16)
            asked_before = bytes(self.recorded[-len(_SYNC_QUERY) :]) + chunk
            self.recorded += chunk
            self._text = None
            self.emulator.feed(chunk)
            if _SYNC_QUERY in asked_before[1:]:
                os.write(self._master, _SYNC_ANSWER)


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """This process's, as on an ordinary terminal; a change to None takes a name away."""
    merged = {**os.environ, **dict.fromkeys(UNWANTED), **ENVIRONMENT, **changes}
    return {name: value for name, value in merged.items() if value is not None}


@contextmanager
def recorded(words: Sequence[str | Path], **settings: Any) -> Iterator[RecordedTerminal]:
    terminal = RecordedTerminal(words, **settings)
    try:
        yield terminal
    finally:
        terminal.end()
