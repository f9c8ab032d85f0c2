"""Requests that bring jobs and settings to the owner, also over a socket. Each is carried out within one turn.

Requests about results are here too. Queries and commands about jobs are in `session/messages.py`, which takes less time
to import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from gputui.core.amounts import counted
from gputui.core.events import Mode, NodesSeen, PauseKind, Refusal, Resume, SetSlots, Settings
from gputui.core.job import EngineName, JobId, JobSpec
from gputui.core.results import parse_wanted_metric
from gputui.core.slots import Board, NodeSize, Slot, engine_of
from gputui.session.config import CLUSTER_OPTIONS
from gputui.session.errors import CommitFailed
from gputui.session.loading import (
    NO_RESULTS,
    ReloadPlan,
    RerunRules,
    Results,
    SourceKind,
    SourceRecord,
    check_outfiles,
    plan,
)
from gputui.session.messages import AddedJob, Layout, OwnerRequest
from gputui.views.results_table import ResultsTable
from gputui.views.summary import Summary
from gputui.views.waiting import never_starts

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler, Undo
    from gputui.session.event_loop import TurnContext


CLEARED_BY_RUN = (PauseKind.DRAINED, PauseKind.STOPPED, PauseKind.INTERRUPTED, PauseKind.CRASHES)


T = TypeVar("T")


class Loaded(msgspec.Struct, frozen=True):
    jobs: list[JobId]
    """All jobs of the load, both new and known ones."""
    new: int
    sentence: str
    """Message for the user about the load. Empty if the load has no origin."""
    warning: str = ""
    """Message about jobs of the load that can never start; empty if there are none."""
    advice: str = ""
    """Advice on how to run known jobs again from the command line. Empty if all jobs are new."""
    by_spec: list[AddedJob] = []
    """The job of each spec, in their order, if the request asked for it."""


class Load(OwnerRequest[Loaded], frozen=True, tag="load"):
    """Add jobs from a source, either all or none. Known jobs are kept, updated or rerun."""

    specs: tuple[JobSpec, ...]
    environment: dict[str, str]
    origin: str
    again: RerunRules = RerunRules()
    sources: tuple[SourceRecord, ...] = ()
    """Sources to remember, and to read from now on if they deliver more jobs."""
    results: Results = NO_RESULTS
    by_spec: bool = False
    """Whether to reply with the job of each spec."""
    named: tuple[str, ...] = ()
    """The settings that the user named. They are refused if a job exists with the same key and other settings."""

    def __call__(self, act: TurnContext) -> Loaded:
        digest = act.keep_environment(self.environment)
        book = act.scheduler.book
        specs = (spec if spec.environment else replace(spec, environment=digest) for spec in self.specs)
        planned = plan(book, specs, self.again, self.results, act.now, self.named)
        check_outfiles(book, planned.new)
        self._check_room(act.scheduler, len(planned.new))
        first = book.next_id
        sentence = planned.sentence(self.origin) if self.origin else ""
        for event in planned.events():
            act.handle(event)
        for source in self.sources:
            known = act.sources.get(source.key)
            if known is not None and source.kind is SourceKind.FOLLOWED:  # continue where the file was read last
                source = replace(source, position=known.position, mark=known.mark)
            act.sources[source.key] = replace(source, environment=source.environment or digest)
        new = range(first, book.next_id)
        jobs = [*planned.jobs, *new]
        by_spec = [
            AddedJob(job, book[job].name, book[job].spec.key, job >= first, book[job].state.name)
            for job in (planned.by_spec if self.by_spec else ())
            if job is not None
        ]
        return Loaded(jobs, len(new), sentence, never_starts(act.scheduler, jobs), planned.advice, by_spec)

    def _check_room(self, scheduler: Scheduler, new: int) -> None:
        """Raise Refusal if too many jobs would wait. This limits programs that add jobs, not files of jobs."""
        waiting, most = len(scheduler.book.line), scheduler.settings.most_waiting
        if self.by_spec and most is not None and waiting + new > most:
            are_waiting = counted(waiting, "job is", "jobs are")
            raise Refusal(f"{are_waiting} waiting and most_waiting is {most}; nothing was added, so add later")


class Undoable(Generic[T]):
    """Carry out another request. The reply also contains an event that takes back what the request did."""

    def __init__(self, request: Callable[[TurnContext], T]) -> None:
        self.request = request

    def __call__(self, act: TurnContext) -> tuple[T, Undo]:
        return act.scheduler.changes_of(lambda: self.request(act))


class TakeBack(msgspec.Struct, frozen=True):
    """Undo commands. The reply is the jobs that were left as they are because they have changed since."""

    undo: Undo

    def __call__(self, act: TurnContext) -> list[JobId]:
        unchanged = self.undo.unchanged(act.scheduler.book)
        act.handle(self.undo)
        return [job for job in self.undo.after if job not in unchanged]


class Forget(OwnerRequest[list[str]], frozen=True, tag="forget"):
    """Stop reading these sources and forget them. Their jobs stay."""

    paths: tuple[str, ...]

    def __call__(self, act: TurnContext) -> list[str]:
        forgotten_keys = [key for key, source in act.sources.items() if source.path in self.paths]
        return [act.sources.pop(key).path for key in forgotten_keys]


class ChooseMetric(OwnerRequest[str], frozen=True, tag="choose_metric"):
    """Choose the metric by which jobs are compared, such as `val_acc max`. An empty string chooses the default.

    The reply is the name of the metric.
    """

    metric: str

    def __call__(self, act: TurnContext) -> str:
        try:
            name = parse_wanted_metric(self.metric).name if self.metric else ""
        except ValueError as error:
            raise Refusal(str(error)) from None
        if name is None:
            raise Refusal(f"{self.metric!r} contains no metric name; to set a pattern for one job, edit the job")
        act.handle(replace(act.scheduler.settings, metric=self.metric.strip()))
        return name


class ResultsQuestion(OwnerRequest[ResultsTable], frozen=True, tag="results"):
    """Get the jobs in the order of their results, best first."""

    metric: str = ""
    """A metric such as `val_acc max`, or empty for the session's metric."""
    top: int | None = None


