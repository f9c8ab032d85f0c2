"""What every engine offers a session, and what the owner lends an engine: sessions know nothing else of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Protocol

from msgspec import Struct

from gputui.core.events import AttemptEnded, EngineTrouble, NodesSeen, Remark, Spawned, Submitted
from gputui.core.job import EngineName, JobId, Purpose
from gputui.process.watch import EventLoop

Report = Submitted | Remark | Spawned | AttemptEnded | EngineTrouble | NodesSeen


class Abilities(Struct, frozen=True, kw_only=True):
    """What an engine can do; whoever asks for what it cannot is told so."""

    can_suspend: bool
    can_pin_device: bool
    """An attempt runs on the very devices that its lane names."""
    telemetry: bool
    """This machine's samples show the devices of its attempts."""
    leaves_processes: bool = True
    """What a command leaves running lives on; otherwise it is ended with the attempt."""


class ClusterWishes(Struct, frozen=True, kw_only=True):
    """What the session wants of a cluster for all its jobs; None: the cluster's own default."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: float | None = None
    """Seconds, for a job that says no timeout of its own."""
    constraint: str | None = None
    sbatch_opt: tuple[str, ...] = ()
    """Further options of sbatch, as they are."""


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
    folder: int | None = None
    """The descriptor of the folder that `out` and `err` are in, where others could put another in its place. Whoever
    starts it closes it."""
    gpus: int | None = None
    """How many devices it asked for; None: one lane, whatever that holds."""
    timeout: float | None = None
    """Seconds it may run; the scheduler ends it by itself, an engine may tell others."""
    engine: EngineName = EngineName.LOCAL
    """Which engine is to run it, for whoever has several."""
    wishes: ClusterWishes = ClusterWishes()
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


LEFT_BEHIND = {
    Since.WORLD_ENDED: "its container was stopped before its end was seen",
    Since.REBOOT: "the machine went down before its end was seen",
    Since.COPY: "this is a copy, and it went on where it was copied from",
}
"""What became of an attempt of which only the disk tells, and does not tell its end."""


class Survivor(Struct, frozen=True, kw_only=True):
    """An attempt that the store says is under way, when a new owner opens it."""

    job: JobId
    attempt: int
    since: Since
    out: str
    engine: EngineName = EngineName.LOCAL
    stopping: bool = False
    """An earlier owner was stopping it, and may have signalled it."""


class Engine(Protocol):
    """Starts, stops and watches attempts; says what happened by calling `report` in the owner's thread.

    Orders about an attempt that is over do nothing. But for `forget` and `token` all is called in the owner's thread.
    """

    @property
    def abilities(self) -> Abilities: ...

    def token(self, job: JobId, attempt: int) -> str:
        """What every process of the attempt bears in GPUTUI_RUN, and nobody else."""

    def start(self, launches: Iterable[Launch]) -> None:
        """Starts them beside each other, each as soon as it is given. One that starts elsewhere may take its time:
        this returns, and what becomes of it is reported."""

    def recover(self, survivors: list[Survivor]) -> None:
        """Decides about each survivor before anything is started, and reports what it found."""

    def withdraw(self, job: JobId, attempt: int) -> None:
        """Takes it back, if it has not begun, and reports that it never ran."""

    def terminate(self, job: JobId, attempt: int) -> None: ...

    def kill(self, job: JobId, attempt: int) -> None: ...

    def suspend(self, job: JobId, attempt: int) -> None: ...

    def resume(self, job: JobId, attempt: int) -> None: ...

    def write_down(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        """Where the next owner finds it: an order that the store cannot take now. `recover` reports it."""

    def claimed(self) -> list[tuple[JobId, int]]:
        """The attempts that have claims still."""

    def forget(self, job: JobId, attempt: int) -> None:
        """The attempt's end is durable: its claim may go."""

    def gc(self, *, all_dead: bool) -> None:
        """After `recover`: removes claims that nobody needs any more; `all_dead`: none of their processes can live."""

    def kill_leftovers(self, job: JobId, attempt: int) -> None:
        """Ends what an attempt that has ended left behind."""

    def close(self) -> None:
        """Lets go of everything without touching a running attempt."""


class EngineFactory(Protocol):
    """Makes an owner's engine.

    `private` is the descriptor of the session's private folder, `session` names the session for all its owners, now
    and later, and `report` is to be called in the owner's thread.
    """

    def __call__(self, loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> Engine: ...
