"""The controlling terminal: size, modes, checks, and jobs on standard input. This module does not import Textual."""

from __future__ import annotations

import io
import os
import select
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from typing import BinaryIO

DEFAULT_SIZE = (80, 24)

_LOCAL_FLAGS = termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG
_INPUT_FLAGS = termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR
_IFLAG, _LFLAG, _CC = 0, 3, 6


class NoTerminal(OSError):
    """The error raised if the process has no controlling terminal."""


class Tty:
    """The controlling terminal. It is opened again so that non-blocking mode does not affect other programs."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._modes_before: list[object] | None = None

    @classmethod
    def open(cls) -> Tty:
        try:
            return cls(os.open("/dev/tty", os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError as error:
            raise NoTerminal(error.errno, "no terminal") from error

    def close(self) -> None:
        os.close(self.descriptor)

    def size(self) -> tuple[int, int]:
        """Return the number of columns and rows, even if standard output is redirected."""
        try:
            columns, rows = os.get_terminal_size(self.descriptor)
        except OSError:
            return DEFAULT_SIZE
        return columns or DEFAULT_SIZE[0], rows or DEFAULT_SIZE[1]

    def take_keys_raw(self) -> None:
        """Receive every key as it is typed, including Ctrl-C, Ctrl-Z and Ctrl-S.

        If the process is in the background, the kernel stops it here until it is brought to the foreground.
        """
        with suppress(termios.error):
            modes = termios.tcgetattr(self.descriptor)
            if self._modes_before is None:
                self._modes_before = termios.tcgetattr(self.descriptor)
            modes[_LFLAG] &= ~_LOCAL_FLAGS
            modes[_IFLAG] &= ~_INPUT_FLAGS
            modes[_CC][termios.VMIN] = 1
            termios.tcsetattr(self.descriptor, termios.TCSANOW, modes)

    def restore(self) -> None:
        """Restore the modes and discard unread keys, because the shell would receive them."""
        before, self._modes_before = self._modes_before, None
        if before is not None:
            with suppress(termios.error):
                termios.tcflush(self.descriptor, termios.TCIFLUSH)
                termios.tcsetattr(self.descriptor, termios.TCSANOW, before)  # type: ignore[arg-type]

    def discard_unread_output(self) -> None:
        """Discard output that the terminal has not accepted yet to make room."""
        with suppress(termios.error):
            termios.tcflush(self.descriptor, termios.TCOFLUSH)

    def write_within(self, data: bytes, seconds: float) -> bytes:
        """Write what the terminal accepts within the time and return the rest. Raise OSError if it is gone."""
        deadline = time.monotonic() + seconds
        ready = select.poll()
        ready.register(self.descriptor, select.POLLOUT)
        while data:
            try:
                data = data[os.write(self.descriptor, data) :]
            except BlockingIOError:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return data
                ready.poll(remaining * 1000)
        return data


def say(text: str, seconds: float = 0.3) -> bool:
    """Write a line to the terminal after the app has exited. Return whether it was written."""
    return write_now(f"{text}\r\n", seconds)


def write_now(text: str, seconds: float = 0.3) -> bool:
    """Write to the controlling terminal. Return whether the whole text was written."""
    try:
        tty = Tty.open()
    except NoTerminal:
        return False
    try:
        return not tty.write_within(text.encode("utf-8", "replace"), seconds)
    except OSError:
        return False
    finally:
        tty.close()


def terminal_name() -> str | None:
    """Return the name of the terminal, such as `pts/3`, or None if it is unknown."""
    for descriptor in (0, 1, 2):
        with suppress(OSError):
            return os.ttyname(descriptor).removeprefix("/dev/")
    return None


# Checks

_WAY_OUT = "use `gputui run` to run jobs without the TUI, `gputui ls` to list them"


class Colours(Enum):
    RGB = "rgb"
    """All 16 million colours."""
    INDEXED = "indexed"
    """The 256 colours that most terminals have over ssh and in tmux."""
    SIXTEEN = "sixteen"
    """The 16 colours of the terminal's palette. Only a theme made of these colours looks right."""
    NONE = "none"
    """No colours, because the user has set NO_COLOR."""


def refusal(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return why the app cannot be shown here and what to do instead, or None if it can be shown."""
    if environ.get("TERM") == "dumb":
        return f"this terminal cannot show the TUI (TERM=dumb); {_WAY_OUT}"
    if sys.__stdin__ is None:
        return f"standard input is closed; {_WAY_OUT}"
    try:
        Tty.open().close()
    except NoTerminal:
        return f"no terminal; {_WAY_OUT}"
    return None


def colours(environ: Mapping[str, str] = os.environ) -> Colours:
    """Return the colours that Textual and Rich will use. NO_COLOR counts even if it is empty."""
    if "NO_COLOR" in environ:
        return Colours.NONE
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return Colours.RGB
    return Colours.INDEXED if environ.get("TERM", "").endswith(("256color", "kitty")) else Colours.SIXTEEN


def locale_is_utf8(environ: Mapping[str, str] = os.environ) -> bool:
    """Return False only if the locale names another character set. Over SSH the locale is often unset."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if not locale:
        return True
    return "utf-8" in locale.lower() or "utf8" in locale.lower()


# Jobs on standard input


def set_piped_stdin_aside() -> BinaryIO | None:
    """Return the original standard input and connect standard input to the terminal. Return None if it is a terminal or
    closed.

    The caller must have used `refusal` to check that there is a terminal.
    """
    if sys.__stdin__ is None or os.isatty(0):
        return None
    pipe = os.fdopen(os.dup(0), "rb")
    keyboard = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    os.dup2(keyboard, 0)
    os.close(keyboard)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8", errors="replace")  # type: ignore[misc]
    return pipe
