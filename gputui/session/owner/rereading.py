"""Reads the files that a session was loaded from once more, just as they were read the first time."""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec import Struct

from gputui.core.job import JobSpec
from gputui.session.store.source_record import SourceKind, SourceRecord
from gputui.sources.kinds import kind_of, read_drafts
from gputui.sources.source import BadInput, Draft, Occurrences, has_identity, shown, specs


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
