"""Messages between an owner and whoever talks to it: requests and replies."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.events import Edit, JobCommand, Mode, PauseKind, Refusal, Rerun, Settings, UserCommand
from gputui.core.job import EngineName, Job, JobId, JobSpec, StateName
from gputui.core.parameters import following

if TYPE_CHECKING:
    from .event_loop import Act


# ---- What an owner answers, in the shapes that `--json` promises ----


class CauseShown(Struct, frozen=True):
    """Why the scheduler is paused."""

    kind: PauseKind
    message: str
    jobs: tuple[JobId, ...] = ()
    signature: str | None = None
    since: float | None = None
    count: int = 0
    """How many jobs crashed; of very many, only the newest are named."""


class PausedShown(Struct, frozen=True):
    """Where crashes keep jobs from starting, and which job is tried next."""

    group: str | None
    """None: all jobs."""
    message: str
    jobs: tuple[JobId, ...]
    count: int
    signature: str | None
    since: float
    common: dict[str, str]
    """Parameters that all crashed jobs share, and no job of their group has succeeded with."""
    job: JobId | None
    """The one that is tried, or will be."""
    trying: bool
    at: float | None
    """When it is tried; while it is, when it will have outlived the crashes. None: not by itself."""
    alive_after: float
    """Seconds after which it will have."""


class SchedulerShown(Struct, frozen=True):
    """`state` is what the scheduler may do, `standing` what comes of it: running, waiting, idle, done …"""

    state: Mode
    standing: str = ""
    awaits: str | None = None
    cause: CauseShown | None = None
    paused: tuple[PausedShown, ...] = ()

    @property
    def word(self) -> str:
        return self.standing or self.state


class OwnerShown(Struct, frozen=True):
    pid: int
    kind: str
    since: float = 0.0
    version: str = ""
    terminal: str | None = None
    """Of an app."""
    silent_for: float | None = None
    """Seconds in which that terminal has taken nothing."""


class LayoutShown(Struct, frozen=True):
    """How the folders of jobs are called."""

    prefix: str = "job_"
    job_dir: str = ""


class MainMetricShown(Struct, frozen=True):
    """What jobs are compared by."""

    name: str
    direction: str
    chosen: bool


class MetricShown(Struct, frozen=True, gc=False):
    """What a metric of an attempt has come to; None: it is no number."""

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
    """A waiting job that no lane of the session can ever run."""

    job: JobId
    needs: str


class OutlookShown(Struct, frozen=True):
    """When jobs will have ended, as far as it can be told."""

    at: float | None = None
    jobs: int = 0
    """Of so many."""
    unknown: tuple[JobId, ...] = ()
    """They run, and are silent, suspended or far later than expected."""
    never: tuple[NeverShown, ...] = ()


class SessionHead(Struct, frozen=True, kw_only=True):
    """Base of what tells of a session as a whole."""

    scheduler: SchedulerShown
    owner: OwnerShown | None
    """None: nobody owns it, and whoever asks looks into its store."""
    counts: dict[StateName, int]
    engine: EngineName = EngineName.LOCAL
    eta: float | None = None
    """When all jobs will have ended; None: of some it cannot be told."""
    outlook: OutlookShown = OutlookShown()
    trouble: str | None = None
    metric: MainMetricShown | None = None
    best: JobId | None = None
    """The job that is best by it."""


class SessionStatus(SessionHead, frozen=True, kw_only=True):
    active: list[JobId]
    waiting: int
    notices: list[str] = []
    settings: Settings = Settings()
    layout: LayoutShown = LayoutShown()
    cluster: str = ""
    """Its name, where the session's jobs run on one and it has told."""


class Followed(SessionStatus, frozen=True, kw_only=True):
    jobs: list[Job]
    goes_on: bool
    """Something runs, or one of them can start by itself."""


class RunShown(Struct, frozen=True, kw_only=True, gc=False):
    """Base of what tells how an attempt went or goes."""

    state: StateName
    exit_code: int | None = None
    signal: int | None = None
    gpus: tuple[str, ...] = ()
    started: float | None = None
    ended: float | None = None


