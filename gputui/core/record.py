"""What the store keeps of a scheduler besides its jobs."""

from __future__ import annotations

from msgspec import Struct

from .breaker.scope import Breaker
from .events import Settings
from .job import JobId
from .lanes import Lane
from .mode import Cause, Mode


class Moment(Struct, frozen=True):
    """One line of a job's story."""

    job: JobId
    at: float
    text: str


class Record(Struct, frozen=True):
    """All of the scheduler that is not in its jobs; what the store keeps besides them."""

    first_id: JobId = 0
    mode: Mode = Mode.RUNNING
    """As people want it; crashes are the breaker's."""
    cause: Cause | None = None
    settings: Settings = Settings()
    lanes: tuple[Lane, ...] = ()
    next_position: float = 0.0
    leaving: tuple[Lane, ...] = ()
    clock: float | None = None
    """The wall clock's lead over one that cannot be set, in this boot: by it the next owner knows of a step."""
    learned: dict[str, int] = {}
    """The memory that jobs of each group were seen to use on a device, and a little more."""
    breaker: Breaker = Breaker()
