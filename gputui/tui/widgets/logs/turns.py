"""Long work in short turns, so that keys and painting come in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

__all__ = ["TURN", "in_turns"]

TURN = 0.015
"""Seconds of work after which others get their turn."""

Result = TypeVar("Result")


async def in_turns(work: Generator[None, None, Result]) -> Result:
    """Runs the work to its end."""
    deadline = time.monotonic() + TURN
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Result = done.value
            return result
        if time.monotonic() > deadline:
            await asyncio.sleep(0)
            deadline = time.monotonic() + TURN
