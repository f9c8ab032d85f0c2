"""Jobs: their specs, requests, states and attempts, and the kinds of errors they fail with."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import force_setattr, replace


class CrashKind(StrEnum):
    """What kind of error made a job fail."""

    EXCEPTION = "exception"
    """The program raised or printed an error that no narrower kind describes."""
    OOM_GPU = "oom-gpu"
    OOM_HOST = "oom-host"
    CUDA = "cuda"
    """An error of the CUDA driver or of a CUDA library, or a failed assertion on the device."""
    NCCL = "nccl"
    """A failed collective operation between processes."""
    SIGNAL = "signal"
    NOT_FOUND = "not-found"
    NOT_EXECUTABLE = "not-executable"
    SYNTAX = "syntax"
    USAGE = "usage"
    DISK = "disk"
    PERMISSION = "permission"
    LIMIT = "limit"
    """A limit on files, processes, threads, shared memory, file size or CPU time."""
    NETWORK = "network"
    INTERRUPTED = "interrupted"
    TIME_LIMIT = "time-limit"
    EXIT_ONLY = "exit-only"
    """An exit code only. The last output, if any, does not look like an error."""
    NONE = "none"
    """No error: the attempt succeeded, whatever its log contains."""


# Requests


class Request(Struct, frozen=True, omit_defaults=True):
    """The resources that a job needs. Jobs with the same request and group share one sorted queue."""

    gpus: int | None = None
    """Number of distinct devices. None means one slot with any number of devices. 0 means a CPU job without a slot."""
    devices: tuple[str, ...] = ()
    """The only devices that the job may use. An empty tuple allows all devices."""
    memory: int | None = None
    """Bytes of memory that the job needs on each of its devices, or None."""
    memory_share: float | None = None
    """The memory that the job needs on each of its devices, as a fraction of the device's memory (0 to 1), or None."""
    learns: bool = False
    """Whether to request the amount of memory that was measured for succeeded jobs of the group."""
    alone: bool = False
    """Whether no other job of the session may share the job's devices."""
    larger_than: int | None = None
    """Bytes of memory that each device must exceed, or None."""
    budget: float | None = None
    """GPU-seconds after which no further job of the group starts, or None for no limit."""


class AfterOom(Struct, frozen=True, omit_defaults=True):
    """How to retry a job that ran out of GPU memory. There is one such retry for each run that the user requested."""

    attempt: int
    """The attempt that ran out of memory."""
    larger_than: int | None = None

    def applied_to(self, request: Request) -> Request:
        return replace(request, alone=True, larger_than=self.larger_than)


class OnOom(StrEnum):
    """What to do with a job that ran out of GPU memory."""

    ALONE = "alone"
    """Retry once with no other jobs on the job's GPU, if the job shared its GPU."""
    BIGGER = "bigger"
    """Retry once on a GPU with more memory. If there is none, retry as with `ALONE`."""
    FAIL = "fail"


class OnHang(StrEnum):
    """What to do with a running job that shows no activity."""

    NOTIFY = "notify"
    KILL = "kill"
    REQUEUE = "requeue"


class Usage(Struct, frozen=True, omit_defaults=True):
    """How an attempt used its devices. A value is None if the driver does not report it."""

    gpu_mean: float | None = None
    """Mean load of the devices, in percent."""
    gpu_peak_memory: int | None = None
    """Peak memory in bytes, summed over the attempt's devices."""
    gpu_seconds: float = 0.0
    gpu_peak_memory_each: int | None = None
    """Peak memory in bytes on the device on which the attempt used the most memory."""
    energy: float | None = None
    """Energy in joules that the devices used during `energy_seconds`, or None if they report no power."""
    energy_seconds: float = 0.0
    """Device-seconds for which the energy is known."""
    is_energy_estimated: bool = False
    """Whether a part of the energy was calculated from power samples, because a device does not count its energy."""


class SurvivingProcess(Struct, frozen=True):
    """A process of an ended attempt that could not be killed and is still running."""

    pid: int
    started: int
    """Start time in clock ticks since boot. Together with the pid, it identifies a process of this boot."""
    words: str


# Jobs and their states


JobId = int
SlotId = int

DEFAULT_PRIORITY = 30
LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, 99
INTERACTIVE_PRIORITY = 80
"""Default priority of interactive jobs, for which somebody is waiting. They start first but preempt no job."""
URGENT_PRIORITY = 90
"""Lowest priority at which jobs may preempt others."""


