"""Tracebacks as users want them: of their own code, without the way that led there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OURS = os.path.dirname(os.path.abspath(__file__))


def text(error: BaseException) -> str:
    from traceback import format_exception

    step = error.__traceback__
    while step is not None and _is_ours(step.tb_frame.f_code.co_filename):
        step = step.tb_next
    return "".join(format_exception(type(error), error, step or error.__traceback__))


def _is_ours(file: str) -> bool:
    return file.startswith(OURS) or "importlib" in file


@contextmanager
def told() -> Iterator[None]:
    """An exception is printed and goes no further; leaving and being interrupted are left to Python."""
    try:
        yield
    except Exception as error:
        sys.stdout.flush()
        print(text(error), end="", file=sys.stderr, flush=True)
