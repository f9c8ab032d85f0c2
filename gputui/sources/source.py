"""Drafts of jobs, as returned by every source, and their conversion to job specs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.job import EMPTY, JobSpec, Request
from gputui.core.parameters import with_updated_params

from .settings import LEARN, NO_SETTINGS, JobSettings
from .values import bytes_or_share, memory_text

RETRIES_OF_KINDS = 2
"""Default of `retries` for a job with `retry_on`."""
_ASKED = ("gpus", "devices", "memory", "budget")
_PATHS = ("cwd", "outfile")
_COPIED = tuple(field for field in JobSettings.__struct_fields__ if field not in _ASKED + _PATHS)
_BLANK = JobSpec(command="", cwd="", environment="")


class BadInput(Exception):
    """Raised when input is invalid. None of the input is used. The message is for the user."""

    @classmethod
    def at(cls, origin: str, line: int, reason: str) -> BadInput:
        return cls(f"{shown(origin)}, line {line}: {reason}")


class Draft(Struct, frozen=True):
    """A command as a source read it, without directory, environment and identity."""

    command: str
    settings: JobSettings = NO_SETTINGS
    params: dict[str, str] = EMPTY
    """The parameters of a sweep, by name."""


class Occurrences:
    """Counts identical commands in one load, across all of its files. The count is part of a job's identity."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], int] = {}

    def number(self, cwd: str, command: str) -> int:
        number = self._seen.get((cwd, command), 0) + 1
        self._seen[cwd, command] = number
        return number


def specs(
    drafts: Iterable[Draft],
    *,
    cwd: str,
    environment: str,
    group: str = "",
    defaults: JobSettings = NO_SETTINGS,
    occurrences: Occurrences | None = None,
) -> tuple[JobSpec, ...]:
    """Return the drafts as job specs.

    Without `occurrences` the specs have no identity, so that each one is a new job.
    """
    defaults = defaults.over(JobSettings(group=group))
    default_fields = _fields(defaults, cwd, environment)
    job_specs: list[JobSpec] = []
    for draft in drafts:
        is_default = draft.settings is NO_SETTINGS
        fields = default_fields if is_default else _fields(draft.settings.over(defaults), cwd, environment)
        occurrence = occurrences.number(fields["cwd"], draft.command) if occurrences else None
        job_specs.append(JobSpec(command=draft.command, params=draft.params, occurrence=occurrence, **fields))
    return tuple(job_specs)


def _fields(settings: JobSettings, load_cwd: str, environment: str) -> dict[str, Any]:
    """Return all fields of a spec except those that come from its draft."""
    cwd = _path(load_cwd, settings.cwd) if settings.cwd else load_cwd
    fields = {field: value for field in _COPIED if (value := getattr(settings, field)) is not None}
    if settings.retry_on and settings.retries is None:
        fields["retries"] = RETRIES_OF_KINDS
    return fields | {
        "cwd": cwd,
        "environment": environment,
        "request": _request(settings),
        "outfile": _path(cwd, settings.outfile) if settings.outfile else None,
    }


def settings_of(spec: JobSpec) -> JobSettings:
    """Return the settings of an existing job. Settings with their default value are None."""
    given = {field: value for field in _COPIED if (value := getattr(spec, field)) != getattr(_BLANK, field)}
    request = spec.request
    return JobSettings(
        **given,
        gpus=request.gpus,
        devices=request.devices or None,
        memory=LEARN if request.learns else memory_text(request.memory, request.memory_share) or None,
        budget=request.budget,
        cwd=spec.cwd,
        outfile=spec.outfile,
    )


def changed_spec(before: JobSpec, command: str, settings: JobSettings) -> JobSpec:
    """Return a copy of a spec with a different command and exactly these settings.

    Source and environment do not change.
    """
    blank = {field: getattr(_BLANK, field) for field in _COPIED}
    fields = _fields(settings, before.cwd, before.environment)
    # A snapshot belongs to one directory, so a job that now runs in another one loses it.
    fields["code"] = before.code if settings.snapshot and fields["cwd"] == before.cwd else None
    return with_updated_params(replace(before, command=command, **blank | fields), before)


def _request(settings: JobSettings) -> Request:
    learns = settings.memory == LEARN
    size, share = (None, None) if learns or settings.memory is None else bytes_or_share(settings.memory)
    request = Request(settings.gpus, settings.devices or (), size, share, learns, budget=settings.budget)
    return _BLANK.request if request == _BLANK.request else request  # the shared default is omitted when serialized


def _path(directory: str, written: str) -> str:
    return os.path.normpath(os.path.join(directory, os.path.expanduser(written)))


def has_identity(source: str | int) -> bool:
    """Return whether loading this path or descriptor again yields the same jobs.

    That is true only for a regular file.
    """
    try:
        return stat.S_ISREG(os.stat(source).st_mode)
    except (OSError, ValueError):
        return False


def missing(path: str) -> BadInput:
    """Return the error for a missing file.

    The message names the directory, because with `--host` it may not be the expected one.
    """
    where = "" if os.path.isabs(path) else f" in {shown(os.readlink('/proc/self/cwd'))}"
    return BadInput(f"no such file: {shown(path)}{where}")


def shown(origin: str) -> str:
    """Return a file name for a message, quoted if it contains control characters."""
    return origin if origin.isprintable() else ascii(origin)
