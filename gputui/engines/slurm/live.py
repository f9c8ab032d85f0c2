"""An attempt that this engine has given to Slurm, or is about to."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from gputui.core.job import Purpose
from gputui.engines.claims import BatchBegun, WrittenExit

from .answers import Phase, SlurmJob
from .records import Key


class BatchOrder(Enum):
    """What was last asked of it; a later one outweighs an earlier one."""

    NONE = auto()
    WITHDRAW = auto()
    TERMINATE = auto()
    KILL = auto()


class BatchAttempt(Struct, eq=False):
    key: Key
    token: str
    cwd: str | None = None
    survived: bool = False
    """An earlier owner started it."""
    submitted_at: float | None = None
    """On the monotonic clock; None: it is not given to Slurm yet."""
    number: int | None = None
    row: SlurmJob | None = None
    """As Slurm last listed it."""
    missed: int = 0
    """Answers in a row that did not list it."""
    begun: BatchBegun | None = None
    told_begun: bool = False
    exit: WrittenExit | None = None
    """Written, but Slurm may have more to say of it."""
    over_since: float | None = None
    """Since when Slurm counts it as over although it left no exit record, on the monotonic clock."""
    asking: bool = False
    """Slurm, or the disk, is being asked about its end."""
    order: BatchOrder = BatchOrder.NONE
    ordered_at: float = float("-inf")
    suspended: bool = False
    asked: Purpose | None = None
    killed: bool = False
    """Its supervisor itself was killed."""

    @property
    def over(self) -> bool:
        """As far as Slurm knows."""
        if self.row is None:
            return self.missed >= (1 if self.survived else 2)
        return self.row.phase is Phase.ENDED or (self.begun is not None and self.row.phase is Phase.WAITING)
