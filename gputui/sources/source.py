"""What every source hands over: drafts of jobs, turned into specs with an identity where there is one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.job import JobSpec, Request
from gputui.core.parameters import following

from .settings import LEARN, NO_SETTINGS, JobSettings
from .values import bytes_or_share, memory_text

__all__ = ["BadInput", "Draft", "Occurrences", "changed_spec", "has_identity", "settings_of", "specs"]

RETRIES_OF_KINDS = 2
"""Of a job that says after which failures it wants to be run again, but not how often."""
_ASKED = ("gpus", "devices", "memory")
_PATHS = ("cwd", "outfile")
_COPIED = tuple(field for field in JobSettings.__struct_fields__ if field not in _ASKED + _PATHS)
_BLANK = JobSpec(command="", cwd="", environment="")


class BadInput(Exception):
    """Input that is refused whole; the message is the sentence the user reads."""

    @classmethod
    def at(cls, origin: str, line: int, reason: str) -> BadInput:
        return cls(f"{shown(origin)}, line {line}: {reason}")


class Draft(Struct, frozen=True):
    """A command as a source read it, before anyone decided where and as whom it runs."""

    command: str
    line: int
    """Where it begins in its source, from 1."""
    settings: JobSettings = NO_SETTINGS
    params: dict[str, str] = {}
    """What a sweep chose for it."""


class Occurrences:
    """Counts equal commands of one load, over all its files and pieces: the last part of a job's identity."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], int] = {}

    def number(self, cwd: str, command: str) -> int:
        """1 for the first such command of this load."""
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
    """The drafts as job specs; without `occurrences` they have no identity and every one is a new job."""
    below = defaults.over(JobSettings(group=group))
    shared = _fields(below, cwd, environment)
    return tuple(
        _spec(
            draft,
            shared if draft.settings is NO_SETTINGS else _fields(draft.settings.over(below), cwd, environment),
            occurrences,
        )
        for draft in drafts
    )


def _spec(draft: Draft, fields: dict[str, Any], occurrences: Occurrences | None) -> JobSpec:
    occurrence = occurrences.number(fields["cwd"], draft.command) if occurrences else None
    return JobSpec(command=draft.command, params=draft.params, occurrence=occurrence, **fields)


def _fields(settings: JobSettings, load_cwd: str, environment: str) -> dict[str, Any]:
    """All of a spec but the command and its number; shared by the drafts that say nothing themselves."""
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
    """What was said of a job that is there; what is as if nothing had been said is None."""
    said = {field: value for field in _COPIED if (value := getattr(spec, field)) != getattr(_BLANK, field)}
    request = spec.request
    return JobSettings(
        **said,
        gpus=request.gpus,
        devices=request.devices or None,
        memory=LEARN if request.learns else memory_text(request.memory, request.memory_share) or None,
        cwd=spec.cwd,
        outfile=spec.outfile,
    )


def changed_spec(before: JobSpec, command: str, settings: JobSettings) -> JobSpec:
    """The job with these settings and no others; where it came from and its environment stay."""
    blank = {field: getattr(_BLANK, field) for field in _COPIED}
    return following(
        replace(before, command=command, **blank | _fields(settings, before.cwd, before.environment)), before
    )


def _request(settings: JobSettings) -> Request:
    learns = settings.memory == LEARN
    size, share = (None, None) if learns or settings.memory is None else bytes_or_share(settings.memory)
    request = Request(settings.gpus, settings.devices or (), size, share, learns)
    return _BLANK.request if request == _BLANK.request else request  # only the very default is left out when it travels


def _path(folder: str, written: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(written)))


def has_identity(source: str | int) -> bool:
    """Whether loading this path or descriptor again means the same jobs: only a regular file can be read again."""
    try:
        return stat.S_ISREG(os.stat(source).st_mode)
    except (OSError, ValueError):
        return False


def missing(path: str) -> BadInput:
    """Names the directory too: with `--host`, or from another shell, it may not be the one that was meant."""
    where = "" if os.path.isabs(path) else f" in {shown(os.readlink('/proc/self/cwd'))}"
    return BadInput(f"{shown(path)}: there is no such file{where}; check its name")


def shown(origin: str) -> str:
    """A file's name as it may stand in a sentence: quoted when it could act on the terminal."""
    return origin if origin.isprintable() else ascii(origin)
