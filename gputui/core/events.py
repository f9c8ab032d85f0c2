"""What can happen to the scheduler, what it answers with, and whether it starts jobs."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from .job import (
    Crashed,
    CrashKind,
    End,
    Failed,
    Job,
    JobId,
    JobSpec,
    Left,
    Lost,
    Purpose,
    Refused,
    Skipped,
    StateName,
    TimedOut,
    Usage,
)
from .lanes import DeviceFacts, Lane, NodeSize

# ---- What can happen to the scheduler ----


class Refusal(Exception):
    """The user asked for something that cannot be done now; the message is the sentence they read."""


class IllegalTransition(Exception):
    """An engine reported something that cannot be: a defect of ours. The message tells the job's story."""


class Seen(Struct, frozen=True):
    """What the user saw of a job when asking; if it changed meanwhile, the request is refused."""

    attempt: int
    state: StateName


class JobCommand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what a user asks of one job."""

    job: JobId
    seen: Seen | None = None


class Hold(JobCommand, frozen=True, tag="hold"):
    pass


class Release(JobCommand, frozen=True, tag="release"):
    pass


class Kill(JobCommand, frozen=True, tag="kill"):
    now: bool = False
    """Without grace."""


class Suspend(JobCommand, frozen=True, tag="suspend"):
    pass


class Continue(JobCommand, frozen=True, tag="continue"):
    pass


class Requeue(JobCommand, frozen=True, tag="requeue"):
    pass


class Rerun(JobCommand, frozen=True, tag="rerun"):
    environment: str | None = None
    """Digest of the caller's environment; None keeps the stored one."""


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
    """Tell the user of its end, or do not."""

    wanted: bool = True


class Edit(JobCommand, frozen=True, tag="edit"):
    spec: JobSpec


class Remove(JobCommand, frozen=True, tag="remove"):
    pass


class AddJobs(Struct, frozen=True, tag="add"):
    specs: tuple[JobSpec, ...]


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
    """Start nothing more; paused as `drained` when the last running job has ended."""


class Resume(Struct, frozen=True, tag="resume"):
    pass


class TryFirst(Struct, frozen=True, tag="try_first"):
    """These were rerun: one of them is tried alone, and the others follow when it succeeds or outlives the crash."""

    jobs: tuple[JobId, ...]


class SetLanes(Struct, frozen=True, tag="lanes"):
    lanes: tuple[Lane, ...]
    these: bool = False
    """The lanes' ids say which of several equal ones stay; otherwise the busy ones do."""


class Settings(Struct, frozen=True, tag="settings"):
    """The scheduler's own settings; given as an event they replace the ones before."""

    pause_after: int = 3
    """Like crashes in a row that pause the scheduler; 0: never."""
    grace: float = 30.0
    """Seconds between SIGTERM and SIGKILL."""
    cpu_jobs: int = 1
    """How many jobs that ask for no GPU may run at once."""
    patience: float = 300.0
    """Seconds after which free lanes are kept for the job at the head of the queue."""
    at_most: int | None = None
    """So many devices at once, however many there are."""
    keep_free: int = 0
    """So many devices are left to others."""
    ignore_strangers: bool = False
    ignored: tuple[str, ...] = ()
    """Users, programs or pids that never count as strangers."""
    gpu_file: str | None = None
    """The lanes follow this file."""
    partition: str | None = None
    """This and what follows is for a cluster, and its own default where nothing is said."""
    account: str | None = None
    qos: str | None = None
    time: float | None = None
    """Seconds: the limit of a job that says no timeout of its own."""
    constraint: str | None = None
    sbatch_opt: tuple[str, ...] = ()
    """Further options of sbatch, as they are."""
    metric: str = ""
    """What jobs are compared by, as the user chose it: `val_acc max`; empty: what their settings or names tell."""
    probe: float | None = 600.0
    """Seconds after which one job is tried alone when jobs have crashed; None: never by itself."""


UserCommand = (
    Hold | Release | Kill | Suspend | Continue | Requeue | Rerun | SetPriority | Move | Edit | Notify | Remove
    | AddJobs | Pause | Drain | Resume | TryFirst | SetLanes | Settings
)  # fmt: skip


class Exited(Struct, frozen=True, tag="exited"):
    """The wrapper saw the command end and wrote its code; 129–192 is signal code−128."""

    code: int


class Vanished(Struct, frozen=True, tag="vanished"):
    """It ended while nobody could see how."""

    why: str


class NodeFailed(Struct, frozen=True, tag="node_failed"):
    """Its machine failed, and somebody saw that it ended with it: nothing of it can run there any more."""

    why: str


class NeverRan(Struct, frozen=True, tag="never_ran"):
    """The attempt was revoked, or its wrapper ended before the claim; it may be issued anew at once."""


