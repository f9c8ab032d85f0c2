"""Reads the files that a session was loaded from once more, just as they were read the first time."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.job import JobSpec
from gputui.sources.kinds import kind_of, read_drafts
from gputui.sources.source import Occurrences, specs

from .source_record import SourceKind, SourceRecord


class Reread(Struct, frozen=True):
    specs: tuple[JobSpec, ...]
    groups: frozenset[str]
    """Those that the files fill now or filled when they were loaded."""


def reread(records: Iterable[SourceRecord], environment: str = "") -> Reread:
    """BadInput if one of them cannot be read: without it nobody can say what is gone."""
    files = sorted((one for one in records if one.kind is SourceKind.FILE), key=lambda one: (one.load, one.place))
    counts: dict[str, Occurrences] = {}
    found: list[JobSpec] = []
    for record in files:
        found += specs(
            read_drafts(record.path, kind_of(record.path)),
            cwd=record.cwd,
            environment=environment,
            group=record.group,
            defaults=record.settings,
            # Files that were loaded together were counted together.
            occurrences=counts.setdefault(record.load or record.path, Occurrences()),
        )
    named = {record.settings.group or record.group for record in files}
    return Reread(tuple(found), frozenset(named | {spec.group for spec in found}))
