"""From the command line's JOBS to specs: everything is read and checked before anything is added."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gputui.cli.output import refuse
from gputui.core.job import JobSpec
from gputui.session.layouts import keep
from gputui.session.loading import NO_RESULTS, Again, Results, SourceKind, SourceRecord
from gputui.session.owner.requests import Load
from gputui.sources.kinds import PARSERS, Kind, kind_of, parse_drafts, read_drafts
from gputui.sources.mark import end_of
from gputui.sources.settings import JobSettings
from gputui.sources.source import BadInput, Draft, Occurrences, has_identity, missing, specs
from gputui.sources.task_config import Before, TaskConfig, bundled, read_task_config

STDIN = 0


class Source(msgspec.Struct, frozen=True):
    """The jobs of one file, and what is remembered of it."""

    origin: str
    specs: tuple[JobSpec, ...]
    record: SourceRecord | None = None
    results: Results = NO_RESULTS
    force_rerun: bool = False
    """The file itself asks for it."""
    keepsakes: dict[str, bytes] = {}
    """Files that its jobs need, by name; kept in the session before they are added."""
    tasks: TaskConfig | None = None

    def load(self, root: str, environment: dict[str, str], again: Again) -> Load:
        """The request that adds its jobs to the session in `root`, where its keepsakes are now."""
        for name, data in self.keepsakes.items():
            keep(root, name, data)
        if self.tasks is not None and not (again.force_rerun or self.force_rerun):
            self.tasks.tell_skipped()
        again = replace(again, force_rerun=again.force_rerun or self.force_rerun)
        records = (self.record,) if self.record is not None else ()
        return Load(self.specs, environment, self.origin, again, records, self.results)


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line names."""

    jobs: Sequence[str] = ()
    job_yielder: str | None = None
    follow: Sequence[str] = ()
    task_bundle: str | None = None
    """A file with the tasks of a script that starts them itself."""
    task: str | None = None
    """For a configuration of GPUTaskScheduler: the class of its tasks."""
    kind: Kind | None = None
    """How all of it is read, whatever it is called."""
    again: Again = Again()


