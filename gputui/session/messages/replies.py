"""What an owner answers, in the shapes that `--json` promises: stable, additions only.

A field with a default may be missing in what an owner of an older version answers.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gputui.core.events import PauseKind, Settings
from gputui.core.job import EngineName, Job, JobId, JobSpec, StateName
from gputui.core.mode import Mode


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


class SessionHead(Struct, frozen=True, kw_only=True):
    """Base of what tells of a session as a whole."""

    scheduler: SchedulerShown
    owner: OwnerShown | None
    """None: nobody owns it, and whoever asks looks into its store."""
    counts: dict[StateName, int]
    eta: float | None = None
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
    engine: EngineName = EngineName.LOCAL
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
    """It runs and does nothing since then: it is thought to hang."""
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
    """free, busy or draining."""


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


class Departure(Struct, frozen=True):
    leaving: bool
