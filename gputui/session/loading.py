"""Loading and reloading of job files: which of their jobs are new, changed or gone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core import job as states
from gputui.core.book import Book
from gputui.core.commands import revoked_sentence
from gputui.core.events import AddJobs, Cause, Edit, Mode, Refusal, Remove, Rerun, Seen, UserCommand
from gputui.core.job import WORDS, Job, JobId, JobSpec, StateName, by_word
from gputui.core.queue_order import satisfied
from gputui.logs.plain import plain
from gputui.python.user_code.call import CALL
from gputui.sources.follow import Mark
from gputui.sources.settings import NO_SETTINGS, JobSettings
from gputui.sources.source import BadInput, Draft, Occurrences, has_identity, settings_of, shown, specs
from gputui.views.format import cut

Key = tuple[str, str, int]
LONGEST_SHOWN = 80
"""Maximum length of a command in a message."""


class RerunRules(msgspec.Struct, frozen=True):
    """Which jobs that have already ended are rerun by a load."""

    rerun_failed: bool = True
    rerun_lost: bool = False
    force_rerun: bool = False
    ended_before: float | None = None
    """Rerun only jobs that ended before this time. This excludes jobs that fail while the load is under way."""


class Results(msgspec.Struct, frozen=True):
    """What a source knows about the result files of its specs. Each spec is identified by its number in the load."""

    gone: tuple[int, ...] = ()
    """Specs whose results are missing. Their jobs are rerun even if they succeeded."""
    there: tuple[int, ...] = ()
    """Specs whose results exist. If the session has no job for such a spec, none is added."""


NO_RESULTS = Results()


class LoadPlan(msgspec.Struct, frozen=True):
    """What a load will do, and the counts for the message to the user."""

    new: tuple[JobSpec, ...]
    edits: tuple[UserCommand, ...]
    reruns: tuple[UserCommand, ...]
    jobs: tuple[JobId, ...]
    """Existing jobs that the load contains."""
    kept: Counter[StateName]
    rerun: Counter[StateName]
    removed: int
    by_spec: tuple[JobId | None, ...] = ()
    """The job of each spec of the load, or None for a spec that is left out. New jobs have the ids they will get."""
    there_before: int = 0
    """Number of specs that are left out because their results exist, although the session has no job for them."""

    def events(self) -> list[UserCommand]:
        """Return the commands of the plan in order. Additions come first because they may be refused. Reruns come
        before edits because only waiting jobs can be edited.
        """
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
        parts += [f"{self.removed} removed (skipped)"] if self.removed else []
        parts += [f"{self.there_before} existing (skipped)"] if self.there_before else []
        return f"{total} in {origin}: {', '.join(parts)}."

    @property
    def advice(self) -> str:
        """Advice on how to run known jobs again; empty if all jobs are new."""
        some_are_known = self.jobs or self.removed or self.there_before
        return "Rerun all: --force-rerun. New session: --new" if some_are_known else ""


def key_of(spec: JobSpec) -> Key | None:
    return (spec.cwd, spec.command, spec.occurrence) if spec.occurrence is not None else None


WORK = {
    "command": "command",
    "cwd": "directory",
    "variables": "environment variables",
    "params": "arguments",
    "shell": "shell",
    "login_shell": "shell",
    "wrap": "wrap",
    "task": "task",
}
"""The fields of a spec that decide what a job does, with their names for messages."""


def _known_job(
    lines: Mapping[Key, Job], keys: Mapping[str, Job], spec: JobSpec, named: Collection[str] = ()
) -> Job | None:
    """Return the existing job for a spec of a load, or None if there is none. Raise Refusal if the spec's key is in use
    for other work.
    """
    line = key_of(spec)
    from_line = lines.get(line) if line is not None else None
    if spec.key is None:
        return from_line
    job = keys.get(spec.key)
    if job is not None:
        _refuse_other_work(spec, job.added_as or job.spec, f"#{job.id}", named, f"gputui edit {job.id}")
    elif from_line is not None and from_line.spec.key is None:
        raise Refusal(f"key {spec.key!r} is new, but #{from_line.id} was added from the same line; remove the key")
    return job


def _refuse_other_work(spec: JobSpec, known: JobSpec, whose: str, named: Collection[str], edit: str = "") -> None:
    """Raise Refusal if the spec does other work than the one for which its key was first used, or if a setting that the
    user named differs. `edit` is the command that changes the settings of the known job.
    """
    different = next((name for field, name in WORK.items() if _work(spec, field) != _work(known, field)), None)
    if different is None and spec.request.gpus != known.request.gpus:
        different = "number of GPUs"
    if different is not None:
        shown_command = f": {cut(known.command, LONGEST_SHOWN)}" if different == "command" else ""
        raise Refusal(f"key {spec.key!r} is used by {whose} with another {different}{shown_command}; use another key")
    if named:
        ours, theirs = settings_of(spec), settings_of(known)
        different = next((field for field in named if getattr(ours, field) != getattr(theirs, field)), None)
    if different is not None:
        advice = f"use another key, or {edit}" if edit else "use another key"
        raise Refusal(f"key {spec.key!r} is used by {whose} with another {different}; {advice}", hint=edit or None)


def _work(spec: JobSpec, field: str) -> object:
    """Return a field of a spec for comparison. The parameters only matter for calls of Python functions, because
    otherwise the command contains them.
    """
    match field:
        case "variables":
            return {name: value for name, value in spec.variables.items() if name != CALL}
        case "params":
            return spec.params if CALL in spec.variables else {}
    return getattr(spec, field)


def plan(
    book: Book,
    specs: Iterable[JobSpec],
    again: RerunRules,
    results: Results = NO_RESULTS,
    now: float = float("inf"),
    named: Collection[str] = (),
) -> LoadPlan:
    """Compare the specs of a load with the jobs in the book, and return what the load will do.

    `named`: the settings that the user named. A job that exists with the same key must have the same ones.
    """
    wanted = list(specs)
    has_lines = any(
        spec.occurrence is not None for spec in wanted
    )  # lines of a pipe have none, and the book may be long
    lines = {line: job for job in book if (line := key_of(job.spec)) is not None} if has_lines else {}
    keys = {spec.key: book[book.keys[spec.key]] for spec in wanted if spec.key in book.keys}
    new: list[JobSpec] = []
    new_keys: dict[str, JobId] = {}
    by_spec: list[JobId | None] = []
    matched: list[tuple[Job, JobSpec]] = []
    there, results_gone = (set() if again.force_rerun else set(results.there)), set(results.gone)
    gone_ids: set[JobId] = set()
    there_before = 0
    for number, spec in enumerate(wanted):
        if spec.key in book.revoked:
            raise Refusal(revoked_sentence(spec.key))
        job = _known_job(lines, keys, spec, named)
        if job is not None:
            matched.append((job, spec))
            gone_ids |= {job.id} if number in results_gone else set()
            by_spec.append(job.id)
        elif number in there:
            there_before += 1
            by_spec.append(None)
        elif spec.key in new_keys:
            _refuse_other_work(spec, new[new_keys[spec.key] - book.next_id], "another job here", named)
            by_spec.append(new_keys[spec.key])
        else:
            by_spec.append(book.next_id + len(new))
            new.append(spec)
            if spec.key is not None:
                new_keys[spec.key] = book.next_id + len(new) - 1
    here = [(job, spec) for job, spec in matched if not job.archived]
    # A job that is added again with its key stays as it is. Only a line of a file may change or rerun its job.
    from_lines = [(job, spec) for job, spec in here if spec.occurrence is not None]
    rerun_ids = _possible(
        book, {job.id for job, _ in from_lines if _to_rerun(job, again, now, gone=job.id in gone_ids)}
    )
    environments = {job.id: spec.environment for job, spec in here}
    return LoadPlan(
        new=tuple(new),
        edits=tuple(_edits(from_lines, rerun_ids)),
        # A skipped job needs no rerun: it waits again as soon as the job that it depends on is rerun.
        reruns=tuple(
            Rerun(job=job_id, environment=environments[job_id])
            for job_id in rerun_ids
            if not isinstance(book[job_id].state, states.Skipped)
        ),
        jobs=tuple(job.id for job, _ in here),
        kept=Counter(job.state.name for job, _ in here if job.id not in rerun_ids),
        rerun=Counter(job.state.name for job, _ in here if job.id in rerun_ids),
        removed=len(matched) - len(here),
        by_spec=tuple(by_spec),
        there_before=there_before,
    )


def _possible(book: Book, wanted: set[JobId]) -> dict[JobId, None]:
    """Return the jobs that can be rerun, dependencies first. Jobs that would be skipped again are left out."""
    possible: dict[JobId, None] = {}
    for job_id in _dependencies_first(book, wanted):
        others = (earlier for earlier in book[job_id].after if earlier not in possible)
        if all(not isinstance(book[id].state, states.Ended) or satisfied(book, book[job_id], id) for id in others):
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


def _to_rerun(job: Job, again: RerunRules, now: float, *, gone: bool) -> bool:
    # An end in the future was recorded before the clock was set back, so it is ignored.
    if again.ended_before is not None and job.attempts and again.ended_before <= job.attempts[-1].ended <= now:
        return False
    match job.state:
        case states.Succeeded():
            return again.force_rerun or gone
        case states.Killed():
            return again.force_rerun
        case states.Lost():
            return again.force_rerun or again.rerun_lost
        case states.Ended():
            return again.force_rerun or again.rerun_failed
    return False


def _edits(here: list[tuple[Job, JobSpec]], rerun_ids: Container[JobId]) -> Iterable[UserCommand]:
    """Yield edits for waiting and rerun jobs whose settings have changed. Other jobs keep the settings that they ran
    with.
    """
    for job, spec in here:
        if spec == job.spec or isinstance(job.state, states.Active):
            continue
        if not (isinstance(job.state, states.Waiting) or job.id in rerun_ids):
            continue
        # A waiting job keeps the code with which it was added. One that is rerun gets the code of this load.
        code = spec.code if job.id in rerun_ids else job.spec.code or spec.code
        wanted = replace(spec, hold=job.spec.hold, key=job.spec.key, code=code if spec.snapshot else None)
        set_by_rerun = job.id in rerun_ids and not isinstance(job.state, states.Skipped)
        current = replace(job.spec, environment=spec.environment) if set_by_rerun else job.spec
        if wanted != current:
            yield Edit(job=job.id, spec=wanted)


def check_outfiles(present: Iterable[Job], new: Iterable[JobSpec]) -> None:
    """Raise Refusal if an outfile exists or is used by another job. Call this before anything is added."""
    wanted = [path for spec in new if (path := _path(spec)) is not None]
    if not wanted:
        return
    owners = {path: f"#{job.id}" for job in present if (path := _path(job.spec)) is not None}
    for path in wanted:
        if path in owners:
            raise Refusal(f"outfile {path} is already used by {owners[path]}; nothing was added")
        if os.path.lexists(path):
            raise Refusal(f"outfile {path} already exists; nothing was added")
        if not os.path.isdir(os.path.dirname(path)):
            raise Refusal(f"directory of outfile {path} is missing; create it first; nothing was added")
        owners[path] = "another job"


def _path(spec: JobSpec) -> str | None:
    return os.path.join(spec.cwd, spec.outfile) if spec.outfile is not None else None


# Sources


class SourceKind(StrEnum):
    FILE = "file"
    """A file that is read once and remembered, so that it can be reloaded."""
    FOLLOWED = "followed"
    YIELDER = "yielder"


class SourceRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A remembered source, with everything needed to turn its drafts into specs."""

    kind: SourceKind
    path: str
    cwd: str
    environment: str = ""
    """Digest of the environment; empty for the environment of the request."""
    group: str = ""
    settings: JobSettings = NO_SETTINGS
    again: RerunRules = RerunRules()
    load: str = ""
    """The id of the load. If files were loaded together, identical commands are counted across all of them."""
    place: int = 0
    """Position of the file among the files of the load."""
    position: int = 0
    """Number of bytes read from a followed file, or of items read from a yielder."""
    mark: Mark | None = None
    rest: bytes = b""
    """The incomplete command at the end of a FIFO, which cannot be read again."""
    ended: bool = False
    trouble: str | None = None
    """Why reading failed, or None."""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.path}"

    @property
    def reading(self) -> tuple[object, ...]:
        """The values that change when another reader has read from the source. Reloading a yielder
        changes them, too.
        """
        return (self.position, self.mark, self.rest, self.load if self.kind is SourceKind.YIELDER else "")

    @property
    def lasts(self) -> bool:
        """Whether the source may yield jobs now or later."""
        return self.kind is not SourceKind.FILE and not self.ended

    def may_yield(self, mode: Mode, cause: Cause | None) -> bool:
        """Return whether the source may yield jobs now, in this mode and with this cause of a pause."""
        if not self.lasts or mode is Mode.DRAINING:
            return False
        if self.kind is SourceKind.YIELDER:
            return mode is Mode.RUNNING
        return cause is None or not cause.on_purpose


