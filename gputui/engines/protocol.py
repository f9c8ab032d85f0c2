"""What every engine offers the owner, and what the owner lends an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Protocol, TypeVar

from msgspec import Struct

from gputui.core.events import AttemptEnded, Spawned
from gputui.core.job import JobId, Purpose

Report = Spawned | AttemptEnded
T = TypeVar("T")


class Launch(Struct, frozen=True, kw_only=True):
    """All an engine must know to run one attempt; paths are absolute and their folders exist."""

    job: JobId
    attempt: int
    command: str
    shell: str
    """A shell's path or name; empty: bash, or sh where there is none, and none at all for plain words."""
    login_shell: bool
    cwd: str
    environment: Mapping[str, str]
    """Complete, but for the engine's own GPUTUI_RUN."""
    out: str
    err: str | None
    """None: both streams into `out`."""
    lease: int | None = None
    """A descriptor for the wrapper to hold as long as the command runs; the command itself does not get it."""


class Since(Enum):
    """What has happened since an attempt was started."""

    NOTHING = auto()
    """It is the same boot and pid namespace: pids mean what they meant."""
    WORLD_ENDED = auto()
    """Its container is gone and all its processes with it; what is on the disk is all there was."""
    REBOOT = auto()
    """And the disk may have lost the last seconds before it."""
    COPY = auto()
    """The session was copied: its attempts go on where it was copied from."""


class Survivor(Struct, frozen=True, kw_only=True):
    """An attempt that the store says is under way, when a new owner opens it."""

    job: JobId
    attempt: int
    since: Since
    out: str


class Engine(Protocol):
    """Starts, stops and watches attempts; says what happened by calling `report` in the owner's thread.

    Orders about an attempt that is over do nothing.
    """

    def start(self, launches: Iterable[Launch]) -> None:
        """Starts them beside each other, each as soon as it is given, and returns when all are started."""

    def recover(self, survivors: list[Survivor]) -> None:
        """Decides about each survivor before anything is started, and reports what it found."""

    def terminate(self, job: JobId, attempt: int) -> None: ...

    def kill(self, job: JobId, attempt: int) -> None: ...

    def suspend(self, job: JobId, attempt: int) -> None: ...

    def resume(self, job: JobId, attempt: int) -> None: ...

    def write_down(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        """Where the next owner finds it: an order that the store cannot take now. `recover` reports it."""

    def forget(self, job: JobId, attempt: int) -> None:
        """The attempt's end is durable: its claim may go."""

    def leftovers(self, job: JobId, attempt: int) -> list[int]:
        """Live pids of an attempt that has ended."""

    def close(self) -> None:
        """Lets go of everything without touching a running attempt."""
