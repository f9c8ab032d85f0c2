"""Where the panes are, for every size of terminal, and sizes kept for the next time."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

import msgspec

# ---- Where the panes are, for every size of terminal ----


BAND = 1
"""Rows that a pane's band takes."""
DIVIDER = 1
"""Columns between two panes side by side."""
SIDE_BY_SIDE = 140
"""Columns from which queue and log stand side by side: parameters and results need the width."""
LOW = 30
"""Below so many rows the log has few lines."""
LOW_LOG = 4
LEAST = 3
"""Rows besides the band below which a pane tells nothing."""
LEAST_FOR_TWO = 2 * BAND + LEAST + 1
"""Rows below which only the focused pane is there."""
LEAST_LOG, LEAST_QUEUE = 40, 60
"""Columns, side by side."""


class Pane(StrEnum):
    GPUS = "gpus"
    QUEUE = "queue"
    LOG = "log"


@dataclass(frozen=True)
class Dragged:
    """By how much the user made the queue larger than it would be."""

    rows: int = 0
    columns: int = 0


@dataclass(frozen=True)
class Arrangement:
    """0: not shown."""

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
    dragged: Dragged = Dragged(),
) -> Arrangement:
    """`height`: what is left for the panes; `gpu_rows`: lines the GPU pane would like; `queue_needs`: columns with
    which the queue shows all it has."""
    height = max(0, height)
    if gpus_only or zoomed is Pane.GPUS:
        return Arrangement(height, 0, 0, False)
    if zoomed is not None:
        return Arrangement(0, height * (zoomed is Pane.QUEUE), height * (zoomed is Pane.LOG), False)
    gpus = _gpu_height(height, gpu_rows, focus)
    remaining = height - gpus
    if width >= SIDE_BY_SIDE:
        return Arrangement(gpus, remaining, remaining, True, _queue_width(width, queue_needs + dragged.columns))
    if remaining < 2 * (LEAST + BAND):  # too low for both: the log gives way, unless it is looked at
        return Arrangement(gpus, 0, remaining, False) if focus is Pane.LOG else Arrangement(gpus, remaining, 0, False)
    log = LOW_LOG + BAND if height < LOW - 2 else remaining // 3
    log = max(LEAST + BAND, min(remaining - LEAST - BAND, log - dragged.rows))
    return Arrangement(gpus, remaining - log, log, False)


def _queue_width(width: int, wanted: int) -> int:
    """The log gets all that the queue does not need."""
    return max(min(LEAST_QUEUE, width // 2), min(wanted, width - DIVIDER - max(LEAST_LOG, width // 4)))


def _gpu_height(height: int, rows: int, focus: Pane) -> int:
    if rows <= 0 or (height < LEAST_FOR_TWO and focus is not Pane.GPUS):
        return 0
    if height < LEAST_FOR_TWO:
        return height
    most = height // 2 if focus is Pane.GPUS else height // 3 if height >= LOW - 2 else height // 4
    return min(rows, max(1, most - BAND)) + BAND


# ---- What the screen keeps from one time to the next ----


class ScreenHabits(msgspec.Struct, frozen=True):
    queue_rows: int = 0
    """By how much the queue was made larger than it would be, where the log lies below it …"""
    queue_columns: int = 0
    """… and where it stands beside it."""
    wrap: bool | None = None
    """Whether lines of the log wrap; None: when the last one does not fit."""


def habits_path() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "gputui", "screen.json")


def read_habits() -> ScreenHabits:
    try:
        with open(habits_path(), "rb") as file:
            return msgspec.json.decode(file.read(4096), type=ScreenHabits)
    except (OSError, ValueError, msgspec.MsgspecError):
        return ScreenHabits()


def write_habits(habits: ScreenHabits) -> None:
    """Whole or not at all: two screens may write at once."""
    path = habits_path()
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        own = f"{path}.{os.getpid()}"
        with open(own, "w") as file:
            json.dump(msgspec.to_builtins(habits), file)
        os.replace(own, path)