class StateName(StrEnum):
    """Names of states as they appear in JSON and on disk."""

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
    KILLED = "killed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    REFUSED = "refused"
    SKIPPED = "skipped"


class EngineName(StrEnum):
    """What runs the attempts: this machine or a cluster."""

    LOCAL = "local"
    SLURM = "slurm"


class _Empty(dict[str, Any]):
    """An empty dictionary that all jobs share. msgspec would copy a plain dictionary for each struct."""

    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError("shared by all jobs")


EMPTY = _Empty()


class Terminal(Struct, frozen=True, omit_defaults=True):
    """The terminal of an interactive job, in which `gputui exec` waits for the job."""

    socket: str
    """Name of the socket on which the client listens, in the session's private directory."""
    where: str = ""
    """The client's terminal, such as `pts/3`."""
    keep: bool = False
    """Whether the job continues when the terminal is gone."""


class CodeSnapshot(Struct, frozen=True, omit_defaults=True):
    """A git work tree as it was when a job was added. Its files are in the session's own git repository."""

    tree: str
    """The id of the git tree."""
    top: str
    """The top directory of the work tree."""
    prefix: str = ""
    """The job's directory relative to `top`."""
    head: str = ""
    """The commit that was checked out, or empty if there was none."""
    changed: bool = False
    """Whether the files differ from that commit."""


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A command with its settings, as read from a source."""

    command: str
    cwd: str
    environment: str
    """Digest of the environment in which the job was added. The store keeps each distinct environment once."""
    variables: dict[str, str] = EMPTY
    """Variables set for this job in addition to its environment."""
    name: str | None = None
    group: str = ""
    params: dict[str, str] = EMPTY
    request: Request = Request()
    priority: int = DEFAULT_PRIORITY
    retries: int = 0
    retry_on: tuple[str, ...] = ()
    """The failures after which to retry, such as `oom` or `exit:75`. An empty tuple means any failure."""
    on_oom: OnOom = OnOom.ALONE
    hang_after: float = 1800.0
    """Seconds without activity after which the job counts as hung, or 0 for never."""
    on_hang: OnHang = OnHang.NOTIFY
    metric: str = ""
    """The metric to compare jobs by and how to find it in the output, as written by the user. If empty, guess."""
    notify: bool = False
    checkpoint: bool = False
    """Whether the job saves checkpoints. If it does, it continues where it was stopped after it is requeued."""
    preempt: bool = False
    """Whether the job may preempt a running job that saves checkpoints and has a lower priority."""
    timeout: float | None = None
    after: tuple[JobId | str, ...] = ()
    after_any: bool = False
    """Whether to start even if the jobs in `after` ended without success."""
    not_before: float | None = None
    hold: bool = False
    shell: str = ""
    """The shell that runs the command. If it is empty, use bash, or sh if bash is not installed."""
    login_shell: bool = False
    outfile: str | None = None
    wrap: str = ""
    """A prefix for the shell that runs the command, for example `apptainer exec --nv x.sif`."""
    task: str = ""
    """`module:function` to call, with the job's name, command, directory and GPUs, instead of running a shell."""
    occurrence: int | None = None
    """Index of the job among identical commands of its source. None if the source has no identity, as with a pipe."""
    key: str | None = None
    """The user's name for this piece of work. A session never contains two jobs with the same key."""
    terminal: Terminal | None = None
    """The terminal of an interactive job, or None. Such a job is never rerun and its failures pause no other jobs."""
    snapshot: bool = False
    """Whether the job runs in a snapshot of the code, which is taken when the job is added."""
    code: CodeSnapshot | None = None


class Placed(Struct, frozen=True, omit_defaults=True):
    """An attempt with the slots that it was given. Every active state contains one."""

    attempt: int
    slots: tuple[SlotId, ...]
    gpus: tuple[str, ...]
    """The devices as in CUDA_VISIBLE_DEVICES. On a cluster: `node:index`, known once the attempt has started."""
    since: float
    """When the attempt was started. While it is waiting in a cluster's queue: when it was submitted."""
    environment: str
    shared: bool = False
    """Whether another job of the session ran at the same time on one of the attempt's devices."""
    engine: EngineName = EngineName.LOCAL
    slurm_job: int | None = None
    """The attempt's Slurm job id, only for display. Attempts are identified by their token."""


class Waiting(Struct, frozen=True):
    """Base class of the states in which a job waits to be started."""

    name: ClassVar[StateName]


class Queued(Waiting, frozen=True, tag="queued", gc=False):
    name = StateName.QUEUED
    since: float


