"""The controlling terminal: checks, size, modes, and jobs on standard input. No Textual."""

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

# ---- The controlling terminal, /dev/tty ----


DEFAULT_SIZE = (80, 24)

_LOCAL_FLAGS = termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG
_INPUT_FLAGS = termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR
_IFLAG, _LFLAG, _CC = 0, 3, 6


class NoTerminal(OSError):
    """This process has no terminal of its own."""


class Tty:
    """One open description of the terminal that is ours alone, so that making it non-blocking disturbs nobody."""

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
        """Columns and rows; what standard output is connected to plays no part."""
        try:
            columns, rows = os.get_terminal_size(self.descriptor)
        except OSError:
            return DEFAULT_SIZE
        return columns or DEFAULT_SIZE[0], rows or DEFAULT_SIZE[1]

    def take_keys_raw(self) -> None:
        """Every key arrives as it is typed, Ctrl-C, Ctrl-Z and Ctrl-S too.

        In the background this is where the kernel stops us until we are brought to the foreground.
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
        """The modes as they were; keys typed at the app are not left for the shell."""
        before, self._modes_before = self._modes_before, None
        if before is not None:
            with suppress(termios.error):
                termios.tcflush(self.descriptor, termios.TCIFLUSH)
                termios.tcsetattr(self.descriptor, termios.TCSANOW, before)  # type: ignore[arg-type]

    def discard_unread_output(self) -> None:
        """What the terminal has not taken yet is forgotten, so that there is room again."""
        with suppress(termios.error):
            termios.tcflush(self.descriptor, termios.TCOFLUSH)

    def write_within(self, data: bytes, seconds: float) -> bytes:
        """Writes what the terminal takes in this time; returns the rest. Raises OSError when the terminal is gone."""
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
    """A last line to the user after the app has left; given up when the terminal is gone or takes nothing."""
    return write_now(f"{text}\r\n", seconds)


def write_now(text: str, seconds: float = 0.3) -> bool:
    """To the terminal of whoever called this program, for one that has no screen; False: there is none."""
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
    """`pts/3`; None where nobody knows."""
    for descriptor in (0, 1, 2):
        with suppress(OSError):
            return os.ttyname(descriptor).removeprefix("/dev/")
    return None


# ---- Whether there is a terminal to draw on, and what it can show ----


_WAY_OUT = "run jobs without a screen with `gputui run`, look at them with `gputui ls`"


class Colours(Enum):
    MANY = "many"
    """256 or more."""
    SIXTEEN = "sixteen"
    """The terminal's own palette: only a theme made of it looks right."""
    NONE = "none"
    """The user said NO_COLOR."""


def refusal(environ: Mapping[str, str] = os.environ) -> str | None:
    """Why the app cannot be shown here, in a sentence with the way to go; None when it can."""
    if environ.get("TERM") == "dumb":
        return f"this terminal cannot show a screen (TERM=dumb); {_WAY_OUT}"
    if sys.__stdin__ is None:
        return f"standard input is closed; {_WAY_OUT}"
    try:
        Tty.open().close()
    except NoTerminal:
        return f"there is no terminal here; {_WAY_OUT}"
    return None


def colours(environ: Mapping[str, str] = os.environ) -> Colours:
    """What Textual and Rich will send, by their own rules: NO_COLOR counts even when it is empty."""
    if "NO_COLOR" in environ:
        return Colours.NONE
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return Colours.MANY
    return Colours.MANY if environ.get("TERM", "").endswith(("256color", "kitty")) else Colours.SIXTEEN


def locale_is_utf8(environ: Mapping[str, str] = os.environ) -> bool:
    """False only where the locale names another character set; unset it says nothing, as over SSH mostly."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if not locale:
        return True
    return "utf-8" in locale.lower() or "utf8" in locale.lower()


# ---- Jobs that come through a pipe ----


def set_piped_stdin_aside() -> BinaryIO | None:
    """What standard input was, to be read at leisure; None when it is a terminal or closed.

    The caller has made sure that there is a terminal (`checks.refusal`).
    """
    if sys.__stdin__ is None or os.isatty(0):
        return None
    pipe = os.fdopen(os.dup(0), "rb")
    keyboard = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    os.dup2(keyboard, 0)
    os.close(keyboard)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8", errors="replace")  # type: ignore[misc]
    return pipe