class JobRow(RunShown, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a table shows of a job; there may be very many of them."""

    id: JobId
    name: str
    group: str
    command: str
    priority: int
    why: str | None = None
    end: str | None = None
    """How it ended, where that is worth a word."""
    silent_since: float | None = None
    """It runs and has printed nothing since then, which is long for it or its group."""
    progress: float | None = None
    """Of the whole job, 0 to 1."""
    note: str = ""
    """What the job itself wants to be said of it."""
    eta: float | None = None
    results: dict[str, MetricShown] = {}


class LeftShown(Struct, frozen=True):
    """A process that could not be ended."""

    pid: int
    started: int
    words: str


class ListedJob(JobRow, frozen=True, kw_only=True, omit_defaults=False, gc=False):
    params: dict[str, str]
    cwd: str
    attempt: int
    pid: int | None = None
    """The command's own, by which it can be signalled."""
    wrapper: int | None = None
    kill_at: float | None = None
    """When its grace is over."""
    added: float
    out: str | None = None
    err: str | None = None
    left: list[LeftShown] = []


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
    signature: str | None = None
    message: str | None = None
    kind: str | None = None
    environment: str | None = None
    pid: None = None
    wrapper: int | None = None
    left: list[LeftShown] = []
    results: dict[str, MetricShown] = {}


class StoryLine(Struct, frozen=True):
    time: float
    text: str


class ShownJob(ListedJob, frozen=True, kw_only=True, gc=False):
    spec: JobSpec
    archived: bool = False
    folder: str = ""
    environment: dict[str, str] | None = None
    attempts: list[ShownAttempt] = []
    story: list[StoryLine] = []


class PickedJob(Struct, frozen=True):
    """What was seen of a job when it was asked for."""

    id: JobId
    name: str
    state: StateName
    attempt: int
    priority: int


class PickedJobs(Struct, frozen=True):
    jobs: list[PickedJob]
    missing: list[str]
    """Words that mean no job."""


class LaneShown(Struct, frozen=True):
    id: int
    devices: tuple[str, ...]
    kind: str
    job: JobId | None
    state: str
    """free, busy, blocked (somebody else is on its GPU) or draining."""


class LanesShown(Struct, frozen=True):
    lanes: list[LaneShown]
    sample: Any = None
    """A Sample of `gpus/sample.py` as it travels; None: nobody samples."""
    pids: dict[int, JobId] = {}
    leftovers: dict[int, JobId] = {}
    held: dict[str, JobId] = {}
    """The GPUs of a cluster that jobs of ours have, as `node:index`."""
    partition: str | None = None


class Outcome(Struct, frozen=True):
    """What became of one command; `refused` is the sentence why not."""

    job: JobId | None
    refused: str | None
    warning: str = ""
    """It was carried out, and the user should know this."""


class Departure(Struct, frozen=True):
    leaving: bool


# ---- What can be asked of an owner, and of which kind the answer is ----


T = TypeVar("T")
VERSION = 1
LARGEST_FRAME = 256 << 20
HEADER = struct.Struct(">I")
TOO_OLD = "too_old"
"""The kind of a refusal: whoever asks could not open the session's store."""


def framed(body: bytes) -> bytes:
    return HEADER.pack(len(body)) + body


class OwnerRequest(msgspec.Struct, Generic[T], frozen=True, omit_defaults=True):
    """Base of all of them; `T` is what an owner answers."""


def reply_type(request: OwnerRequest[T]) -> type[T]:
    """What stands in the brackets after its base."""
    (kind,) = get_args(type(request).__orig_bases__[0])  # type: ignore[attr-defined]  # whatever has a generic base has
    answer: type[T] = kind
    return answer


class SentRequest(msgspec.Struct, frozen=True):
    """One as it travels."""

    v: int
    uuid: str
    """Repeated with the same one, it is answered again and not carried out again."""
    ask: OwnerRequest[Any]


class ReceivedReply(msgspec.Struct, frozen=True):
    ok: bool
    value: msgspec.Raw = msgspec.Raw(b"null")
    """Of the request's own kind."""
    kind: str = ""
    """Of a refusal."""
    message: str = ""


class Commands(OwnerRequest[list[Outcome]], frozen=True, tag="commands"):
    """Any number of commands, each carried out or refused on its own.

    When one about a job is refused, so are the later ones about that job: an edit that was meant for a rerun.
    """

    events: tuple[UserCommand, ...]
    environment: dict[str, str] | None = None

    def __call__(self, act: Act) -> list[Outcome]:
        digest = act.keep_environment(self.environment) if self.environment is not None else None
        outcomes: list[Outcome] = []
        refused: dict[JobId, Outcome] = {}
        for event in self.events:
            job = event.job if isinstance(event, JobCommand) else None
            known = refused.get(job) if job is not None else None
            outcome = known or self._one(act, _following(act, _with_environment(event, digest)), job)
            if job is not None and outcome.refused is not None:
                refused[job] = outcome
            outcomes.append(outcome)
        return outcomes

    def _one(self, act: Act, event: UserCommand, job: JobId | None) -> Outcome:
        try:
            act.handle(event)
        except Refusal as refusal:
            return Outcome(job, str(refusal))
        return Outcome(job, None, _edit_warning(act, event) if isinstance(event, Edit) else "")


def _edit_warning(act: Act, event: Edit) -> str:
    from gputui.views.waiting import never_starts  # only an owner comes here, and clients load this module too

    return never_starts(act.scheduler, (event.job,))


def _with_environment(event: UserCommand, digest: str | None) -> UserCommand:
    """A rerun in the caller's environment says so with an empty digest: a light client cannot make one."""
    if isinstance(event, Rerun) and event.environment == "":
        return replace(event, environment=digest)
    return event


def _following(act: Act, event: UserCommand) -> UserCommand:
    """What is shown of an edited job follows its command, whichever client wrote it."""
    if not isinstance(event, Edit) or event.job not in act.scheduler.book:
        return event
    return replace(event, spec=following(event.spec, act.scheduler.book[event.job].spec))


class Listing(OwnerRequest[Listed], frozen=True, tag="listing"):
    """`ls --json`: all jobs that were not removed, or these."""

    jobs: list[JobId] | None = None
    states: list[StateName] | None = None
    rows: bool = False
    """Only what a table shows: a RowListing."""


class RowListing(OwnerRequest[ListedRows], frozen=True, tag="listing", omit_defaults=False):
    """The same for a table, as clients send it."""

    jobs: list[JobId] | None = None
    states: list[StateName] | None = None
    rows: bool = True


class Show(OwnerRequest[ShownJob], frozen=True, tag="show"):
    job: JobId
    environment: bool = False


class PickJobs(OwnerRequest[PickedJobs], frozen=True, tag="pick"):
    """Which jobs a user's words mean."""

    ids: list[tuple[JobId, JobId]] = []
    names: list[str] = []
    failed: bool = False
    """Those that the current pause names; when crashes have not paused it, all that failed."""
    all_failed: bool = False
    succeeded: bool = False
    all: bool = False


class StatusQuestion(OwnerRequest[SessionStatus], frozen=True, tag="status"):
    pass


class Lanes(OwnerRequest[LanesShown], frozen=True, tag="lanes"):
    pass


class Follow(OwnerRequest[Followed], frozen=True, tag="follow"):
    """These jobs whole, for a client that reports on them."""

    jobs: list[JobId]


class Curves(OwnerRequest[dict[JobId, dict[str, list[CurvePoint]]]], frozen=True, tag="curves"):
    """How the metrics of these jobs went; of the attempt, or of the newest that printed any."""

    jobs: list[JobId]
    attempt: int | None = None
    metric: str | None = None
    """Only this one."""


class Leave(OwnerRequest[Departure | None], frozen=True, tag="leave"):
    """To an owning keeper: go, if there is nothing left to do."""

    stop: bool = False
    """To every owner: the user wants nothing of the session to run."""


class HandOver(OwnerRequest[Any], frozen=True, tag="hand_over"):
    """Pass the locked descriptor and go; an app or a run only does so when forced."""

    force: bool = False
    schema: int = 1
    """The newest store that the taker can open: 0.1.0, which did not say so, knew the first."""


# ---- What a screen that only looks asks of the owner ----


class LookRequest(OwnerRequest[bytes], frozen=True):
    """Base of all of them."""


class WatchRequest(LookRequest, frozen=True, tag="watch"):
    """What changed since it was asked last: a part of it, as `control/watch_parts.py` has them."""

    watcher: str
    """Made up by whoever looks; one that the owner does not know is sent everything."""
    number: int
    """How many parts it has got."""
    program: str
    """Its version."""


class WhyJobsWait(LookRequest, frozen=True, tag="why_jobs_wait"):
    jobs: tuple[JobId, ...]


class JobInFull(LookRequest, frozen=True, tag="job_in_full"):
    job: JobId


class CurvesToDraw(LookRequest, frozen=True, tag="curves_to_draw"):
    job: JobId
    attempt: int | None = None


class SpansToShow(LookRequest, frozen=True, tag="spans_to_show"):
    """What kept jobs from starting."""
