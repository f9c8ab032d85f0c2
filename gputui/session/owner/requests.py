"""Requests that bring an owner jobs and settings, also over a socket. Each is carried out within one turn.

Those that only look, and commands for single jobs, are lighter: `session/messages.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from gputui.core.cluster import check_lanes
from gputui.core.events import Mode, NodesSeen, PauseKind, Refusal, Resume, SetLanes
from gputui.core.job import EngineName, JobId, JobSpec
from gputui.core.lanes import Board, Lane, NodeSize, engine_of
from gputui.core.results import wanted_of
from gputui.session.errors import CommitFailed
from gputui.session.layouts import Layout, check_outfiles
from gputui.session.loading import NO_RESULTS, Again, ReloadPlan, Results, SourceKind, SourceRecord, plan
from gputui.session.messages import OwnerRequest
from gputui.views.waiting import never_starts

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler
    from gputui.session.event_loop import Act


CLUSTER_OPTIONS = ("partition", "account", "qos", "time", "constraint", "sbatch_opt")
CLEARED_BY_RUN = (PauseKind.DRAINED, PauseKind.STOPPED, PauseKind.INTERRUPTED, PauseKind.CRASHES)


class Loaded(msgspec.Struct, frozen=True):
    jobs: list[JobId]
    """All jobs that the load names, new or known."""
    new: int
    sentence: str
    """Empty where there is no origin to tell of: a source that is only remembered."""
    warning: str = ""
    """Some of them can never start."""


class Load(OwnerRequest[Loaded], frozen=True, tag="load"):
    """Jobs from a source; those with an identity that are there already are kept, updated or rerun. All or none."""

    specs: tuple[JobSpec, ...]
    environment: dict[str, str]
    origin: str
    again: Again = Again()
    sources: tuple[SourceRecord, ...] = ()
    """What is to be remembered of where they come from, or read from now on."""
    results: Results = NO_RESULTS

    def __call__(self, act: Act) -> Loaded:
        digest = act.keep_environment(self.environment)
        book = act.scheduler.book
        specs = (spec if spec.environment else replace(spec, environment=digest) for spec in self.specs)
        planned = plan(book, specs, self.again, self.results, act.now)
        check_outfiles(book, planned.new)
        first = book.next_id
        sentence = planned.sentence(self.origin) if self.origin else ""
        for event in planned.events():
            act.handle(event)
        for source in self.sources:
            _remember(act, replace(source, environment=source.environment or digest))
        new = range(first, book.next_id)
        jobs = [*planned.jobs, *new]
        return Loaded(jobs, len(new), sentence, never_starts(act.scheduler, jobs))


def _remember(act: Act, source: SourceRecord) -> None:
    """A file that is followed already is followed on; anything else begins anew."""
    before = act.sources.get(source.key)
    if before is not None and source.kind is SourceKind.FOLLOWED:
        source = replace(source, position=before.position, mark=before.mark)
    act.sources[source.key] = source


class Forget(OwnerRequest[list[str]], frozen=True, tag="forget"):
    """Sources that are no longer read or loaded; their jobs stay."""

    paths: tuple[str, ...]

    def __call__(self, act: Act) -> list[str]:
        forgotten_keys = [key for key, source in act.sources.items() if source.path in self.paths]
        return [act.sources.pop(key).path for key in forgotten_keys]


class ChooseMetric(OwnerRequest[str], frozen=True, tag="choose_metric"):
    """Compares jobs by this result from now on, `val_acc max`; empty: by what their settings or names tell."""

    metric: str

    def __call__(self, act: Act) -> str:
        """The name that is compared by; Refusal says what is wrong."""
        try:
            name = wanted_of(self.metric).name if self.metric else ""
        except ValueError as error:
            raise Refusal(str(error)) from None
        if name is None:
            raise Refusal(f"{self.metric!r} names no result; an expression belongs to one job: edit its settings")
        act.handle(replace(act.scheduler.settings, metric=self.metric.strip()))
        return name


class Sources(OwnerRequest[list[SourceRecord]], frozen=True, tag="sources"):
    """What the session remembers of where its jobs came from."""


class Reload(OwnerRequest[ReloadPlan], frozen=True, tag="reload"):
    """How these specs, read from the session's files, differ from what it has."""

    specs: tuple[JobSpec, ...]
    groups: frozenset[str]


