"""What went wrong in a user's Python, in one sentence."""

from __future__ import annotations

import os

LONGEST = 500


def sentence(error: BaseException, path: str) -> str:
    """Where in this file it happened, and what."""
    line = _line(error, os.path.abspath(path))
    where = os.path.basename(path) + (f", line {line}" if line else "")
    return f"{where}: {words(error)}"


def words(error: BaseException) -> str:
    """As Python's last line of a traceback."""
    if isinstance(error, SystemExit):
        return f"it left with sys.exit({error.code!r}) instead of defining something"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    try:
        text = str(error).partition("\n")[0]
    except Exception:  # a user's exception may fail even at this
        text = ""
    name = type(error).__name__
    return f"{name}: {text[:LONGEST]}" if text else name


def _line(error: BaseException, path: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename is not None and os.path.abspath(error.filename) == path:
        return error.lineno
    line, step = None, error.__traceback__
    while step is not None:
        if os.path.abspath(step.tb_frame.f_code.co_filename) == path:
            line = step.tb_lineno
        step = step.tb_next
    return line
