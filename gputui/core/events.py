"""Events that the scheduler handles, instructions that it returns, and its mode."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from .job import CrashKind, Job, JobId, JobSpec, Purpose, StateName, SurvivingProcess, Usage
from .slots import DeviceFacts, NodeSize, Slot

# Users' commands


class Refusal(Exception):
    """Raised when a command cannot be carried out now. The message is shown to the user.

    `hint`: a gputui command that may help, for JSON.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class IllegalTransition(Exception):
    """Raised when an engine reports something impossible because of a bug. The message contains the job's history."""


class Seen(Struct, frozen=True):
    """The state of a job as the user saw it. If the job has changed since then, the command is refused."""

    attempt: int
    state: StateName


class JobCommand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base class of the commands on one job."""

    job: JobId
    seen: Seen | None = None


class Hold(JobCommand, frozen=True, tag="hold"):
    pass


class Release(JobCommand, frozen=True, tag="release"):
    pass


class Kill(JobCommand, frozen=True, tag="kill"):
    now: bool = False
    """Whether to kill the job without a grace period."""


class Suspend(JobCommand, frozen=True, tag="suspend"):
    pass


class Continue(JobCommand, frozen=True, tag="continue"):
    pass


class Requeue(JobCommand, frozen=True, tag="requeue"):
    pass


class Rerun(JobCommand, frozen=True, tag="rerun"):
    environment: str | None = None
    """Digest of the caller's environment, or None to keep the stored environment."""


class SetPriority(JobCommand, frozen=True, tag="priority"):
    priority: int


class MoveTarget(StrEnum):
    UP = "up"
    DOWN = "down"
    TOP = "top"
    BOTTOM = "bottom"
    BEFORE = "before"


class Move(JobCommand, frozen=True, tag="move"):
    where: MoveTarget
    before: JobId | None = None


class Notify(JobCommand, frozen=True, tag="notify"):
    """A command to turn the notification about the job's end on or off."""

    wanted: bool = True


class Edit(JobCommand, frozen=True, tag="edit"):
    spec: JobSpec


class Remove(JobCommand, frozen=True, tag="remove"):
    pass


class AddJobs(Struct, frozen=True, tag="add"):
    specs: tuple[JobSpec, ...]


class RevokeKey(Struct, frozen=True, tag="revoke_key"):
    """A command to prevent any job with this key from running. It is refused if a job with this key has started."""

    key: str


class PauseKind(StrEnum):
    """Why the scheduler is paused."""

    USER = "user"
    CRASHES = "crashes"
    DRAINED = "drained"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


class Pause(Struct, frozen=True, tag="pause"):
    kind: PauseKind = PauseKind.USER


class Drain(Struct, frozen=True, tag="drain"):
    """A command to start no more jobs, and to pause once the last running job has ended."""


class Resume(Struct, frozen=True, tag="resume"):
    pass


class TryFirst(Struct, frozen=True, tag="try_first"):
    """A command to run one of these rerun jobs alone first. The other jobs start once that job works."""

    jobs: tuple[JobId, ...]


class SetSlots(Struct, frozen=True, tag="slots"):
    slots: tuple[Slot, ...]
    these: bool = False
    """Whether the ids in `slots` decide which of several identical slots to keep. If not, busy slots are kept first."""


class Settings(Struct, frozen=True, tag="settings"):
    """Settings of the scheduler. As an event, they replace the previous settings."""

    pause_after: int = 3
    """Number of identical errors in a row after which jobs are paused, or 0 to never pause them."""
    grace: float = 30.0
    """Seconds between SIGTERM and SIGKILL."""
    cpu_jobs: int = 1
    """Maximum number of jobs without a GPU that run at the same time."""
    patience: float = 300.0
    """Seconds that the first job of the queue waits before free slots are reserved for it."""
    max_gpus: int | None = None
    """Maximum number of devices to use at the same time, or None for no limit."""
    keep_free: int = 0
    """Number of devices to leave to others."""
    budget: float | None = None
    """GPU-seconds after which no further job of the session starts, or None for no limit."""
    most_waiting: int | None = None
    """Maximum number of waiting jobs. Adding more is refused. None means no limit."""
    share_gpus: bool = False
    ignored: tuple[str, ...] = ()
    """Users, programs or pids whose processes do not block a GPU."""
    gpu_file: str | None = None
    """Path of a file that lists the GPUs to use, or None."""
    partition: str | None = None
    """Slurm partition.

    The settings from this one to `sbatch_opt` apply only to a cluster. None means the cluster's default.
    """
    account: str | None = None
    qos: str | None = None
    time: float | None = None
    """Time limit, in seconds, of jobs without a timeout."""
    constraint: str | None = None
    sbatch_opt: tuple[str, ...] = ()
    """Additional options for `sbatch`."""
    metric: str = ""
    """The metric to compare jobs by, such as `val_acc max`. If it is empty, use the jobs' own settings or guess."""
    probe: float | None = 600.0
    """Seconds from repeated errors until one job is run alone as a probe, or None to run a probe only on request."""


UserCommand = (
    Hold | Release | Kill | Suspend | Continue | Requeue | Rerun | SetPriority | Move | Edit | Notify | Remove
    | AddJobs | RevokeKey | Pause | Drain | Resume | TryFirst | SetSlots | Settings
)  # fmt: skip


# Engines' reports


class Exited(Struct, frozen=True, tag="exited"):
    """The wrapper recorded the exit code of the command. Codes from 129 to 192 mean the signal `code - 128`."""

    code: int


class Vanished(Struct, frozen=True, tag="vanished"):
    """The attempt ended without a record of how it ended."""

    why: str


class NodeFailed(Struct, frozen=True, tag="node_failed"):
    """The attempt's node failed, and the cluster confirmed that the attempt ended as well."""

    why: str