class Begun(msgspec.Struct, frozen=True):
    lanes: tuple[Lane, ...]
    kept: bool
    """The session had lanes already and keeps them."""
    differ: bool
    """The user named other ones."""
    before: tuple[Lane, ...] = ()
    """Those it had, where they were replaced."""


class Begin(OwnerRequest[Begun], frozen=True, tag="begin"):
    """What a `run` or an app wants of the session it opens; None leaves a setting as it is."""

    lanes: tuple[Lane, ...] | None
    given: bool
    """The user named the lanes, they are not just the default."""
    change_lanes: bool
    cpu_jobs: int
    pause_after: int | None = None
    grace: float | None = None
    at_most: int | None = None
    keep_free: int | None = None
    ignore_strangers: bool | None = None
    ignored: tuple[str, ...] | None = None
    gpu_file: str | None = None
    probe: float | Literal["off"] | None = None
    layout: Layout | None = None
    """How the folders of jobs that have not begun are called."""
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: float | None = None
    constraint: str | None = None
    sbatch_opt: tuple[str, ...] | None = None
    largest: NodeSize | None = None
    """Of the cluster, as whoever opens the session has just seen it."""
    resume: bool = True
    keeps_crash_pause: bool = False
    """Going on after crashes is left to the user."""

    def __call__(self, act: Act) -> Begun:
        scheduler = act.scheduler
        wishes = {name: getattr(self, name) for name in scheduler.settings.__struct_fields__ if hasattr(self, name)}
        wanted = replace(scheduler.settings, **{name: value for name, value in wishes.items() if value is not None})
        if self.probe == "off":
            wanted = replace(wanted, probe=None)
        if self.lanes is not None and (self.change_lanes or not scheduler.board.lanes):
            check_lanes(scheduler, self.lanes)  # before anything is changed
        self._check_cluster(scheduler.board)
        if self.layout is not None:
            act.lay_out(self.layout)
        if wanted != scheduler.settings:
            act.handle(wanted)
        keeps_lanes, before = False, scheduler.board.lanes
        if self.lanes is not None:
            keeps_lanes = bool(before) and not self.change_lanes
            if not keeps_lanes:
                act.handle(SetLanes(self.lanes))
        if self.largest is not None:
            act.handle(NodesSeen(self.largest))
        lanes = scheduler.board.lanes
        differ = devices_of(self.lanes or ()) != devices_of(lanes)
        if self.resume and self._clears(scheduler):
            act.handle(Resume())
        return Begun(
            lanes, keeps_lanes, self.given and differ, before if devices_of(before) != devices_of(lanes) else ()
        )

    def _check_cluster(self, board: Board) -> None:
        """What is said for a cluster must have one."""
        lanes = board.lanes if self.lanes is None or (board.lanes and not self.change_lanes) else self.lanes
        named = [name for name in CLUSTER_OPTIONS if getattr(self, name) is not None]
        if named and engine_of(lanes) is not EngineName.SLURM:
            flag = f"--{named[0].replace('_', '-')}"
            raise Refusal(f"{flag} is for jobs in Slurm, and this session has none: give --gpus slurm:8 too")

    def _clears(self, scheduler: Scheduler) -> bool:
        cause = scheduler.cause
        if cause is None:
            crashed = bool(scheduler.breaker.cautious) and not self.keeps_crash_pause
            return scheduler.mode is Mode.DRAINING or crashed
        return cause.kind in CLEARED_BY_RUN and not (cause.kind is PauseKind.CRASHES and self.keeps_crash_pause)


class OpenedWithJobs(msgspec.Struct, frozen=True):
    begun: Begun
    loaded: list[Loaded]
    """Of each load, up to the one that was refused."""
    refused: str | None = None


class OpenSession(OwnerRequest[OpenedWithJobs], frozen=True, tag="open"):
    """A session as whoever opens it wants it, and its jobs, in one turn: none is added where the rest is refused."""

    begin: Begin
    loads: tuple[Load, ...] = ()

    def __call__(self, act: Act) -> OpenedWithJobs:
        begun, loaded = self.begin(act), []
        for load in self.loads:
            try:
                loaded.append(load(act))
            except CommitFailed:
                raise
            except Refusal as refusal:
                return OpenedWithJobs(begun, loaded, str(refusal))
        return OpenedWithJobs(begun, loaded)


def devices_of(lanes: tuple[Lane, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """What tells two lists of lanes apart: their order and their numbers do not."""
    return sorted((lane.kind, lane.devices) for lane in lanes)