class SummaryQuestion(OwnerRequest[Summary], frozen=True, tag="summary"):
    """Get the summary of the session. If `left` is set, include what has happened since that time."""

    metric: str = ""
    left: float | None = None


class Sources(OwnerRequest[list[SourceRecord]], frozen=True, tag="sources"):
    """Get the remembered sources of jobs."""


class Reload(OwnerRequest[ReloadPlan], frozen=True, tag="reload"):
    """Compare these specs, which were read from the session's files again, with the jobs of the session."""

    specs: tuple[JobSpec, ...]
    groups: frozenset[str]


class Begun(msgspec.Struct, frozen=True):
    slots: tuple[Slot, ...]
    kept: bool
    """Whether the session already had slots and keeps them."""
    differ: bool
    """Whether the user requested slots that differ from those of the session."""
    before: tuple[Slot, ...] = ()
    """The previous slots if they were replaced by different ones, otherwise empty."""


class Begin(OwnerRequest[Begun], frozen=True, tag="begin"):
    """Slots and settings from a `run` or an app that opens the session."""

    slots: tuple[Slot, ...] | None
    given: bool
    """Whether the user requested the slots. If not, they are the default."""
    change_slots: bool
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Values of fields of `Settings`. The others, and those with the value None, stay as they are. For `probe`, "off"
    stands for None.
    """
    layout: Layout | None = None
    """How to name the directories of jobs that have not started."""
    largest: NodeSize | None = None
    """The largest node of the cluster when it was last checked."""
    resume: bool = True
    keeps_crash_pause: bool = False
    """Whether a pause after errors stays until the user ends it."""

    def __call__(self, act: TurnContext) -> Begun:
        scheduler = act.scheduler
        wanted = self._changed(scheduler.settings)
        if self.slots is not None and (self.change_slots or not scheduler.board.slots):
            scheduler.check_slots(self.slots)  # before anything is changed
        self._check_cluster(scheduler.board)
        if self.layout is not None:
            act.lay_out(self.layout)
        if wanted != scheduler.settings:
            act.handle(wanted)
        keeps_slots, before = False, scheduler.board.slots
        if self.slots is not None:
            keeps_slots = bool(before) and not self.change_slots
            if not keeps_slots:
                act.handle(SetSlots(self.slots))
        if self.largest is not None:
            act.handle(NodesSeen(self.largest))
        slots = scheduler.board.slots
        differ = devices_of(self.slots or ()) != devices_of(slots)
        if self.resume and self._clears(scheduler):
            act.handle(Resume())
        return Begun(
            slots, keeps_slots, self.given and differ, before if devices_of(before) != devices_of(slots) else ()
        )

    def _changed(self, current: Settings) -> Settings:
        changes = {name: value for name, value in self.settings.items() if value is not None}
        if changes.get("probe") == "off":
            changes["probe"] = None
        try:
            return msgspec.convert(msgspec.to_builtins(current) | changes, Settings)
        except msgspec.ValidationError as error:
            raise Refusal(f"invalid settings: {error}") from None

    def _check_cluster(self, board: Board) -> None:
        """Raise Refusal if there are options for a cluster but the session does not use one."""
        slots = board.slots if self.slots is None or (board.slots and not self.change_slots) else self.slots
        named = [name for name in CLUSTER_OPTIONS if self.settings.get(name) is not None]
        if named and engine_of(slots) is not EngineName.SLURM:
            flag = f"--{named[0].replace('_', '-')}"
            raise Refusal(f"{flag} needs Slurm, which this session does not use: add --gpus slurm:8")

    def _clears(self, scheduler: Scheduler) -> bool:
        cause = scheduler.cause
        if cause is None:
            crashed = bool(scheduler.breaker.paused_scopes) and not self.keeps_crash_pause
            return scheduler.mode is Mode.DRAINING or crashed
        return cause.kind in CLEARED_BY_RUN and not (cause.kind is PauseKind.CRASHES and self.keeps_crash_pause)


class OpenedWithJobs(msgspec.Struct, frozen=True):
    begun: Begun
    loaded: list[Loaded]
    """The results of the loads, up to but not including a refused one."""
    refused: str | None = None


class OpenSession(OwnerRequest[OpenedWithJobs], frozen=True, tag="open"):
    """Apply settings and add jobs in one turn. If the settings are refused, no job is added."""

    begin: Begin
    loads: tuple[Load, ...] = ()

    def __call__(self, act: TurnContext) -> OpenedWithJobs:
        begun, loaded = self.begin(act), []
        for load in self.loads:
            try:
                loaded.append(load(act))
            except CommitFailed:
                raise
            except Refusal as refusal:
                return OpenedWithJobs(begun, loaded, str(refusal))
        return OpenedWithJobs(begun, loaded)


def devices_of(slots: tuple[Slot, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the devices of the slots in a form that does not depend on the order and the ids of the slots."""
    return sorted((slot.kind, slot.devices) for slot in slots)
