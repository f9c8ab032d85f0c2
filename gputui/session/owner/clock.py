"""What time it is, and whether somebody set the clock since it was last looked at."""

from __future__ import annotations

import time

from gputui.core.events import ClockStepped
from gputui.core.scheduler import Scheduler

STEP = 1.0
"""Seconds; less is no matter."""
_APART = 0.1


def time_and_step(scheduler: Scheduler) -> tuple[float, ClockStepped | None]:
    """What time it is, and how far the clock was moved, if it was; the first look only remembers how it stands."""
    now, lead = _read_together()
    if scheduler.clock is None:
        scheduler.clock = lead
    by = lead - scheduler.clock
    return now, ClockStepped(by) if abs(by) > STEP else None


def _read_together() -> tuple[float, float]:
    """The wall clock, and its lead over the one that nobody can set and that goes on while the machine sleeps."""
    while True:
        unset = time.clock_gettime(time.CLOCK_BOOTTIME)
        now = time.time()
        # Whoever stood still between two looks would see a step where there is none.
        if time.clock_gettime(time.CLOCK_BOOTTIME) - unset < _APART:
            return now, now - unset