# Reloading


_NOT_SHOWN = ("command", "cwd", "environment", "hold", "key", "occurrence", "params", "code")
"""Fields that are not compared in a reload, because they identify the job or do not come from the file."""


class Changed(msgspec.Struct, frozen=True):
    job: JobId
    spec: JobSpec
    """The current spec in the file."""
    differences: tuple[str, ...]
    """Descriptions of the changes, such as `priority 30 → 50`."""


class Gone(msgspec.Struct, frozen=True):
    """A job that is no longer in the files. It can be removed only while it is waiting."""

    job: JobId
    command: str
    state: StateName
    attempt: int

    @property
    def removable(self) -> bool:
        return self.state in {state.name for state in states.Waiting.__subclasses__()}


class ReloadPlan(msgspec.Struct, frozen=True):
    """The differences between the files and the session. `load` and `removes` return what the user can apply."""

    new: tuple[JobSpec, ...]
    changed: tuple[Changed, ...]
    gone: tuple[Gone, ...]
    kept: dict[StateName, int]
    """Number of unchanged jobs by state."""

    @property
    def nothing(self) -> bool:
        return not (self.new or self.changed or any(job.removable for job in self.gone))

    def load(self) -> tuple[JobSpec, ...]:
        """Return the specs to load. New jobs are added and changed ones are edited, but none is rerun."""
        return (*self.new, *(change.spec for change in self.changed))

    def removes(self) -> list[UserCommand]:
        """Return the commands that remove jobs. Each is refused if its job has started in the meantime."""
        return [Remove(job=job.job, seen=Seen(job.attempt, job.state)) for job in self.gone if job.removable]


