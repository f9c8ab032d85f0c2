"""Reloading job files: what is new in them, what changed, what is gone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.events import Remove, Seen, UserCommand
from gputui.core.job import WORDS, Job, JobId, JobSpec, StateName, Waiting, by_word
from gputui.logs.plain import plain
from gputui.sources.kinds import kind_of, read_drafts
from gputui.sources.source import BadInput, Draft, Occurrences, has_identity, shown, specs

from .loading import Key, SourceKind, SourceRecord, key_of

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
        raise BadInput(f"{shown(path)} is no regular file any more; put it back, or forget it: gputui reload --forget")
    return read_drafts(path, kind_of(path))
