"""The interface between a session and its engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Protocol

from msgspec import Struct

from gputui.core.events import AttemptEnded, AttemptInstruction, EngineTrouble, NodesSeen, Remark, Spawned, Submitted
from gputui.core.job import EngineName, JobId, Purpose
from gputui.process.watch import EventLoop

Report = Submitted | Remark | Spawned | AttemptEnded | EngineTrouble | NodesSeen


class ClusterOptions(Struct, frozen=True, kw_only=True):
    """Slurm options for all jobs of a session. None stands for the cluster's default."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: float | None = None
    """Time limit in seconds for jobs without a timeout."""
    constraint: str | None = None
    sbatch_opt: tuple[str, ...] = ()
    """Options passed to sbatch unchanged."""


class Launch(Struct, frozen=True, kw_only=True):
    """Everything that an engine needs to run one attempt. Paths are absolute, and their directories exist."""

    job: JobId
    attempt: int
    command: str
    shell: str
    """The shell. If empty: bash, or sh if bash is not installed. A command of plain words then needs no shell."""
    login_shell: bool
    cwd: str
    environment: Mapping[str, str]
    """The complete environment except for GPUTUI_RUN, which the engine adds."""
    out: str
    err: str | None
    """Path of the error log. If None, both streams go to `out`."""
    directory: int | None = None
    """Descriptor of the directory of `out` and `err`, given if others could replace it. The engine closes it."""
    gpus: int | None = None
    """Number of devices that the job requested, or None for one slot."""
    timeout: float | None = None
    """Timeout in seconds. The scheduler enforces it, but an engine may also pass it on to the cluster."""
    engine: EngineName = EngineName.LOCAL
    cluster_options: ClusterOptions = ClusterOptions()
    lease: int | None = None
    """Descriptor that the wrapper keeps open while the command runs. The command does not inherit it."""


class Since(Enum):
    """What happened between the start of an attempt and its recovery."""

    NOTHING = auto()
    """The boot and the pid namespace are the same, so pids are still valid."""
    WORLD_ENDED = auto()
    """The container and all its processes are gone, but the disk is complete."""
    REBOOT = auto()
    """The machine was restarted. The last writes before that may be lost."""
    COPY = auto()
    """The session was copied. Its attempts continue in the original session."""


STARTED_BEFORE = "this attempt was already started"
LEFT_BEHIND = {
    Since.WORLD_ENDED: "its container stopped before its end was recorded",
    Since.REBOOT: "the machine went down before its end was recorded",
    Since.COPY: "this is a copy; the job continued in the original",
}
"""Reasons reported for attempts that are lost because no end was recorded."""


class Survivor(Struct, frozen=True, kw_only=True):
    """An attempt that the store lists as running when a new owner opens the session."""

    job: JobId
    attempt: int
    since: Since
    out: str
    engine: EngineName = EngineName.LOCAL
    stopping: bool = False
    """Whether an earlier owner was stopping the attempt and may have signaled it."""


class Engine(Protocol):
    """An engine starts, stops and watches attempts, and calls `report` in the owner's thread.

    Orders for an attempt that has ended have no effect. All methods except `forget` and `token` are called in the
    owner's thread.
    """

    def token(self, job: JobId, attempt: int) -> str:
        """Return the value of GPUTUI_RUN that identifies all processes of the attempt."""

    def start(self, launches: Iterable[Launch]) -> None:
        """Start each attempt as soon as `launches` yields it. A remote engine may report the outcome later."""

    def recover(self, survivors: list[Survivor]) -> None:
        """Take over or end each survivor and report the result. Must be called before any attempt is started."""

    def carry_out(self, order: AttemptInstruction) -> None:
        """Carry out an order. An engine whose attempts begin as soon as they are started ignores `Withdraw`."""

    def write_down(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        """Record an order that the store cannot save at the moment. The next owner's `recover` reports it."""

    def claimed(self) -> list[tuple[JobId, int]]:
        """Return the attempts that still have claims."""

    def forget(self, job: JobId, attempt: int) -> None:
        """Remove the claim of an attempt after its end has been stored."""

    def gc(self, *, all_dead: bool) -> None:
        """Remove unneeded claims. Called after `recover`. `all_dead`: no process of their attempts can be alive."""

    def kill_leftovers(self, job: JobId, attempt: int) -> None:
        """Kill the processes that an ended attempt left behind."""

    def close(self) -> None:
        """Release all resources. Running attempts are not affected."""


EngineFactory = Callable[[EventLoop, int, str, Callable[[Report], None]], Engine]
"""Function that creates the engine of an owner.

Its arguments are the event loop, the descriptor of the session's private directory, the session's permanent id, and
`report`, which must be called in the owner's thread.
"""
