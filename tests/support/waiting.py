"""Waiting for conditions, never for time to pass."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 120.0
"""Seconds; far more than anything needs, since the machine may be busy with other things."""


SHORTEST, LONGEST = 0.002, 0.05
"""Seconds between two looks: more as the waiting lasts, since looking takes from what is waited for."""


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Returns when the condition holds; fails with `what` was waited for when it does not come to hold."""
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        time.sleep(min(max(waited / 10, SHORTEST), LONGEST))


async def until_then(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """The same in an app's own loop, which goes on meanwhile."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        await asyncio.sleep(0.01)


def remove_under_its_owner(folder: Path) -> None:
    """Who owns the session in it may write there meanwhile; as with `rm -r`, one does it again then."""

    def is_removed() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    until(is_removed, f"{folder} is removed")
