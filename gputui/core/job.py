"""What a job is: its spec, its request, the states it can be in, and the kinds of crashes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

# ---- The kinds of crashes ----


class CrashKind(StrEnum):
    EXCEPTION = "exception"
    """The program itself raised or printed an error, and nothing narrower fits."""
    OOM_GPU = "oom-gpu"
    OOM_HOST = "oom-host"
    CUDA = "cuda"
    """The driver, its libraries, assertions on the device."""
    NCCL = "nccl"
    """Collectives between processes."""
    SIGNAL = "signal"
    NOT_FOUND = "not-found"
    NOT_EXECUTABLE = "not-executable"
    SYNTAX = "syntax"
    USAGE = "usage"
    DISK = "disk"
    PERMISSION = "permission"
    LIMIT = "limit"
    """Files, processes, threads, shared memory, file size, CPU seconds."""
    NETWORK = "network"
    INTERRUPTED = "interrupted"
    TIME_LIMIT = "time-limit"
    EXIT_ONLY = "exit-only"
    """A code, and at most some last words without the form of an error."""
    NONE = "none"
    """It ended well, whatever the log says."""


# ---- What a job asks of the machine, and what more after its card was full ----


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
    learns: bool = False
    """It will use what jobs of its group were seen to use, as soon as one of them has succeeded."""
    alone: bool = False
    """No other job of ours on its devices meanwhile."""
    larger_than: int | None = None
    """Only devices with more memory than this, in bytes."""


class AfterOom(Struct, frozen=True, omit_defaults=True):
    """How a job is run again whose card was full; said once, until the user asks for another run."""

    attempt: int
    """The one whose card was full."""
    larger_than: int | None = None

    def asked(self, request: Request) -> Request:
        return replace(request, alone=True, larger_than=self.larger_than)


# ---- What is done about a job in trouble, by the user's wish ----


class OnOom(StrEnum):
    """What becomes of a job whose card was full."""

    ALONE = "alone"
    """Once more without others on its card, if there were any."""
    BIGGER = "bigger"
    """Once more on a card with more memory, or alone where there is none."""
    FAIL = "fail"


class OnHang(StrEnum):
    """What becomes of a job that runs and does nothing."""

    NOTIFY = "notify"
    KILL = "kill"
    REQUEUE = "requeue"


# ---- What an attempt leaves of itself ----


class Usage(Struct, frozen=True, omit_defaults=True):
    """What an attempt made of its devices; None where the driver could not say."""

    gpu_mean: float | None = None
    """Percent."""
    gpu_peak: int | None = None
    gpu_peak_memory: int | None = None
    """Bytes, over all its devices at one moment."""
    gpu_seconds: float = 0.0
    gpu_peak_memory_each: int | None = None
    """Bytes, on the one of its devices where it was most."""


class Left(Struct, frozen=True, array_like=True):
    """A process of an attempt that could not be ended: the attempt was given up, and it lives on."""

    pid: int
    started: int
    """In clock ticks since boot; with the pid it names a process of this boot."""
    words: str


# ---- What a job is ----


JobId = int
LaneId = int

DEFAULT_PRIORITY = 30
LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, 99
URGENT_PRIORITY = 90
"""From here on a job may ask others to give way."""


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


class EngineName(StrEnum):
    """Who runs attempts: this machine, or a cluster."""

    LOCAL = "local"
    SLURM = "slurm"


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
    retry_on: tuple[str, ...] = ()
    """The failures after which it is run again, in words of `retries.KNOWN` or as `exit:75`; empty: any."""
    on_oom: OnOom = OnOom.ALONE
    hang_after: float = 1800.0
    """Seconds without a sign of life after which it counts as hung; 0: never."""
    on_hang: OnHang = OnHang.NOTIFY
    metric: str = ""
    """What jobs like it are compared by, and how it is found in its output, as the user wrote it; empty: guess."""
    notify: bool = False
    checkpoint: bool = False
    """It goes on where it was when it is put back in the queue."""
    preempt: bool = False
    """A running job with checkpoints and a lower priority gives way to it."""
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


class Placed(Struct, frozen=True, omit_defaults=True):
    """An attempt that was given its lanes; shared by every state in which it lives."""

    attempt: int
    lanes: tuple[LaneId, ...]
    gpus: tuple[str, ...]
    """The devices as the job sees them in CUDA_VISIBLE_DEVICES; on a cluster `node:index`, from its start on."""
    since: float
    """When it was started; on a cluster its submission, until it has begun there."""
    environment: str
    shared: bool = False
    """Another job of ours was on one of its devices meanwhile."""
    engine: EngineName = EngineName.LOCAL
    slurm_job: int | None = None
    """Its number in Slurm, to be shown: an attempt is known by its token alone."""


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


class Starting(Active, frozen=True, tag="starting", omit_defaults=True):
    name = StateName.STARTING
    hold: bool = False
    """It waits in a cluster's queue, and is to be held here once it is taken back from there."""