def reload_plan(jobs: Iterable[Job], wanted: Iterable[JobSpec], groups: Collection[str]) -> ReloadPlan:
    """Compare the files with the session.

    `jobs` includes removed jobs, so that they are not added again. `groups` are the groups of the files. Only jobs in
    these groups can be gone.
    """
    known_jobs = list(jobs)
    lines = {line: job for job in known_jobs if (line := key_of(job.spec)) is not None}
    keys = {job.spec.key: job for job in known_jobs if job.spec.key is not None}
    new: list[JobSpec] = []
    changed: list[Changed] = []
    seen: set[JobId] = set()
    kept_counts: Counter[StateName] = Counter()
    for spec in wanted:
        job = _known_job(lines, keys, spec)
        if job is None:
            new.append(spec)
            continue
        seen.add(job.id)
        if job.archived:
            continue
        differing = differences(job, spec) if isinstance(job.state, states.Waiting) else ()
        if differing:
            changed.append(Changed(job.id, replace(spec, hold=job.spec.hold), differing))
        else:
            kept_counts[job.state.name] += 1
    missing = (job for job in lines.values() if job.id not in seen and not job.archived and job.spec.group in groups)
    gone_jobs = tuple(Gone(job.id, job.spec.command, job.state.name, job.issued) for job in missing)
    return ReloadPlan(tuple(new), tuple(changed), gone_jobs, dict(kept_counts))


