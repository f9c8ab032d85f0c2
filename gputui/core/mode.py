"""Whether the scheduler starts jobs, and if not, why."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from .events import PauseKind
from .job import JobId


class Mode(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"
    PAUSED = "paused"


class Cause(Struct, frozen=True):
    """Why it is paused, in words."""

    kind: PauseKind
    message: str
    since: float
    jobs: tuple[JobId, ...] = ()
    signature: str | None = None
    left: bool = False
    """Somebody left on purpose since: no source goes on by itself, though crashes stay the cause."""
    more: int = 0
    """So many more jobs crashed than are named."""

    @property
    def count(self) -> int:
        """How many jobs crashed."""
        return len(self.jobs) + self.more

    @property
    def on_purpose(self) -> bool:
        """Whoever owned the session went and wants nothing to go on."""
        return self.left or self.kind in LEFT_ON_PURPOSE


LEFT_ON_PURPOSE = (PauseKind.DRAINED, PauseKind.STOPPED, PauseKind.INTERRUPTED)
SENTENCES = {
    PauseKind.USER: "paused by you",
    PauseKind.DRAINED: "drained: the jobs that ran have ended, nothing new was started",
    PauseKind.STOPPED: "stopped by you: nothing new is started",
    PauseKind.INTERRUPTED: "interrupted: nothing new was started",
}


def cause_of(kind: PauseKind, now: float) -> Cause:
    """For every kind but crashes, whose cause the breaker words."""
    return Cause(kind, SENTENCES[kind], now)
