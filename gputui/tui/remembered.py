"""What the screen keeps from one time to the next: how the panes were resized, and whether lines wrap.

One small file of this user's. That it cannot be read or written is no reason not to work.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

import msgspec

__all__ = ["ScreenHabits", "habits_path", "read_habits", "write_habits"]


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
