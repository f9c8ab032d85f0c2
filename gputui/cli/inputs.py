"""From the command line's JOBS to specs: everything is read and checked before anything is added."""

from __future__ import annotations

import os
import stat
import sys

import msgspec

from gputui.core.job import JobSpec
from gputui.sources.command_list import parse_command_list, read_command_list
from gputui.sources.settings import JobSettings
from gputui.sources.source import Draft, Occurrences, has_identity, specs

from .words import refuse

STDIN = 0


class Source(msgspec.Struct, frozen=True):
    """The jobs of one file."""

    origin: str
    specs: tuple[JobSpec, ...]


class Inputs:
    """What to load, and whether standard input goes on giving jobs."""

    def __init__(self, names: list[str], environment: str, settings: JobSettings) -> None:
        self._cwd = _here()
        self._environment = environment
        self._settings = settings
        self._occurrences = Occurrences()
        if not names and not sys.stdin.isatty() and _is_input(STDIN):
            names = ["-"]
        self.follows_stdin = False
        self.sources = [source for name in names if (source := self._read(name)) is not None]

    def _read(self, name: str) -> Source | None:
        if name != "-":
            drafts = read_command_list(name)
            return self._source(os.path.basename(name), drafts, identity=has_identity(name))
        if self.follows_stdin:
            refuse("standard input (-) is given twice")
        if has_identity(STDIN):
            data = sys.stdin.buffer.read()
            return self._source("standard input", parse_command_list(data, "standard input"), identity=True)
        self.follows_stdin = True
        return None

    def _source(self, origin: str, drafts: list[Draft], *, identity: bool) -> Source:
        return Source(origin, self.from_drafts(drafts, origin, self._occurrences if identity else None))

    def from_drafts(
        self, drafts: list[Draft], origin: str = "standard input", occurrences: Occurrences | None = None
    ) -> tuple[JobSpec, ...]:
        return specs(
            drafts,
            cwd=self._cwd,
            environment=self._environment,
            group=origin,
            defaults=self._settings,
            occurrences=occurrences,
        )


def _here() -> str:
    """Where the jobs will run; it must be there and must be text, or the store could not keep it."""
    try:
        here = os.getcwd()
        here.encode()
    except OSError as error:
        refuse(f"the folder you are in is gone ({error.strerror}); change to one that is there")
    except UnicodeEncodeError:
        refuse(f"the name of the folder you are in ({os.fsencode(here)!r}) is not UTF-8; run from another one")
    return here


def _is_input(fd: int) -> bool:
    """A closed input or /dev/null gives nothing, and is not what anybody meant."""
    try:
        mode = os.fstat(fd)
    except OSError:
        return False
    return not (stat.S_ISCHR(mode.st_mode) and os.path.samestat(mode, os.stat(os.devnull)))