def differences(job: Job, spec: JobSpec) -> tuple[str, ...]:
    """Describe what a reload would change in a waiting job."""
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


def describe_reload(plan: ReloadPlan, limit: int, *, keep_gone: bool = False) -> list[str]:
    """Format the plan for the user, with at most `limit` jobs of each kind."""

    def limited(lines: list[str], word: str) -> list[str]:
        return lines if len(lines) <= limit else [*lines[:limit], f"  … and {len(lines) - limit} more {word}"]

    lines = limited([f"+ {spec.command}" for spec in plan.new], "new")
    changed = [f"~ #{change.job} {change.spec.command}: {', '.join(change.differences)}" for change in plan.changed]
    lines += limited(changed, "changed")
    waiting = [job for job in plan.gone if job.removable]
    fate = "stays" if keep_gone else "will be removed"
    lines += limited([f"- #{job.job} {job.command}: gone, {WORDS[job.state]}, {fate}" for job in waiting], "gone")
    over = len(plan.gone) - len(waiting)
    gone = "job that has already run is" if over == 1 else "jobs that have already run are"
    lines += [f"= {over} {gone} no longer in the files (kept)"] if over else []
    kept_words = ", ".join(f"{count} {word}" for word, count in by_word(plan.kept).items())
    lines += [f"= {kept_words} (kept)"] if kept_words else []
    return [plain(line) for line in lines]


class Reread(Struct, frozen=True):
    specs: tuple[JobSpec, ...]
    groups: frozenset[str]
    """Groups of the files, both now and when the files were loaded."""


def reread(records: Iterable[SourceRecord], environment: str = "") -> Reread:
    """Read the session's files again. Raise BadInput if a file cannot be read, because its jobs would otherwise appear
    to be gone.
    """
    files = sorted(
        (record for record in records if record.kind is SourceKind.FILE), key=lambda record: (record.load, record.place)
    )
    counts: dict[str, Occurrences] = {}
    job_specs: list[JobSpec] = []
    for record in files:
        job_specs += specs(
            _read_again(record.path),
            cwd=record.cwd,
            environment=environment,
            group=record.group,
            defaults=record.settings,
            # Identical commands are counted across all files of a load.
            occurrences=counts.setdefault(record.load or record.path, Occurrences()),
        )
    named = {record.settings.group or record.group for record in files}
    return Reread(tuple(job_specs), frozenset(named | {spec.group for spec in job_specs}))


def _read_again(path: str) -> list[Draft]:
    """Read the drafts of a file again. It must be a regular file: only regular files are remembered, and anything else
    could be endless.
    """
    if os.path.exists(path) and not has_identity(path):
        raise BadInput(f"{shown(path)} is no longer a regular file; restore it, or run: gputui reload --forget")
    from gputui.sources.kinds import kind_of, read_drafts

    return read_drafts(path, kind_of(path))
