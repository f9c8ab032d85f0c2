"""A question at the terminal that one key answers, without Enter; Ctrl-C is a key here and not a signal."""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

TERMINAL = "/dev/tty"
LOOK_EVERY = 0.1


def answer(ask: Callable[[], None], overtaken: Callable[[], bool] = lambda: False) -> str | None:
    """The key; nothing where the terminal is gone or somebody ends us; None: the question is out of date by now.

    The question comes when the keyboard is ready, so that no answer is too early.
    """
    try:
        with _keyboard() as keyboard:
            ask()
            while not select.select([keyboard], [], [], LOOK_EVERY)[0]:
                if overtaken():
                    return None
            return os.read(keyboard, 1).decode("latin-1").lower()
    except (KeyboardInterrupt, OSError, termios.error):
        return ""


@contextmanager
def _keyboard() -> Iterator[int]:
    keyboard = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        before = termios.tcgetattr(keyboard)
        raw = termios.tcgetattr(keyboard)
        raw[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, raw)
        try:
            yield keyboard
        finally:
            with suppress(termios.error):
                termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
    finally:
        os.close(keyboard)
