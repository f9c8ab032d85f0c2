"""Requests to the owner of a session, and its replies. Every client loads this module, so it imports little."""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.events import (
    Edit,
    JobCommand,
    Mode,
    PauseKind,
    Refusal,
    Rerun,
    RevokeKey,
    Settings,
    UserCommand,
)
from gputui.core.job import EngineName, Job, JobId, JobSpec, StateName, SurvivingProcess
from gputui.core.parameters import with_updated_params

if TYPE_CHECKING:
    from .event_loop import TurnContext


# Replies; `--json` prints them as they are


class CauseShown(Struct, frozen=True):
    """Why the scheduler is paused."""

    kind: PauseKind
    message: str
    jobs: tuple[JobId, ...] = ()
    signature: str | None = None
    since: float | None = None
    count: int = 0
    """Number of failed jobs. If there are very many, `jobs` names only the newest."""


class PausedShown(Struct, frozen=True):
    """A group that is paused after errors, and the job that probes whether the error is gone."""

    group: str | None
    """The paused group, or None if all jobs are paused."""
    message: str
    jobs: tuple[JobId, ...]
    count: int
    signature: str | None
    since: float
    common: dict[str, str]
    """Parameters that all failed jobs have in common and no succeeded job of the group has."""
    job: JobId | None
    """The job that is probing now or will probe next."""
    probing: bool
    at: float | None
    """Time when the probe starts or, if it is running, when it counts as working. None if neither happens
    automatically.
    """
    alive_after: float
    """Seconds of run time after which a probe counts as working."""


class SchedulerShown(Struct, frozen=True):
    """The state of the scheduler. `state` is its mode, and `status` is the resulting status, such as running, waiting,
    idle or done.
    """

    state: Mode
    status: str = ""
    waiting_for: str | None = None
    cause: CauseShown | None = None
    paused: tuple[PausedShown, ...] = ()

    @property
    def word(self) -> str:
        return self.status or self.state


class OwnerShown(Struct, frozen=True):
    pid: int
    kind: str
    since: float = 0.0
    version: str = ""
    terminal: str | None = None
    """The terminal of an app, or None for other owners."""
    silent_for: float | None = None
    """Seconds since the terminal last accepted output."""


class Layout(Struct, frozen=True):
    """How job directories are named: by a prefix and the job's number, or by a pattern."""

    prefix: str = "job_"
    job_dir: str = ""


class MainMetricShown(Struct, frozen=True):
    """The metric by which jobs are compared."""

    name: str
    direction: str
    chosen: bool


class MetricShown(Struct, frozen=True, gc=False):
    """The values of one metric in one attempt. None stands for NaN and infinity."""

    last: float | None
    best: float | None
    best_step: float | None = None
    low: float | None = None
    high: float | None = None
    count: int = 0


class CurvePoint(Struct, frozen=True, array_like=True, gc=False):
    step: float | None
    at: float
    value: float | None


class NeverShown(Struct, frozen=True):
    """A waiting job that no slot of the session can run."""

    job: JobId
    needs: str


class OutlookShown(Struct, frozen=True):
    """When jobs are expected to end, and which will never start."""

    at: float | None = None
    jobs: int = 0
    """Number of jobs that are expected to end by `at`."""
    unknown: tuple[JobId, ...] = ()
    """Running jobs whose end cannot be predicted, because they are silent, suspended or far later than expected."""
    never: tuple[NeverShown, ...] = ()


class SessionHead(Struct, frozen=True, kw_only=True):
    """Base class of replies about the whole session."""

    scheduler: SchedulerShown
    process: OwnerShown | None
    """The process that schedules the session. It is None if there is no such process and the client read the store
    itself.
    """
    counts: dict[StateName, int]
    engine: EngineName = EngineName.LOCAL
    eta: float | None = None
    """Time when all jobs are expected to have ended, or None if unknown."""
    outlook: OutlookShown = OutlookShown()
    trouble: str | None = None
    metric: MainMetricShown | None = None
    best: JobId | None = None
    """The job with the best value of `metric`."""


class SessionStatus(SessionHead, frozen=True, kw_only=True):
    active: list[JobId]
    waiting: int
    notices: list[str] = []
    settings: Settings = Settings()
    layout: Layout = Layout()
    cluster: str = ""
    """Name of the Slurm cluster; empty if unknown."""


class Followed(SessionStatus, frozen=True, kw_only=True):
    jobs: list[Job]
    has_work: bool
    """Whether a job of the session is running, or one of the followed jobs can start automatically."""