class Running(Active, frozen=True, tag="running"):
    name = StateName.RUNNING
    pid: int | None
    """The wrapper's, if it runs on this machine; alone it is no identity, the engine checks the attempt's token too."""
    suspended_for: float = 0.0
    """Seconds it stood still; a time limit does not count them."""
    silent_since: float | None = None
    """It does nothing since then, and for so long that it is thought to hang."""


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
    HANG = "hang"
    PREEMPT = "preempt"
    """It gives way to an urgent job, and waits again."""


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
    silent: bool = False
    """The limit was on doing nothing, not on running."""


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
    command: str | None = None
    """What ran, where the job has been given another command since; None: the job's."""
    engine: EngineName = EngineName.LOCAL
    slurm_job: int | None = None
    lanes: tuple[LaneId, ...] = ()
    """That it held; empty by an earlier version."""

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
    after_oom: AfterOom | None = None
    notify: bool | None = None
    """The user wants to be told of its end, or does not; None: as its spec says."""

    @property
    def request(self) -> Request:
        """What it asks for now: what its spec says, and more after its card was full."""
        return self.spec.request if self.after_oom is None else self.after_oom.asked(self.spec.request)

    @property
    def name(self) -> str:
        return self.spec.name or f"job_{self.id}"

    @property
    def submitted(self) -> bool:
        """It waits in a cluster's own queue and has not begun."""
        return isinstance(self.state, Starting) and self.state.placed.engine is not EngineName.LOCAL

    @property
    def active(self) -> Placed | None:
        """Its attempt under way, if there is one."""
        return self.state.placed if isinstance(self.state, Active) else None


# ---- Which states wait, are under way, have ended, have ended badly ----


WAITING = (StateName.QUEUED, StateName.HELD, StateName.BLOCKED, StateName.DELAYED)
ACTIVE = (StateName.STARTING, StateName.RUNNING, StateName.SUSPENDED, StateName.STOPPING)
FAILURES = (StateName.FAILED, StateName.CRASHED, StateName.TIMED_OUT, StateName.LOST, StateName.REFUSED)
"""The job itself came to no good; `rerun --all-failed` means these."""
BAD_ENDS = (*FAILURES, StateName.SKIPPED)
ENDS = (StateName.SUCCEEDED, StateName.KILLED, *BAD_ENDS)
ALL = (*WAITING, *ACTIVE, *ENDS)
"""In the order of a job's life."""

WORDS = {state: state.replace("_", " ") for state in ALL} | {StateName.CRASHED: "failed"}
"""For people: a job that a signal ended has failed like any other; `crashed` is its word for programs."""

_PREDICATES = {state: f"is {WORDS[state]}" for state in ALL} | {
    StateName.BLOCKED: "waits for other jobs",
    StateName.STOPPING: "is being stopped",
    StateName.SUCCEEDED: "has succeeded",
    StateName.FAILED: "has failed",
    StateName.CRASHED: "has failed",
    StateName.TIMED_OUT: "has timed out",
    StateName.KILLED: "was killed",
    StateName.REFUSED: "could not be started",
    StateName.SKIPPED: "was skipped",
}


def by_word(counts: Mapping[StateName, int]) -> dict[str, int]:
    """How many jobs each word tells of, in the order of a job's life."""
    words: dict[str, int] = {}
    for state in ALL:
        if counts.get(state):
            words[WORDS[state]] = words.get(WORDS[state], 0) + counts[state]
    return words


def predicate(state: StateName) -> str:
    """In a sentence about a job: `has succeeded`, `is running`."""
    return _PREDICATES[state]
