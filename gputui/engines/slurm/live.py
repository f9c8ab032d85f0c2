"""The attempts that this engine has given to Slurm, or is about to, and what the owner is told of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from enum import Enum, auto

from msgspec import Struct

from gputui.core.events import AttemptEnded, Spawned, Submitted
from gputui.core.job import Purpose
from gputui.engines.claims import BatchBegun, WrittenExit
from gputui.engines.protocol import Report

from .answers import Phase, SlurmJob
from .outcomes import SlurmVerdict
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
    """Since when it is over and it is asked why, on the monotonic clock."""
    asking: bool = False
    """Slurm, or the disk, is being asked about its end."""
    order: BatchOrder = BatchOrder.NONE
    ordered_at: float = float("-inf")
    suspended: bool = False
    asked: Purpose | None = None
    killed: bool = False
    """Its supervisor itself was killed."""
    requeued: bool = False
    """It was put back into Slurm's queue after it had begun."""
    node_seen_at: float = float("-inf")
    """When Slurm was last asked about its failed node."""

    @property
    def over(self) -> bool:
        """As far as Slurm knows."""
        if self.row is None:
            return self.missed >= (1 if self.survived else 2)
        return self.row.phase is Phase.ENDED or (self.begun is not None and self.row.phase is Phase.WAITING)

    @property
    def last_number(self) -> int | None:
        """Slurm's own, as it last listed it or as it was submitted."""
        return self.number if self.row is None else int(self.row.id)


class BatchAttempts:
    """By key, in the owner's thread. One that has ended is there no more, and no second end of it is told."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._attempts: dict[Key, BatchAttempt] = {}

    def __iter__(self) -> Iterator[BatchAttempt]:
        return iter(list(self._attempts.values()))

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, key: Key) -> bool:
        return key in self._attempts

    def get(self, key: Key) -> BatchAttempt | None:
        return self._attempts.get(key)

    def add(self, attempt: BatchAttempt) -> None:
        self._attempts[attempt.key] = attempt

    def clear(self) -> None:
        self._attempts.clear()

    def tell_waiting(self, attempt: BatchAttempt, why: str) -> None:
        job, number = attempt.key
        self._report(Submitted(job=job, attempt=number, why=why, slurm_job=attempt.number))

    def tell_begun(self, attempt: BatchAttempt, begun: BatchBegun) -> None:
        job, number = attempt.key
        self._report(
            Spawned(
                job=job, attempt=number, pid=None, adopted=attempt.survived, asked=attempt.asked,
                started=begun.started, gpus=begun.gpus, slurm_job=begun.slurm_job,
            )
        )  # fmt: skip

    def end(self, attempt: BatchAttempt, verdict: SlurmVerdict, at: float | None = None) -> None:
        """`at`: by the clock of its node, where that wrote it down."""
        if self._attempts.pop(attempt.key, None) is None:
            return
        begun = attempt.begun
        self._report(
            AttemptEnded(
                job=attempt.key[0], attempt=attempt.key[1], outcome=verdict.outcome,
                at=time.time() if at is None else at, signature=verdict.words, kind=verdict.kind,
                started=begun.started if begun is not None else None, gpus=begun.gpus if begun is not None else None,
                slurm_job=attempt.number, asked=attempt.asked,
            )
        )  # fmt: skip
