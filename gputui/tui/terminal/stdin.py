"""Jobs that come through a pipe: the pipe is set aside, and standard input becomes the keyboard.

To be called before Textual is imported, so that nothing of it can hold on to the pipe.
"""

from __future__ import annotations

import io
import os
import sys
from typing import BinaryIO

__all__ = ["set_piped_stdin_aside"]


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
