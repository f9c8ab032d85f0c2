"""Loading job files: the sources a session remembers, and which of their jobs are new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.book import Book
from gputui.core.events import AddJobs, Cause, Edit, Mode, Rerun, UserCommand
from gputui.core.job import (
    Active,
    Ended,
    Job,
    JobId,
    JobSpec,
    Killed,
    Lost,
    Skipped,
    StateName,
    Succeeded,
    Waiting,
    by_word,
)
from gputui.core.queue_order import satisfied
from gputui.sources.mark import Mark
from gputui.sources.settings import NO_SETTINGS, JobSettings

# ---- Loading a job file again ----


Key = tuple[str, str, int]


class Again(msgspec.Struct, frozen=True):
    """What the user wants of jobs that have ended before."""

    rerun_failed: bool = True
    rerun_lost: bool = False
    force_rerun: bool = False
    ended_before: float | None = None
    """Only those that had ended by then: what runs and fails while a load is on its way has had its run."""


class Results(msgspec.Struct, frozen=True):
    """What a source knows of the results of its specs, by their numbers in the load; other sources know nothing."""

    gone: tuple[int, ...] = ()
    """They would be there if it had succeeded: one that succeeded is run again."""
    there: tuple[int, ...] = ()
    """They are there already: one that the session does not know is not added."""


NO_RESULTS = Results()


class LoadPlan(msgspec.Struct, frozen=True):
    """What a load will do, and the counts that the user is told."""

    new: tuple[JobSpec, ...]
    edits: tuple[UserCommand, ...]
    reruns: tuple[UserCommand, ...]
    jobs: tuple[JobId, ...]
    """Known jobs that the load names."""
    kept: Counter[StateName]
    rerun: Counter[StateName]
    removed: int
    there_before: int = 0
    """Left out because their results are there, though not by this session."""

    def events(self) -> list[UserCommand]:
        """Adds first, for they may be refused; reruns before edits, for only a waiting job can be edited."""
        adds: list[UserCommand] = [AddJobs(self.new)] if self.new else []
        return [*adds, *self.reruns, *self.edits]

    def sentence(self, origin: str) -> str:
        total = len(self.new) + len(self.jobs) + self.removed + self.there_before
        parts = [f"{len(self.new)} new"]
        done = self.kept[StateName.SUCCEEDED]
        parts += [f"{done} done (kept)"] if done else []
        others = self.kept - Counter({StateName.SUCCEEDED: done})
        parts += [f"{count} {word} (kept)" for word, count in by_word(others).items()]
        parts += [f"{count} {word} (rerun)" for word, count in by_word(self.rerun).items()]
        parts += [f"{self.removed} removed (left out)"] if self.removed else []
        parts += [f"{self.there_before} there before (skipped)"] if self.there_before else []
        some_are_known = self.jobs or self.removed or self.there_before
        advice = " All again: --force-rerun. Fresh session: --new" if some_are_known else ""
        return f"{total} in {origin}: {', '.join(parts)}.{advice}"


def key_of(spec: JobSpec) -> Key | None:
    return (spec.cwd, spec.command, spec.occurrence) if spec.occurrence is not None else None


def plan(
    book: Book, specs: Iterable[JobSpec], again: Again, results: Results = NO_RESULTS, now: float = float("inf")
) -> LoadPlan:
    """Pure: compares a load with the book."""
    wanted = list(specs)
    # Lines of a pipe are all new, and the queue may be long.
    some_known = any(spec.occurrence is not None for spec in wanted)
    known_jobs = {key: job for job in book if (key := key_of(job.spec)) is not None} if some_known else {}
    new: list[JobSpec] = []
    matched: list[tuple[Job, JobSpec]] = []
    there, results_gone = (set() if again.force_rerun else set(results.there)), set(results.gone)
    gone_ids: set[JobId] = set()
    there_before = 0
    for number, spec in enumerate(wanted):
        key = key_of(spec)
        job = known_jobs.get(key) if key is not None else None
        if job is not None:
            matched.append((job, spec))
            gone_ids |= {job.id} if number in results_gone else set()
        elif number in there:
            there_before += 1
        else:
            new.append(spec)
    here = [(job, spec) for job, spec in matched if not job.archived]
    rerun_ids = _possible(book, {job.id for job, _ in here if _to_rerun(job, again, now, gone=job.id in gone_ids)})
    environments = {job.id: spec.environment for job, spec in here}
    # A skipped job comes back by itself with the one it was skipped for.
    asked_again = [job_id for job_id in rerun_ids if not isinstance(book[job_id].state, Skipped)]
    return LoadPlan(
        new=tuple(new),
        edits=tuple(_edits(here, rerun_ids)),
        reruns=tuple(Rerun(job=job_id, environment=environments[job_id]) for job_id in asked_again),
        jobs=tuple(job.id for job, _ in here),
        kept=Counter(job.state.name for job, _ in here if job.id not in rerun_ids),
        rerun=Counter(job.state.name for job, _ in here if job.id in rerun_ids),
        removed=len(matched) - len(here),
        there_before=there_before,
    )


def _possible(book: Book, wanted: set[JobId]) -> dict[JobId, None]:
    """In the order in which they can be rerun, without those that would only be skipped again."""
    possible: dict[JobId, None] = {}
    for job_id in _dependencies_first(book, wanted):
        if not any(_in_the_way(book, job_id, earlier) for earlier in book[job_id].after if earlier not in possible):
            possible[job_id] = None
    return possible


def _dependencies_first(book: Book, jobs: set[JobId]) -> dict[JobId, None]:
    ordered: dict[JobId, None] = {}
    for first in sorted(jobs):
        stack = [first]
        while stack:
            before = [id for id in book[stack[-1]].after if id in jobs and id not in ordered]
            stack += before
            if not before:
                ordered[stack.pop()] = None
    return ordered


def _in_the_way(book: Book, job_id: JobId, earlier: JobId) -> bool:
    return isinstance(book[earlier].state, Ended) and not satisfied(book, book[job_id], earlier)


def _to_rerun(job: Job, again: Again, now: float, *, gone: bool) -> bool:
    # An end that lies ahead was seen before the clock was set back.
    if again.ended_before is not None and job.attempts and again.ended_before <= job.attempts[-1].ended <= now:
        return False
    match job.state:
        case Succeeded():
            return again.force_rerun or gone
        case Killed():
            return again.force_rerun
        case Lost():
            return again.force_rerun or again.rerun_lost
        case Ended():
            return again.force_rerun or again.rerun_failed
    return False


def _edits(here: list[tuple[Job, JobSpec]], rerun_ids: Container[JobId]) -> Iterable[UserCommand]:
    """A changed setting updates a job that waits; one that runs or is done keeps what it ran with."""
    for job, spec in here:
        if spec == job.spec or isinstance(job.state, Active):
            continue
        if not (isinstance(job.state, Waiting) or job.id in rerun_ids):
            continue
        wanted = replace(spec, hold=job.spec.hold)
        told_by_rerun = job.id in rerun_ids and not isinstance(job.state, Skipped)
        current = replace(job.spec, environment=spec.environment) if told_by_rerun else job.spec
        if wanted != current:
            yield Edit(job=job.id, spec=wanted)


# ---- The sources a session remembers ----


class SourceKind(StrEnum):
    FILE = "file"
    """Read whole; remembered so that it can be loaded again."""
    FOLLOWED = "followed"
    YIELDER = "yielder"


class SourceRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One source, with all that turns its drafts into specs."""

    kind: SourceKind
    path: str
    cwd: str
    environment: str = ""
    """Digest; empty: that of the request that brings it."""
    group: str = ""
    settings: JobSettings = NO_SETTINGS
    again: Again = Again()
    load: str = ""
    """Which load brought it: files that were loaded together count equal commands together."""
    place: int = 0
    """Among the files of that load."""
    position: int = 0
    """Bytes of a followed file, items of a yielder."""
    mark: Mark | None = None
    rest: bytes = b""
    """Of a FIFO: half a command, for it cannot be read again."""
    ended: bool = False
    trouble: str | None = None
    """Why it ended, when it did so badly."""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.path}"

    @property
    def reading(self) -> tuple[object, ...]:
        """By what a reader knows that nobody else has read on; a yielder that is given again is another one."""
        return (self.position, self.mark, self.rest, self.load if self.kind is SourceKind.YIELDER else "")

    @property
    def lasts(self) -> bool:
        """It may give jobs still, now or later."""
        return self.kind is not SourceKind.FILE and not self.ended

    def goes_on(self, mode: Mode, cause: Cause | None) -> bool:
        """It may give jobs now: nobody left on purpose."""
        if not self.lasts or mode is Mode.DRAINING:
            return False
        if self.kind is SourceKind.YIELDER:
            return mode is Mode.RUNNING
        return cause is None or not cause.on_purpose
