"""What a job is: its spec, the states it can be in (each owns just its own data), and its attempts."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from .crash_kind import CrashKind

JobId = int
LaneId = int

DEFAULT_PRIORITY = 30
LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, 99


class StateName(StrEnum):
    """The words for states in the UI, in JSON and on disk."""

    QUEUED = "queued"
    HELD = "held"
    BLOCKED = "blocked"
    DELAYED = "delayed"
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CRASHED = "crashed"
    KILLED = "killed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    REFUSED = "refused"
    SKIPPED = "skipped"


class Request(Struct, frozen=True, omit_defaults=True):
    """What a job asks of the machine. Jobs with equal requests wait in one line."""

    gpus: int | None = None
    """None: one lane, whatever it holds. 0: a CPU job, no lane. n: n distinct devices."""
    devices: tuple[str, ...] = ()
    """Only these devices will do; empty: any."""
    memory: int | None = None
    """Bytes it will use on each of its devices."""
    memory_share: float | None = None
    """The same as a part of the device's memory, 0 to 1."""


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command with its settings, as a source gave it."""

    command: str
    cwd: str
    environment: str
    """Digest of the environment of whoever added the job; the store keeps each distinct one once."""
    variables: dict[str, str] = {}
    """Variables of this job alone, on top of the environment."""
    name: str | None = None
    group: str = ""
    params: dict[str, str] = {}
    request: Request = Request()
    priority: int = DEFAULT_PRIORITY
    retries: int = 0
    timeout: float | None = None
    after: tuple[JobId | str, ...] = ()
    after_any: bool = False
    """Go on when the jobs in `after` have ended in whatever way."""
    not_before: float | None = None
    hold: bool = False
    shell: str = ""
    """Empty: bash, or sh where there is none."""
    login_shell: bool = False
    outfile: str | None = None
    wrap: str = ""
    """Words before the shell that runs the command, e.g. `apptainer exec --nv x.sif`."""
    task: str = ""
    """`module:function` that is called instead of a shell, with the job's name, command, folder and GPUs."""
    occurrence: int | None = None
    """Which one of several equal commands of one load this is; None: the source has no identity (a pipe)."""


class Placed(Struct, frozen=True):
    """An attempt that was given its lanes; shared by every state in which it lives."""

    attempt: int
    lanes: tuple[LaneId, ...]
    gpus: tuple[str, ...]
    """The devices as the job sees them in CUDA_VISIBLE_DEVICES."""
    since: float
    environment: str


class Waiting(Struct, frozen=True):
    """Base of the states before an attempt."""

    name: ClassVar[StateName]


class Queued(Waiting, frozen=True, tag="queued"):
    name = StateName.QUEUED
    since: float


class Held(Waiting, frozen=True, tag="held", omit_defaults=True):
    name = StateName.HELD
    why: str = ""
    """Empty: the user wanted it so."""


class Blocked(Waiting, frozen=True, tag="blocked"):
    """Waits for other jobs; the book knows for which ones still."""

    name = StateName.BLOCKED


class Delayed(Waiting, frozen=True, tag="delayed"):
    name = StateName.DELAYED
    until: float
    why: str


class Active(Struct, frozen=True):
    """Base of the states in which an attempt holds its lanes."""

    name: ClassVar[StateName]
    placed: Placed


class Starting(Active, frozen=True, tag="starting"):
    name = StateName.STARTING


class Running(Active, frozen=True, tag="running"):
    name = StateName.RUNNING
    pid: int | None
    """The wrapper's, if it runs on this machine; alone it is no identity, the engine checks the attempt's token too."""
    suspended_for: float = 0.0
    """Seconds it stood still; a time limit does not count them."""


class Suspended(Active, frozen=True, tag="suspended"):
    name = StateName.SUSPENDED
    pid: int | None
    since: float
    suspended_for: float = 0.0
    """Seconds of earlier suspensions."""


class Purpose(StrEnum):
    """Why an attempt is being stopped, hence what it becomes at its end."""

    KILL = "kill"
    REQUEUE = "requeue"
    TIMEOUT = "timeout"


class Stopping(Active, frozen=True, tag="stopping"):
    name = StateName.STOPPING
    pid: int | None
    purpose: Purpose
    deadline: float
    """When grace ends and SIGKILL follows."""
    hard: bool = False
    """Grace is over: SIGKILL has been ordered."""


class Ended(Struct, frozen=True):
    """Base of the ends."""

    name: ClassVar[StateName]


class Succeeded(Ended, frozen=True, tag="succeeded"):
    name = StateName.SUCCEEDED


class Failed(Ended, frozen=True, tag="failed"):
    name = StateName.FAILED
    code: int


class Crashed(Ended, frozen=True, tag="crashed"):
    name = StateName.CRASHED
    signal: int


class Killed(Ended, frozen=True, tag="killed"):
    name = StateName.KILLED


class TimedOut(Ended, frozen=True, tag="timed_out"):
    name = StateName.TIMED_OUT
    limit: float


class Lost(Ended, frozen=True, tag="lost"):
    name = StateName.LOST
    why: str


class Refused(Ended, frozen=True, tag="refused"):
    name = StateName.REFUSED
    why: str


class Skipped(Ended, frozen=True, tag="skipped"):
    name = StateName.SKIPPED
    because: JobId


End = Succeeded | Failed | Crashed | Killed | TimedOut | Lost | Refused | Skipped
State = Queued | Held | Blocked | Delayed | Starting | Running | Suspended | Stopping | End


class Usage(Struct, frozen=True, omit_defaults=True):
    """What an attempt made of its devices; None where the driver could not say."""

    gpu_mean: float | None = None
    """Percent."""
    gpu_peak: int | None = None
    gpu_peak_memory: int | None = None
    """Bytes, over all its devices at one moment."""
    gpu_seconds: float = 0.0


class Left(Struct, frozen=True, array_like=True):
    """A process of an attempt that could not be ended: the attempt was given up, and it lives on."""

    pid: int
    started: int
    """In clock ticks since boot; with the pid it names a process of this boot."""
    words: str


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One run of a job that is over."""

    number: int
    gpus: tuple[str, ...]
    started: float
    ended: float
    end: End
    exit_code: int | None
    signature: str | None
    """The crash in words, the same for crashes that are alike: to be compared, not shown."""
    environment: str
    pid: int | None = None
    """The wrapper's."""
    usage: Usage | None = None
    left: tuple[Left, ...] = ()
    message: str | None = None
    """What the job itself said, where that is more than the signature."""
    kind: CrashKind | None = None
    """What went wrong; None where it did not fail, or by an earlier version."""

    @property
    def said(self) -> str | None:
        """Why it ended as it did, in true words."""
        return self.message or self.signature


class Job(Struct, frozen=True, omit_defaults=True):
    """A job as it is now; every change makes a new one, so a snapshot can simply keep it."""

    id: JobId
    spec: JobSpec
    added: float
    priority: int
    position: float
    state: State
    after: tuple[JobId, ...] = ()
    """The jobs that `spec.after` means, by id."""
    issued: int = 0
    """The newest attempt number given out; also counts attempts that were revoked before they ran."""
    failures: int = 0
    """Failed attempts since the user last asked for a run; retries are counted against it."""
    attempts: tuple[Attempt, ...] = ()
    archived: bool = False

    @property
    def name(self) -> str:
        return self.spec.name or f"job_{self.id}"

    @property
    def active(self) -> Placed | None:
        """Its attempt under way, if there is one."""
        return self.state.placed if isinstance(self.state, Active) else None
