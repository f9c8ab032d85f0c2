"""Threads on a machine that may have none left: whoever wants one is told, and can do without."""

from __future__ import annotations

import threading
from collections.abc import Callable


class NoThread(Exception):
    """The message is the sentence the user reads."""


def begin(work: Callable[[], None], name: str) -> threading.Thread:
    """A thread that works already, and that no process waits for at its end. Raises NoThread."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise NoThread(
            "this machine gives gputui no further thread: too many processes (ulimit -u, a container's pids.max) or "
            "too little memory (ulimit -v); end some and try again"
        ) from error
    return thread
