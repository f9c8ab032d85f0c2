"""An attempt that this engine watches, or whose processes it still clears away."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from gputui.core.events import AttemptEnded
from gputui.core.job import JobId, Purpose
from gputui.process.processes import Marks
from gputui.process.watch import Watch

Key = tuple[JobId, int]


class TreeOrder(Enum):
    """What was last asked of an attempt's processes."""

    NONE = auto()
    TERMINATE = auto()
    KILL = auto()
    SUSPEND = auto()
    RESUME = auto()


class LiveAttempt(Struct, eq=False):
    key: Key
    marks: Marks
    watch: Watch | None
    """None: the wrapper is gone, though how it ended may not be read yet."""
    out: str
    err: str | None = None
    """Where the wrapper's own complaints go; None: not known any more, or into `out`."""
    folder: str | None = None
    order: TreeOrder = TreeOrder.NONE
    rounds: int = 0
    """Of the newest order; a round of an older one is out of date."""
    serial: int = 0
    lone_since: float | None = None
    """Since when the wrapper has been seen without a command, under a kill."""
    end: AttemptEnded | None = None
    """Known, but reported only when nothing of the attempt lives any more."""
    asked: Purpose | None = None
    """What an earlier owner had ordered without being able to make it durable."""
    ended_at: float = 0.0
    """On the monotonic clock."""
    killed_at: float = 0.0
    """When it was first ordered, on the same clock."""
