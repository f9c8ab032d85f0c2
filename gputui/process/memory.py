"""How Python's memory is kept by programs that hold a whole queue."""

from __future__ import annotations

import gc

THRESHOLD = 100_000


def collect_rarely() -> None:
    """A long queue is many objects and no cycles: looking for some took a third of the time of opening it."""
    gc.set_threshold(THRESHOLD)