class RunShown(Struct, frozen=True, kw_only=True, gc=False):
    """Base class of replies about one attempt."""

    state: StateName
    exit_code: int | None = None
    signal: int | None = None
    gpus: tuple[str, ...] = ()
    started: float | None = None
    ended: float | None = None


class JobRow(RunShown, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One row of a job table."""

    id: JobId
    name: str
    group: str
    command: str
    priority: int
    why: str | None = None
    end: str | None = None
    """Why the job failed or was skipped."""
    silent_since: float | None = None
    """The time since when a running job has printed nothing. None unless the silence is unusually long."""
    progress: float | None = None
    """Progress of the whole job, from 0 to 1."""
    note: str = ""
    """A status message printed by the job."""
    eta: float | None = None
    results: dict[str, MetricShown] = {}


class ListedJob(JobRow, frozen=True, kw_only=True, omit_defaults=False, gc=False):
    key: str | None = None
    params: dict[str, str]
    cwd: str
    attempt: int
    pid: int | None = None
    """The pid of the command itself."""
    wrapper: int | None = None
    kill_at: float | None = None
    """Time when the grace period ends and the job is killed."""
    added: float
    out: str | None = None
    err: str | None = None
    leftovers: tuple[SurvivingProcess, ...] = ()


class Listed(SessionHead, frozen=True, kw_only=True):
    session: str
    jobs: list[ListedJob]


class ListedRows(SessionHead, frozen=True, kw_only=True):
    session: str
    jobs: list[JobRow]


class ShownAttempt(RunShown, frozen=True, kw_only=True, gc=False):
    number: int
    out: str | None = None
    err: str | None = None
    gpu_mean: float | None = None
    gpu_peak_memory: int | None = None
    gpu_seconds: float | None = None
    kwh: float | None = None
    """The energy of the attempt's GPUs, or None if they report no power."""
    kwh_estimated: bool = False
    signature: str | None = None
    message: str | None = None
    kind: str | None = None
    environment: str | None = None
    pid: None = None
    wrapper: int | None = None
    leftovers: tuple[SurvivingProcess, ...] = ()
    results: dict[str, MetricShown] = {}


class HistoryLine(Struct, frozen=True):
    time: float
    text: str


class ShownJob(ListedJob, frozen=True, kw_only=True, gc=False):
    spec: JobSpec
    archived: bool = False
    directory: str = ""
    environment: dict[str, str] | None = None
    attempts: list[ShownAttempt] = []
    history: list[HistoryLine] = []


class PickedJob(Struct, frozen=True):
    """The state of a job when it was picked."""

    id: JobId
    name: str
    state: StateName
    attempt: int
    priority: int


class CannotStart(Struct, frozen=True):
    """Unfinished jobs of which none can ever start, and why the first cannot."""

    jobs: list[JobId]
    reason: str


class JobsPaused(Struct, frozen=True):
    """The pause that keeps all of some jobs from starting."""

    message: str
    jobs: tuple[JobId, ...]
    """The failed jobs that caused the pause."""
    group: str | None
    """The paused group, or None if the scheduler is paused."""
    probe: JobId | None
    """The job that will run alone to find out whether the error is gone."""
    probe_at: float | None
    """Time when the probe starts, or None if only the user can resume."""


class PickedJobs(Struct, frozen=True):
    jobs: list[PickedJob]
    missing: list[str]
    """Arguments that matched no job."""
    cannot_start: CannotStart | None = None
    paused: JobsPaused | None = None


class SlotShown(Struct, frozen=True):
    id: int
    devices: tuple[str, ...]
    kind: str
    job: JobId | None
    state: str
    """The state of the slot: free, busy, blocked (its GPU cannot be used now) or draining."""


class SlotsShown(Struct, frozen=True):
    slots: list[SlotShown]
    sample: Any = None
    """A Sample as in `gpus/sample.py`, or None if nothing is sampled."""
    pids: dict[int, JobId] = {}
    leftovers: dict[int, JobId] = {}
    held: dict[str, JobId] = {}
    """Cluster GPUs that our jobs hold, as `node:index`."""
    partition: str | None = None


class AddedJob(Struct, frozen=True):
    """The job of one spec of a load."""

    id: JobId
    name: str
    key: str | None
    created: bool
    """Whether the load added the job. If not, it was there before with this key."""
    state: StateName | None = None
    """The state of the job after the load."""


class AddedJobs(Struct, frozen=True):
    jobs: list[AddedJob]
    cursor: str
    """Position in the log of events before the jobs were added, for `wait --next --since`."""


class RevokedKey(Struct, frozen=True):
    key: str
    revoked: bool
    job: JobId | None
    """The job with this key. If the key is revoked, the job was removed before it ran."""
    message: str | None
    """Why the key is not revoked, or None if it is."""


class RevokedKeys(Struct, frozen=True):
    keys: list[RevokedKey]


class Outcome(Struct, frozen=True):
    """The result of one command. `refused` is the error message if the command was refused, otherwise None."""

    job: JobId | None
    refused: str | None
    warning: str = ""
    """A warning if the command succeeded, but possibly not with the effect that the user expects."""


class EventKind(StrEnum):
    ADDED = "added"
    STARTED = "started"
    ENDED = "ended"
    PAUSED = "paused"
    PROBE = "probe"
    RESUMED = "resumed"
    SLOTS = "slots"
    ALERT = "alert"
    GAP = "gap"
    """Some events before this one are no longer known."""


class LoggedEvent(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that happened in the session. Fields that do not apply are left out."""

    cursor: str = ""
    event: EventKind
    time: float
    job: JobId | None = None
    last: JobId | None = None
    """With `added`: the last of the jobs that were added together. `job` is the first."""
    name: str | None = None
    attempt: int | None = None
    gpus: tuple[str, ...] | None = None
    state: StateName | None = None
    """With `ended`: how the attempt ended."""
    exit_code: int | None = None
    signal: int | None = None
    kind: str | None = None
    """The kind of an error or of a pause."""
    message: str | None = None
    final: bool | None = None
    """With `ended`: whether the job has ended, too. Otherwise it waits for another attempt."""
    group: str | None = None
    """The group that was paused or resumed; left out if all jobs were paused or resumed."""
    jobs: tuple[JobId, ...] | None = None
    """The jobs that caused a pause."""
    slots: tuple[tuple[str, ...], ...] | None = None
    """The devices of each slot."""


class EventPage(Struct, frozen=True):
    events: list[LoggedEvent]
    cursor: str
    """The cursor from which to continue."""
    owned: bool
    """Whether a scheduler runs, so that there may be more events soon."""


# Requests


T = TypeVar("T")
VERSION = 1
"""Version of the protocol and the store. An owner refuses clients of another version, even if they ask for a hand-over.
"""
LARGEST_FRAME = 256 << 20
HEADER = struct.Struct(">I")


def frame(body: bytes) -> bytes:
    return HEADER.pack(len(body)) + body


class OwnerRequest(msgspec.Struct, Generic[T], frozen=True, omit_defaults=True):
    """Base class of all requests. `T` is the type of the reply."""


def reply_type(request: OwnerRequest[T]) -> type[T]:
    """Return the type of the reply, which is the `T` of the request's class."""
    (reply,) = get_args(type(request).__orig_bases__[0])  # type: ignore[attr-defined]  # set for generic bases
    return cast("type[T]", reply)


class SentRequest(msgspec.Struct, frozen=True):
    """The envelope in which a request is sent."""

    v: int
    uuid: str
    """The id of the request. A request that is repeated with the same id gets the same reply and is not carried out
    again.
    """
    ask: OwnerRequest[Any]


class ReceivedReply(msgspec.Struct, frozen=True):
    ok: bool
    value: msgspec.Raw = msgspec.Raw(b"null")
    kind: str = ""
    """Kind of the error; empty if there is none."""
    message: str = ""
    hint: str | None = None


class Commands(OwnerRequest[list[Outcome]], frozen=True, tag="commands"):
    """Carry out or refuse each of these commands.

    If a command for a job is refused, the later commands for that job are refused too, because an edit may depend on an
    earlier rerun.
    """

    events: tuple[UserCommand, ...]
    environment: dict[str, str] | None = None

    def __call__(self, act: TurnContext) -> list[Outcome]:
        digest = act.keep_environment(self.environment) if self.environment is not None else None
        outcomes: list[Outcome] = []
        refused: dict[JobId | None, Outcome] = {}
        for event in self.events:
            job = event.job if isinstance(event, JobCommand) else None
            outcome = refused.get(job) or _carry_out(act, event, job, digest)
            if job is not None and outcome.refused is not None:
                refused[job] = outcome
            outcomes.append(outcome)
        return outcomes


def _carry_out(act: TurnContext, event: UserCommand, job: JobId | None, digest: str | None) -> Outcome:
    if isinstance(event, Rerun) and event.environment == "":
        # An empty digest stands for the caller's environment, whose digest a client with few imports cannot compute.
        event = replace(event, environment=digest)
    if isinstance(event, Edit) and event.job in act.scheduler.book:
        # Adapt the parameters to the edited command here, so that it happens for every client.
        event = replace(event, spec=with_updated_params(event.spec, act.scheduler.book[event.job].spec))
    if isinstance(event, RevokeKey):
        job = act.scheduler.book.keys.get(event.key)
    try:
        act.handle(event)
    except Refusal as refusal:
        return Outcome(job, str(refusal))
    if not isinstance(event, Edit):
        return Outcome(job, None)
    from gputui.views.waiting import never_starts  # not needed by clients

    return Outcome(job, None, never_starts(act.scheduler, (event.job,)))


class Listing(OwnerRequest[Listed], frozen=True, tag="listing"):
    """List these jobs or, if `jobs` is None, all jobs that are not removed."""

    jobs: list[JobId] | None = None
    states: list[StateName] | None = None
    rows: bool = False
    """Whether to send rows only. Clients request this with a RowListing."""
    read_logs: bool = False
    """Whether to read new results from the logs first, because a job may just have ended."""


class RowListing(OwnerRequest[ListedRows], frozen=True, tag="listing", omit_defaults=False):
    """The same request as a Listing, for a table that needs rows only."""

    jobs: list[JobId] | None = None
    states: list[StateName] | None = None
    rows: bool = True


class Show(OwnerRequest[ShownJob], frozen=True, tag="show"):
    job: JobId
    environment: bool = False


class PickJobs(OwnerRequest[PickedJobs], frozen=True, tag="pick"):
    """Resolve the job arguments of a command line."""

    ids: list[tuple[JobId, JobId]] = []
    names: list[str] = []
    groups: list[str] = []
    failed: bool = False
    """Whether to pick the jobs that caused the current pause. If no jobs caused it, all failed jobs are picked."""
    all_failed: bool = False
    succeeded: bool = False
    all: bool = False
    obstacle: bool = False
    """Whether to reply also what keeps the unfinished jobs from starting, if none of them can."""


class StatusQuestion(OwnerRequest[SessionStatus], frozen=True, tag="status"):
    pass


class Slots(OwnerRequest[SlotsShown], frozen=True, tag="slots"):
    pass


class Follow(OwnerRequest[Followed], frozen=True, tag="follow"):
    """Get these jobs in full, for a client that reports on their progress."""

    jobs: list[JobId]


class Curves(OwnerRequest[dict[JobId, dict[str, list[CurvePoint]]]], frozen=True, tag="curves"):
    """Get the curves of these jobs in the attempt with this number. If `attempt` is None, get those of the newest
    attempt of each job that printed results.
    """

    jobs: list[JobId]
    attempt: int | None = None
    metric: str | None = None
    """Name of a metric, or None for all metrics."""


NOW = "now"
"""The cursor that stands for the current end of the log of events."""


class Events(OwnerRequest[EventPage], frozen=True, tag="events"):
    """Get the events after a cursor, oldest first, at most `MOST_IN_PAGE`."""

    since: str | None = None
    """A cursor, `now` for the end of the log, or None for the oldest event that is kept."""
    wait: float = 0.0
    """Seconds to wait for an event if there is none, at most `LONGEST_WAIT`."""


class Leave(OwnerRequest[None], frozen=True, tag="leave"):
    """Ask a daemon that owns the session to exit. It refuses if there are unfinished jobs."""

    stop: bool = False
    """Whether to ask other owners too, because the user is stopping the whole session."""


class HandOver(OwnerRequest[Any], frozen=True, tag="hand_over"):
    """Ask the owner to pass on the locked descriptor and exit. An app or a run does so only if `force` is set."""

    force: bool = False


# Requests of a read-only screen; the replies are msgpack


class ScreenRequest(OwnerRequest[bytes], frozen=True):
    """Base class of the requests of a read-only screen."""


class WatchRequest(ScreenRequest, frozen=True, tag="watch"):
    """Get the next part of what has changed. See `control/watch.py`."""

    watcher: str
    """A random name for the screen. The owner sends everything to a screen with an unknown name."""
    number: int
    """Number of parts that the screen has received so far."""
    program: str
    """The screen's version of gputui."""


class WhyJobsWait(ScreenRequest, frozen=True, tag="why_jobs_wait"):
    jobs: tuple[JobId, ...]


class JobInFull(ScreenRequest, frozen=True, tag="job_in_full"):
    job: JobId


class CurvesToDraw(ScreenRequest, frozen=True, tag="curves_to_draw"):
    """Get the curves of the metrics of an attempt. If the attempt is given by its number, also get what it used over
    time, with the names in `gputui.gpus.usage.FIGURES`.
    """

    job: JobId
    attempt: int | None = None


class ActionsToShow(ScreenRequest, frozen=True, tag="actions_to_show"):
    """Get what users recently did to running jobs."""


class SpansToShow(ScreenRequest, frozen=True, tag="spans_to_show"):
    """Get the time spans in which something kept jobs from starting."""
