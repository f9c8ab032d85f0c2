"""Waiting for conditions, never for time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds; far more than anything needs, since the machine may be busy with other things."""


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Returns when the condition holds; fails with `what` was waited for when it does not come to hold."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        time.sleep(0.005)