class Inputs:
    """What to load, what to read from now on, and whether standard input goes on giving jobs."""

    def __init__(self, named: Named, environment: str, settings: JobSettings) -> None:
        self._cwd = here()
        self._named = named
        self._environment = environment
        self._settings = settings
        self._occurrences = Occurrences()
        self._load = os.urandom(8).hex()
        self._place = 0
        self.follows_stdin = False
        self.notices: list[str] = []
        self.gpus: str | None = None
        """The lanes that a file names itself."""
        self.lasting: list[SourceRecord] = [self._followed(path) for path in named.follow]
        """Sources that go on giving jobs."""
        if named.job_yielder is not None:
            self.lasting.append(self._yielder(named.job_yielder))
        names = list(named.jobs)
        others = self.lasting or named.task_bundle is not None
        if not names and not others and not sys.stdin.isatty() and _is_input(STDIN):
            names = ["-"]
        self.sources = [source for name in names if (source := self._read(name)) is not None]
        if named.task_bundle is not None:
            self.sources.append(self._tasks(bundled(named.task_bundle)))

    @property
    def again(self) -> Again:
        return self._named.again

    @property
    def nothing(self) -> bool:
        return not (self.sources or self.lasting or self.follows_stdin)

    def loads(self, root: str, environment: dict[str, str]) -> tuple[Load, ...]:
        """The requests that add all of it to the session in `root`, in their order."""
        loads = [source.load(root, environment, self.again) for source in self.sources]
        lasting = [Load((), environment, "", self.again, tuple(self.lasting))] if self.lasting else []
        return (*loads, *lasting)

    def _read(self, name: str) -> Source | None:
        if name == "-":
            return self._stdin()
        kind = self._named.kind or kind_of(name)
        if kind is Kind.YIELDER:
            self.lasting.append(self._yielder(name))
            return None
        if kind is Kind.TASK_CONFIG:
            return self._tasks(read_task_config(name, self._named.task))
        drafts = read_drafts(name, kind)
        identity = has_identity(name)
        # What would be read otherwise by its name alone cannot be loaded again by it.
        record = self._record(SourceKind.FILE, name) if identity and self._named.kind is None else None
        return self._source(os.path.basename(name), drafts, record, identity=identity)

    def _tasks(self, config: TaskConfig) -> Source:
        """Not remembered for reloading: what a configuration gives is not known by its commands alone."""
        self.notices += config.notices()
        if self.gpus not in (None, config.gpus):
            refuse("these files name different GPUs; say which with --gpus")
        self.gpus = config.gpus
        there = config.numbers(Before.DONE, Before.FOREIGN, Before.AT_WORK)
        return Source(
            config.origin,
            config.specs(cwd=self._cwd, environment=self._environment, defaults=self._settings),
            results=Results(gone=config.numbers(Before.NOTHING), there=there),
            force_rerun=config.force_rerun,
            keepsakes={config.bundle_name: config.bundle},
            tasks=config,
        )

    def _stdin(self) -> Source | None:
        if self.follows_stdin:
            refuse("standard input (-) is given twice; give it once")
        kind = self._named.kind or _kind_of_stdin()
        identity = has_identity(STDIN)
        if identity or kind is not Kind.COMMANDS:
            drafts = parse_drafts(sys.stdin.buffer.read(), "standard input", kind)
            return self._source("standard input", drafts, self._redirected(), identity=identity)
        self.follows_stdin = True
        return None

    def _source(self, origin: str, drafts: list[Draft], record: SourceRecord | None, *, identity: bool) -> Source:
        job_specs = self.from_drafts(drafts, origin, self._occurrences if identity else None)
        return Source(origin, job_specs, record)

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

    # Sources that are remembered

    def _redirected(self) -> SourceRecord | None:
        """The file behind `< jobs.txt`, if it still has the name it was opened by and would be read the same way."""
        try:
            path = os.readlink(f"/proc/self/fd/{STDIN}")
            is_stdin = os.path.samestat(os.stat(path), os.fstat(STDIN)) and kind_of(path) is Kind.COMMANDS
        except (OSError, BadInput):
            return None
        return replace(self._record(SourceKind.FILE, path), group="standard input") if is_stdin else None

    def _followed(self, path: str) -> SourceRecord:
        position, mark = end_of(path)
        return replace(self._record(SourceKind.FOLLOWED, path), position=position, mark=mark)

    def _yielder(self, path: str) -> SourceRecord:
        if not os.path.isfile(path):
            raise missing(path)
        return self._record(SourceKind.YIELDER, path)

    def _record(self, kind: SourceKind, path: str) -> SourceRecord:
        self._place += 1
        return SourceRecord(
            kind=kind,
            path=os.path.abspath(path),
            cwd=self._cwd,
            group=os.path.basename(path),
            settings=self._settings,
            again=self._named.again,
            load=self._load,
            place=self._place,
        )


def here() -> str:
    """Where the jobs will run; it must be there and must be text, or the store could not keep it."""
    try:
        folder = os.getcwd()
        folder.encode()
    except OSError as error:
        refuse(f"the folder you are in is gone ({error.strerror}); change to one that is there")
    except UnicodeEncodeError:
        refuse(f"the name of the folder you are in ({os.fsencode(folder)!r}) is not UTF-8; run from another one")
    return folder


def _kind_of_stdin() -> Kind:
    """By the name of the file behind it, where that can be read without one."""
    try:
        kind = kind_of(os.readlink(f"/proc/self/fd/{STDIN}")) if has_identity(STDIN) else Kind.COMMANDS
    except (OSError, BadInput):
        return Kind.COMMANDS
    return kind if kind in PARSERS else Kind.COMMANDS


def _is_input(fd: int) -> bool:
    """A closed input or /dev/null gives nothing, and is not what anybody meant."""
    try:
        mode = os.fstat(fd)
    except OSError:
        return False
    return not (stat.S_ISCHR(mode.st_mode) and os.path.samestat(mode, os.stat(os.devnull)))
