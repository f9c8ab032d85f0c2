"""The layout of the panes for each terminal size, and the saved pane sizes."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from gputui.process.directories import atomic_write

BAND = 1
"""Number of rows of a pane's band."""
DIVIDER = 1
"""Number of columns between two panes that are side by side."""
SIDE_BY_SIDE = 140
"""Minimum width in cells to place the queue and the log side by side. On a narrower screen, the queue needs the whole
width.
"""
LOW = 30
"""Number of rows below which the log has only a few lines."""
LOW_LOG = 4
LEAST = 3
"""Minimum useful height of a pane in rows, without its band."""
LEAST_FOR_TWO = 2 * BAND + LEAST + 1
"""Number of rows below which only the focused pane is shown."""
LEAST_LOG, LEAST_QUEUE = 40, 60
"""Minimum widths of the log and the queue in cells if they are side by side."""


class Pane(StrEnum):
    GPUS = "gpus"
    QUEUE = "queue"
    LOG = "log"


class ScreenHabits(msgspec.Struct, frozen=True):
    """The sizes and options of the screen, saved for the next start."""

    queue_rows: int = 0
    """Number of rows added to the queue if the log is below it."""
    queue_columns: int = 0
    """Number of columns added to the queue if the log is beside it."""
    wrap: bool | None = None
    """Whether to wrap long lines of the log, or None to wrap only if the last line does not fit."""


NO_HABITS = ScreenHabits()


@dataclass(frozen=True)
class Arrangement:
    """The arrangement of the panes. A height of 0 means that the pane is hidden."""

    gpus: int
    queue: int
    log: int
    side_by_side: bool
    queue_width: int = 0


def arrange(
    width: int,
    height: int,
    gpu_rows: int,
    focus: Pane,
    zoomed: Pane | None = None,
    *,
    gpus_only: bool = False,
    queue_needs: int = LEAST_QUEUE,
    habits: ScreenHabits = NO_HABITS,
) -> Arrangement:
    """Arrange the panes in the given size. `gpu_rows` and `queue_needs` are the wanted height and width."""
    height = max(0, height)
    if gpus_only or zoomed is Pane.GPUS:
        return Arrangement(height, 0, 0, False)
    if zoomed is not None:
        return Arrangement(0, height * (zoomed is Pane.QUEUE), height * (zoomed is Pane.LOG), False)
    gpus = _gpu_height(height, gpu_rows, focus)
    remaining = height - gpus
    if width >= SIDE_BY_SIDE:
        return Arrangement(gpus, remaining, remaining, True, _queue_width(width, queue_needs + habits.queue_columns))
    if remaining < 2 * (LEAST + BAND):  # too low for both
        return Arrangement(gpus, 0, remaining, False) if focus is Pane.LOG else Arrangement(gpus, remaining, 0, False)
    log = LOW_LOG + BAND if height < LOW - 2 else remaining // 3
    log = max(LEAST + BAND, min(remaining - LEAST - BAND, log - habits.queue_rows))
    return Arrangement(gpus, remaining - log, log, False)


def _queue_width(width: int, wanted: int) -> int:
    return max(min(LEAST_QUEUE, width // 2), min(wanted, width - DIVIDER - max(LEAST_LOG, width // 4)))


def _gpu_height(height: int, rows: int, focus: Pane) -> int:
    if rows <= 0 or (height < LEAST_FOR_TWO and focus is not Pane.GPUS):
        return 0
    if height < LEAST_FOR_TWO:
        return height
    most = height // 2 if focus is Pane.GPUS else height // 3 if height >= LOW - 2 else height // 4
    return min(rows, max(1, most - BAND)) + BAND


def habits_path() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "gputui", "screen.json")


def read_habits() -> ScreenHabits:
    try:
        with open(habits_path(), "rb") as file:
            return msgspec.json.decode(file.read(4096), type=ScreenHabits)
    except (OSError, ValueError, msgspec.MsgspecError):
        return NO_HABITS


def write_habits(habits: ScreenHabits) -> None:
    path = habits_path()
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        atomic_write(path, msgspec.json.encode(habits))
