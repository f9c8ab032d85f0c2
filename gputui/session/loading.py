"""Loading job files and reading them again: which of their jobs are new, changed or gone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Container, Iterable
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.book import Book
from gputui.core.events import AddJobs, Cause, Edit, Mode, Remove, Rerun, Seen, UserCommand
from gputui.core.job import (
    WORDS,
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
from gputui.logs.plain import plain
from gputui.sources.mark import Mark
from gputui.sources.settings import NO_SETTINGS, JobSettings
from gputui.sources.source import BadInput, Draft, Occurrences, has_identity, shown, specs

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


# ---- Reloading job files ----


_NOT_SHOWN = ("command", "cwd", "environment", "hold", "occurrence", "params")
"""Part of a job's identity, or not the file's to say."""


class Changed(msgspec.Struct, frozen=True):
    job: JobId
    spec: JobSpec
    """As the file has it now."""
    differences: tuple[str, ...]
    """Such as `priority 30 → 50`."""


class Gone(msgspec.Struct, frozen=True):
    """A job that is no longer in any file; one that runs or has ended is only told of."""

    job: JobId
    command: str
    state: StateName
    attempt: int

    @property
    def removable(self) -> bool:
        return self.state in {state.name for state in Waiting.__subclasses__()}


class ReloadPlan(msgspec.Struct, frozen=True):
    """What the files say beyond what the session knows; `load` and `removes` carry out what the user agrees to."""

    new: tuple[JobSpec, ...]
    changed: tuple[Changed, ...]
    gone: tuple[Gone, ...]
    kept: dict[StateName, int]
    """Jobs that stay as they are, by their state."""

    @property
    def nothing(self) -> bool:
        return not (self.new or self.changed or any(job.removable for job in self.gone))

    def load(self) -> tuple[JobSpec, ...]:
        """To be loaded without rerunning anything: adds what is new, edits what changed."""
        return (*self.new, *(change.spec for change in self.changed))

    def removes(self) -> list[UserCommand]:
        """Each is refused if its job has begun meanwhile."""
        return [
            Remove(job=job.job, seen=Seen(job.attempt, job.state)) for job in self.gone if job.removable
        ]  # fmt: skip


def reload_plan(jobs: Iterable[Job], wanted: Iterable[JobSpec], groups: Collection[str]) -> ReloadPlan:
    """`jobs`: all there are, removed ones too, so that they are not added again. `groups`: those the files have filled,
    for only their jobs can be missing."""
    known_jobs = {key: job for job in jobs if (key := key_of(job.spec)) is not None}
    new: list[JobSpec] = []
    changed: list[Changed] = []
    seen_keys: set[Key] = set()
    kept_counts: Counter[StateName] = Counter()
    for spec in wanted:
        key = key_of(spec)
        job = known_jobs.get(key) if key is not None else None
        if job is None or key is None:
            new.append(spec)
            continue
        seen_keys.add(key)
        if job.archived:
            continue
        differing = differences(job, spec) if isinstance(job.state, Waiting) else ()
        if differing:
            changed.append(Changed(job.id, replace(spec, hold=job.spec.hold), differing))
        else:
            kept_counts[job.state.name] += 1
    missing = (
        job for key, job in known_jobs.items() if key not in seen_keys and not job.archived and job.spec.group in groups
    )
    gone_jobs = tuple(Gone(job.id, job.spec.command, job.state.name, job.issued) for job in missing)
    return ReloadPlan(tuple(new), tuple(changed), gone_jobs, dict(kept_counts))


def differences(job: Job, spec: JobSpec) -> tuple[str, ...]:
    """What another load would change of a waiting job, in words."""
    words: list[str] = []
    for field in spec.__struct_fields__:
        if field not in _NOT_SHOWN:
            before, after = getattr(job.spec, field), getattr(spec, field)
            words += _words(field, before, after) if before != after else []
    return tuple(words)


def _words(field: str, before: object, after: object) -> list[str]:
    if isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct):
        pairs = ((name, getattr(before, name), getattr(after, name)) for name in before.__struct_fields__)
        return [words for name, old, new in pairs if old != new for words in _words(name, old, new)]
    return [f"{field} {_shown(before)} → {_shown(after)}"]


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return " ".join(f"{key}={entry}" for key, entry in value.items()) or "none"
    return str(value) if value not in (None, "") else "none"


def told(plan: ReloadPlan, most: int, *, keep_gone: bool = False) -> list[str]:
    """The plan as a user reads it; of each kind at most so many jobs are named, the rest is counted."""
    lines = _some([f"+ {spec.command}" for spec in plan.new], "new", most)
    changed = [f"~ #{change.job} {change.spec.command}: {', '.join(change.differences)}" for change in plan.changed]
    lines += _some(changed, "changed", most)
    waiting = [job for job in plan.gone if job.removable]
    fate = "stays" if keep_gone else "will be removed"
    lines += _some([f"- #{job.job} {job.command}: gone, {WORDS[job.state]}, {fate}" for job in waiting], "gone", most)
    over = len(plan.gone) - len(waiting)
    ran = "job is gone from the files but ran" if over == 1 else "jobs are gone from the files but ran"
    lines += [f"= {over} {ran} already (kept)"] if over else []
    kept_words = ", ".join(f"{count} {word}" for word, count in by_word(plan.kept).items())
    lines += [f"= {kept_words} (kept)"] if kept_words else []
    return [plain(line) for line in lines]


def _some(lines: list[str], word: str, most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"  … and {len(lines) - most} more {word}"]


# ---- Reads the files that a session was loaded from once more, just as they were read the first time ----


class Reread(Struct, frozen=True):
    specs: tuple[JobSpec, ...]
    groups: frozenset[str]
    """Those that the files fill now or filled when they were loaded."""


def reread(records: Iterable[SourceRecord], environment: str = "") -> Reread:
    """BadInput if one of them cannot be read: without it nobody can say what is gone."""
    files = sorted(
        (record for record in records if record.kind is SourceKind.FILE), key=lambda record: (record.load, record.place)
    )
    counts: dict[str, Occurrences] = {}
    job_specs: list[JobSpec] = []
    for record in files:
        job_specs += specs(
            _drafts(record.path),
            cwd=record.cwd,
            environment=environment,
            group=record.group,
            defaults=record.settings,
            # Files that were loaded together were counted together.
            occurrences=counts.setdefault(record.load or record.path, Occurrences()),
        )
    named = {record.settings.group or record.group for record in files}
    return Reread(tuple(job_specs), frozenset(named | {spec.group for spec in job_specs}))


def _drafts(path: str) -> list[Draft]:
    """What came in the file's place may never end: only a regular file was remembered."""
    if os.path.exists(path) and not has_identity(path):
        raise BadInput(f"{shown(path)} is no regular file any more; put it back, or forget it with reload --forget")
    from gputui.sources.kinds import kind_of, read_drafts

    return read_drafts(path, kind_of(path))