class NeverRan(Struct, frozen=True, tag="never_ran"):
    """The attempt was revoked, or its wrapper ended before the claim. A new attempt may start at once."""


class NotStarted(Struct, frozen=True, tag="not_started"):
    """The command cannot be started because of a problem of the job itself, for example a missing directory."""

    why: str


class NoRoom(Struct, frozen=True, tag="no_room"):
    """The machine has too few resources (processes, disk space) now. The start is retried later."""

    why: str


Outcome = Exited | Vanished | NodeFailed | NeverRan | NotStarted | NoRoom


class EngineReport(Struct, frozen=True, kw_only=True):
    """Base class of an engine's reports on one attempt. Reports on an attempt that has ended are ignored."""

    job: JobId
    attempt: int


class Submitted(EngineReport, frozen=True):
    """The attempt is waiting in a cluster's own queue and can be withdrawn."""

    why: str
    """The cluster's reason for the wait."""
    slurm_job: int | None = None


class Remark(EngineReport, frozen=True):
    """A note about something unusual in a running attempt. An empty text withdraws the earlier note."""

    text: str


class StartReport(EngineReport, frozen=True, kw_only=True):
    """Base class of the first reports on an attempt that has started."""

    started: float | None = None
    """When the attempt started, or None if it started when it was placed."""
    gpus: tuple[str, ...] | None = None
    """The devices that the attempt was given, or None if these are the devices of its slots."""
    slurm_job: int | None = None
    requested: Purpose | None = None
    """Why an earlier scheduler was stopping the attempt, if the store does not contain the reason."""


class Spawned(StartReport, frozen=True, kw_only=True):
    pid: int | None
    """The wrapper's pid, or None if the attempt runs on another machine."""
    adopted: bool = False
    """Whether the attempt was started by an earlier scheduler and is still running."""


class AttemptEnded(StartReport, frozen=True, kw_only=True):
    outcome: Outcome
    at: float
    signature: str | None = None
    message: str | None = None
    kind: CrashKind | None = None
    usage: Usage | None = None
    left: tuple[SurvivingProcess, ...] = ()
    """Processes of the attempt that could not be killed."""
    by_itself: bool = False
    """Whether the command ended before a signal was sent to it."""


class EngineTrouble(Struct, frozen=True):
    """The engine cannot start anything now. Running attempts continue."""

    why: str
    """The reason, or an empty string if the engine works again."""


class NodesSeen(Struct, frozen=True):
    """A report that the nodes of the cluster were queried."""

    largest: NodeSize | None


class Silence(EngineReport, frozen=True):
    """A report that an attempt's output and devices have shown no activity for a while."""

    since: float | None
    """When the activity stopped, or None if the attempt is active again."""
    may_end: bool = False
    """Whether the attempt may be stopped now, because its stack trace was saved or cannot be saved."""


class DevicesSeen(Struct, frozen=True):
    """The state of the devices in a new sample. The keys are the device names used in slots."""

    devices: dict[str, DeviceFacts]


class Tick(Struct, frozen=True):
    """The time returned by `next_wakeup` has come."""


class ClockStepped(Struct, frozen=True):
    """The wall clock was set forward by `by` seconds (backward if `by` is negative)."""

    by: float


Event = (
    UserCommand | Submitted | Remark | Spawned | AttemptEnded | Silence | EngineTrouble | NodesSeen | DevicesSeen
    | ClockStepped | Tick
)  # fmt: skip


# Instructions for the engine


class Start(Struct, frozen=True):
    """An instruction to run the attempt in `job.active`."""

    job: Job


class AttemptInstruction(Struct, frozen=True):
    """Base class of the instructions for an attempt that is running or submitted."""

    job: JobId
    attempt: int


class Terminate(AttemptInstruction, frozen=True):
    """Send SIGTERM and SIGCONT to all processes of the attempt."""


class KillTree(AttemptInstruction, frozen=True):
    """Send SIGKILL to all processes of the attempt, its wrapper last."""


class Withdraw(AttemptInstruction, frozen=True):
    """Withdraw the attempt from the cluster's queue, unless it has started."""


class SuspendTree(AttemptInstruction, frozen=True):
    pass


class ContinueTree(AttemptInstruction, frozen=True):
    pass


Instruction = Start | Terminate | KillTree | Withdraw | SuspendTree | ContinueTree


# The mode of the scheduler


class Mode(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"
    PAUSED = "paused"


class Cause(Struct, frozen=True):
    """Why the scheduler is paused."""

    kind: PauseKind
    message: str
    since: float
    jobs: tuple[JobId, ...] = ()
    signature: str | None = None
    left: bool = False
    """Whether the user has left the session on purpose since the pause, so that nothing continues by itself."""
    more: int = 0
    """Number of failed jobs that are not listed in `jobs`."""

    @property
    def count(self) -> int:
        """Number of failed jobs, including those that are not listed."""
        return len(self.jobs) + self.more

    @property
    def on_purpose(self) -> bool:
        """Whether the user left the session on purpose, so that nothing continues by itself."""
        return self.left or self.kind in LEFT_ON_PURPOSE


LEFT_ON_PURPOSE = (PauseKind.DRAINED, PauseKind.STOPPED, PauseKind.INTERRUPTED)
SENTENCES = {
    PauseKind.USER: "paused by you",
    PauseKind.DRAINED: "drained: running jobs have ended, no new ones started",
    PauseKind.STOPPED: "stopped by you: no new jobs start",
    PauseKind.INTERRUPTED: "interrupted: no new jobs start",
}


def cause_of(kind: PauseKind, now: float) -> Cause:
    """Return the cause of a pause of this kind. Causes of pauses after errors are made by `breaker.error_cause`."""
    return Cause(kind, SENTENCES[kind], now)