class Held(Waiting, frozen=True, tag="held", omit_defaults=True):
    name = StateName.HELD
    why: str = ""
    """Why the job is held. Empty if the user held it."""


class Blocked(Waiting, frozen=True, tag="blocked"):
    """The state of a job that waits for other jobs. `Book.unmet` lists them."""

    name = StateName.BLOCKED


class Delayed(Waiting, frozen=True, tag="delayed"):
    name = StateName.DELAYED
    until: float
    why: str


class Active(Struct, frozen=True):
    """Base class of the states in which an attempt occupies its slots."""

    name: ClassVar[StateName]
    placed: Placed


class Starting(Active, frozen=True, tag="starting", omit_defaults=True):
    name = StateName.STARTING
    hold: bool = False
    """Whether the attempt is to be withdrawn from a cluster's queue so that the job can be held."""


class Running(Active, frozen=True, tag="running"):
    name = StateName.RUNNING
    pid: int | None
    """The wrapper's pid, or None on another machine. Pids can be reused, so the engine also checks the token."""
    suspended_for: float = 0.0
    """Seconds for which the attempt was suspended. They do not count towards the time limit."""
    silent_since: float | None = None
    """When the activity of a hung attempt stopped, or None if the attempt is not hung."""


class Suspended(Active, frozen=True, tag="suspended"):
    name = StateName.SUSPENDED
    pid: int | None
    since: float
    suspended_for: float = 0.0
    """Seconds for which the attempt was suspended earlier."""


class Purpose(StrEnum):
    """Why an attempt is being stopped. This decides the job's next state."""

    KILL = "kill"
    REQUEUE = "requeue"
    TIMEOUT = "timeout"
    HANG = "hang"
    PREEMPT = "preempt"
    """An urgent job needs the slots. The stopped job returns to the queue."""


class Stopping(Active, frozen=True, tag="stopping"):
    name = StateName.STOPPING
    pid: int | None
    purpose: Purpose
    deadline: float
    """When the grace period ends, so that SIGKILL is sent."""
    hard: bool = False
    """Whether the engine has been instructed to send SIGKILL."""


class Ended(Struct, frozen=True):
    """Base class of the states of a job that has ended."""

    name: ClassVar[StateName]


class Succeeded(Ended, frozen=True, tag="succeeded"):
    name = StateName.SUCCEEDED


class Failed(Ended, frozen=True, tag="failed"):
    name = StateName.FAILED
    code: int

    @property
    def signal(self) -> int | None:
        """The signal that killed the command, or None. A shell exits with 128 plus the signal's number."""
        return self.code - 128 if 129 <= self.code <= 192 else None


class Killed(Ended, frozen=True, tag="killed"):
    name = StateName.KILLED


class TimedOut(Ended, frozen=True, tag="timed_out"):
    name = StateName.TIMED_OUT
    limit: float
    silent: bool = False
    """Whether the job was stopped because it hung, not because it ran too long."""


class Lost(Ended, frozen=True, tag="lost"):
    name = StateName.LOST
    why: str


class Refused(Ended, frozen=True, tag="refused"):
    name = StateName.REFUSED
    why: str


class Skipped(Ended, frozen=True, tag="skipped"):
    name = StateName.SKIPPED
    because: JobId


End = Succeeded | Failed | Killed | TimedOut | Lost | Refused | Skipped
State = Queued | Held | Blocked | Delayed | Starting | Running | Suspended | Stopping | End


class Attempt(Struct, frozen=True, omit_defaults=True, gc=False):
    """A finished run of a job."""

    number: int
    gpus: tuple[str, ...]
    started: float
    ended: float
    end: End
    exit_code: int | None
    signature: str | None
    """The error without its variable parts. It is only for comparison: identical errors have the same signature."""
    environment: str
    pid: int | None = None
    """The wrapper's pid."""
    usage: Usage | None = None
    left: tuple[SurvivingProcess, ...] = ()
    message: str | None = None
    """The error message, or None if it is identical to the signature."""
    kind: CrashKind | None = None
    """The kind of error, or None if the attempt did not fail."""
    command: str | None = None
    """The command that this attempt ran, or None if the job's command has not been edited since."""
    engine: EngineName = EngineName.LOCAL
    slurm_job: int | None = None
    slots: tuple[SlotId, ...] = ()

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def reason(self) -> str | None:
        """The error message, or the signature if there is none."""
        return self.message or self.signature