class NotStarted(Struct, frozen=True, tag="not_started"):
    """The command cannot be started, for a reason of its own: too long, folder gone."""

    why: str


class NoRoom(Struct, frozen=True, tag="no_room"):
    """The machine could not start it now (no processes, no disk): not the job's fault, tried again later."""

    why: str


Outcome = Exited | Vanished | NodeFailed | NeverRan | NotStarted | NoRoom


class EngineReport(Struct, frozen=True, kw_only=True):
    """Base of what an engine says of one attempt. A report on an attempt that is over is ignored."""

    job: JobId
    attempt: int


class Submitted(EngineReport, frozen=True):
    """It waits in a cluster's own queue, has not begun, and can be taken back."""

    why: str
    """What it waits for there, in words."""
    slurm_job: int | None = None


class Remark(EngineReport, frozen=True):
    """What is odd about an attempt that has begun, as far as its engine knows; empty: nothing any more."""

    text: str


class Spawned(EngineReport, frozen=True):
    pid: int | None
    """None: it runs where this machine's pids mean nothing."""
    started: float | None = None
    """When it really began; None: when it was placed."""
    gpus: tuple[str, ...] | None = None
    """Where it was put; None: where it was placed."""
    slurm_job: int | None = None
    adopted: bool = False
    """It was started by an earlier owner and found alive."""
    asked: Purpose | None = None
    """What that owner had ordered without being able to make it durable."""


class AttemptEnded(EngineReport, frozen=True):
    outcome: Outcome
    at: float
    signature: str | None = None
    message: str | None = None
    kind: CrashKind | None = None
    usage: Usage | None = None
    left: tuple[Left, ...] = ()
    """Processes of it that could not be ended."""
    started: float | None = None
    """As of `Spawned`, where its end is the first that is heard of it."""
    gpus: tuple[str, ...] | None = None
    slurm_job: int | None = None
    asked: Purpose | None = None
    """What an earlier owner had ordered without being able to make it durable."""
    by_itself: bool = False
    """The command had ended before it was sent any signal of ours."""


class EngineTrouble(Struct, frozen=True):
    """The engine can start nothing now; its attempts go on."""

    why: str
    """In words; empty: it can again."""


class NodesSeen(Struct, frozen=True):
    """What the cluster is made of."""

    largest: NodeSize | None


class Silence(EngineReport, frozen=True):
    """An attempt has shown no sign of life for a while; seen by whoever watches logs and devices."""

    since: float | None
    """None: it does something again."""
    may_end: bool = False
    """What is to be kept of it, a stack of its program, is kept or cannot be had."""


class DevicesSeen(Struct, frozen=True):
    """A new sample of the devices, by the words that lanes use for them."""

    devices: dict[str, DeviceFacts]


class Tick(Struct, frozen=True):
    """The moment `next_wakeup` named has come."""


class ClockStepped(Struct, frozen=True):
    """The wall clock was set; the moments before and after are `by` seconds further apart than they were."""

    by: float


Event = (
    UserCommand | Submitted | Remark | Spawned | AttemptEnded | Silence | EngineTrouble | NodesSeen | DevicesSeen
    | ClockStepped | Tick
)  # fmt: skip


# ---- What the world must do about an event ----


class Start(Struct, frozen=True):
    """Run the attempt that `job.active` describes."""

    job: Job


class Terminate(Struct, frozen=True):
    """SIGTERM and SIGCONT to the attempt's whole tree."""

    job: JobId
    attempt: int


class KillTree(Struct, frozen=True):
    """SIGKILL to the attempt's whole tree, its wrapper last."""

    job: JobId
    attempt: int


class Withdraw(Struct, frozen=True):
    """Take the attempt back if it has not begun; one that has goes on."""

    job: JobId
    attempt: int


class SuspendTree(Struct, frozen=True):
    job: JobId
    attempt: int


class ContinueTree(Struct, frozen=True):
    job: JobId
    attempt: int


Instruction = Start | Terminate | KillTree | Withdraw | SuspendTree | ContinueTree


# ---- Whether the scheduler starts jobs, and if not, why ----


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


# ---- An end in words, for stories and for failures whose log says nothing ----


def words(end: End) -> str:
    match end:
        case Failed(code=code):
            return f"exit code {code}"
        case Crashed(signal=signal):
            return f"killed by signal {signal}"
        case TimedOut(limit=limit, silent=True):
            return f"did nothing for {limit:g} s and was ended"
        case TimedOut(limit=limit):
            return f"timed out after {limit:g} s"
        case Lost(why=why) | Refused(why=why):
            return why
        case Skipped(because=because):
            return f"skipped: #{because} did not succeed"
    return end.name