class Job(Struct, frozen=True, omit_defaults=True, gc=False):
    """A job. Jobs are immutable: every change makes a new object, so snapshots can share unchanged jobs."""

    id: JobId
    spec: JobSpec
    added: float
    priority: int
    position: float
    state: State
    after: tuple[JobId, ...] = ()
    """The ids of the jobs named in `spec.after`."""
    issued: int = 0
    """The number of the latest attempt. Attempts that were revoked before they ran are also counted."""
    failures: int = 0
    """Number of failed attempts since the job was added or rerun. The limit on retries applies to this number."""
    attempts: tuple[Attempt, ...] = ()
    archived: bool = False
    after_oom: AfterOom | None = None
    notify: bool | None = None
    """Whether to notify the user of the job's end, or None to use `spec.notify`."""
    added_as: JobSpec | None = None
    """The spec with which the job's key was first used, or None if the job has not been edited since."""

    @property
    def request(self) -> Request:
        """The request of the spec, with added conditions if the job ran out of GPU memory."""
        return self.spec.request if self.after_oom is None else self.after_oom.applied_to(self.spec.request)

    @property
    def name(self) -> str:
        return self.spec.name or f"job_{self.id}"

    @property
    def submitted(self) -> bool:
        """Whether the job is waiting in a cluster's own queue."""
        return isinstance(self.state, Starting) and self.state.placed.engine is not EngineName.LOCAL

    @property
    def active(self) -> Placed | None:
        """The active attempt, or None if there is none."""
        return self.state.placed if isinstance(self.state, Active) else None


def share_equal(jobs: Iterable[Job]) -> Iterator[Job]:
    """Yield decoded jobs in which equal values are shared objects. Copies would take most of a long queue's memory."""
    shared: dict[object, object] = {}
    added, state = 0.0, None
    for job in jobs:
        spec = job.spec
        force_setattr(spec, "cwd", sys.intern(spec.cwd))
        force_setattr(spec, "environment", sys.intern(spec.environment))
        force_setattr(spec, "group", sys.intern(spec.group))
        if job.added == added:
            force_setattr(job, "added", added)
        if job.state == state:
            force_setattr(job, "state", state)
        added, state = job.added, job.state
        for attempt in job.attempts:
            for field in ("environment", "gpus", "slots", "end"):
                value = getattr(attempt, field)
                force_setattr(attempt, field, shared.setdefault(value, value))
        yield job


# Groups of states


WAITING = (StateName.QUEUED, StateName.HELD, StateName.BLOCKED, StateName.DELAYED)
ACTIVE = (StateName.STARTING, StateName.RUNNING, StateName.SUSPENDED, StateName.STOPPING)
FAILURES = (StateName.FAILED, StateName.TIMED_OUT, StateName.LOST, StateName.REFUSED)
"""States of jobs that failed while running or while being started. `rerun --all-failed` reruns jobs in these states."""
BAD_ENDS = (*FAILURES, StateName.SKIPPED)
ENDS = (StateName.SUCCEEDED, StateName.KILLED, *BAD_ENDS)
ALL = (*WAITING, *ACTIVE, *ENDS)
"""All states, in the order in which a job passes through them."""

WORDS = {state: state.replace("_", " ") for state in ALL}
"""State names for display."""

_PREDICATES = {state: f"is {WORDS[state]}" for state in ALL} | {
    StateName.BLOCKED: "is waiting for other jobs",
    StateName.STOPPING: "is stopping",
    StateName.SUCCEEDED: "has succeeded",
    StateName.FAILED: "has failed",
    StateName.TIMED_OUT: "has timed out",
    StateName.KILLED: "was killed",
    StateName.REFUSED: "could not be started",
    StateName.SKIPPED: "was skipped",
}


def by_word(counts: Mapping[StateName, int]) -> dict[str, int]:
    """Return the counts by the displayed name of each state, in the order of `ALL`."""
    return {WORDS[state]: counts[state] for state in ALL if counts.get(state)}


def predicate(state: StateName) -> str:
    """Return a state as the predicate of a sentence: `has succeeded`, `is running`."""
    return _PREDICATES[state]


def describe_end(end: End) -> str:
    """Describe how an attempt ended, for histories and for failures with no error in the log."""
    match end:
        case Failed(code=code):
            return f"exit code {code}" if end.signal is None else f"killed by signal {end.signal}"
        case TimedOut(limit=limit, silent=True):
            return f"no activity for {limit:g} s, stopped"
        case TimedOut(limit=limit):
            return f"timed out after {limit:g} s"
        case Lost(why=why) | Refused(why=why):
            return why
        case Skipped(because=because):
            return f"skipped: #{because} did not succeed"
    return end.name
