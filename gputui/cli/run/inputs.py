"""The jobs given on the command line. All inputs are read and checked before any job is added."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from gputui.cli.output import refuse
from gputui.cli.parser import Options
from gputui.core.job import JobSpec
from gputui.session.code_snapshots import check as check_code
from gputui.session.code_snapshots import with_code
from gputui.session.loading import NO_RESULTS, RerunRules, Results, SourceKind, SourceRecord
from gputui.session.owner.requests import Load
from gputui.session.session_dir import store_file
from gputui.sources.follow import end_of
from gputui.sources.kinds import PARSERS, Kind, kind_of, parse_drafts, read_drafts
from gputui.sources.source import BadInput, Draft, Occurrences, has_identity, missing, specs

if TYPE_CHECKING:
    from gputui.sources.task_config import TaskConfig

    from .session_options import SessionOptions

STDIN = 0


class Source(msgspec.Struct, frozen=True):
    """The jobs of one input, and the record that is needed to reload it."""

    origin: str
    specs: tuple[JobSpec, ...]
    record: SourceRecord | None = None
    results: Results = NO_RESULTS
    force_rerun: bool = False
    """Whether the file itself requests a rerun."""
    keepsakes: dict[str, bytes] = {}
    """Contents of files that the jobs need, by file name. They are saved in the session before the jobs are added."""
    tasks: TaskConfig | None = None

    def load(self, root: str | None, environment: dict[str, str], again: RerunRules) -> Load:
        """Save the keepsakes in the session in `root`, if any, and return the request that adds the jobs."""
        if root is not None:
            for name, data in self.keepsakes.items():
                store_file(root, name, data)
        if self.tasks is not None and not (again.force_rerun or self.force_rerun):
            self.tasks.tell_skipped()
        again = replace(again, force_rerun=again.force_rerun or self.force_rerun)
        records = (self.record,) if self.record is not None else ()
        return Load(with_code(root, self.specs), environment, self.origin, again, records, self.results)


class Inputs:
    """All inputs of one command line."""

    def __init__(self, options: Options, again: RerunRules, environment: str, session: SessionOptions) -> None:
        """Read and check the inputs.

        `environment`: the digest of the environment.
        """
        self._cwd = _working_directory()
        self._again = again
        self._task: str | None = options.task
        self._kind = Kind(options.format) if options.format else None
        self._environment = environment
        self._settings = session.jobs
        self._occurrences = Occurrences()
        self._load = os.urandom(8).hex()
        self._place = 0
        self.follows_stdin = False
        self.notices: list[str] = []
        self.gpus: str | None = None
        """The GPUs named by an input file, if any."""
        self.ongoing: list[SourceRecord] = [self._followed(path) for path in options.follow]
        """Sources that may add more jobs later."""
        if options.job_yielder is not None:
            self.ongoing.append(self._yielder(options.job_yielder))
        names = [*([options.job_file] if options.job_file else []), *options.jobs]
        others = self.ongoing or options.task_bundle is not None
        if not names and not others and not sys.stdin.isatty() and _is_input(STDIN):
            names = ["-"]
        self._sources = [source for name in names if (source := self._read(name)) is not None]
        if options.task_bundle is not None:
            from gputui.sources.task_config import bundled

            self._sources.append(self._tasks(bundled(options.task_bundle)))
        if self._settings.snapshot and self.ongoing:
            check_code(session.output_dir, [JobSpec(command="", cwd=self._cwd, environment="", snapshot=True)])
        check_code(session.output_dir, [spec for source in self._sources for spec in source.specs])
        self.nothing = not (self._sources or self.ongoing or self.follows_stdin)
        del self._occurrences  # it is as large as the inputs

    def loads(self, root: str | None, environment: dict[str, str]) -> tuple[Load, ...]:
        """Return the requests that add all jobs and sources to the session in `root`, in order.

        Only the first call returns the jobs. If `root` is None, nothing is saved there.
        """
        sources, self._sources = self._sources, []  # known jobs would be kept twice
        loads = [source.load(root, environment, self._again) for source in sources]
        ongoing = [Load((), environment, "", self._again, tuple(self.ongoing))] if self.ongoing else []
        return (*loads, *ongoing)

    def _read(self, name: str) -> Source | None:
        if name == "-":
            return self._stdin()
        kind = self._kind or kind_of(name)
        if kind is Kind.YIELDER:
            self.ongoing.append(self._yielder(name))
            return None
        if kind is Kind.TASK_CONFIG:
            from gputui.sources.task_config import read_task_config

            return self._tasks(read_task_config(name, self._task))
        drafts = read_drafts(name, kind)
        identity = has_identity(name)
        # With --format the file cannot be reloaded, because its name does not tell how to read it.
        record = self._record(SourceKind.FILE, name) if identity and self._kind is None else None
        return self._source(os.path.basename(name), drafts, record, identity=identity)

    def _tasks(self, config: TaskConfig) -> Source:
        """Return the tasks of a config as a source without a record.

        Their commands alone do not identify them for reloading.
        """
        from gputui.sources.task_config import Before

        if self._settings.snapshot:
            refuse(f"{config.origin}: snapshots are not supported for configurations of GPUTaskScheduler")
        self.notices += config.notices()
        if self.gpus not in (None, config.gpus):
            refuse("these files name different GPUs; choose with --gpus")
        self.gpus = config.gpus
        existing = config.numbers(Before.DONE, Before.FOREIGN, Before.AT_WORK)
        return Source(
            config.origin,
            config.specs(cwd=self._cwd, environment=self._environment, defaults=self._settings),
            results=Results(gone=config.numbers(Before.NOTHING), there=existing),
            force_rerun=config.force_rerun,
            keepsakes={config.bundle_name: config.bundle},
            tasks=config,
        )

    def _stdin(self) -> Source | None:
        if self.follows_stdin:
            refuse("standard input (-) is given twice")
        kind = self._kind or _kind_of_stdin()
        identity = has_identity(STDIN)
        if identity or kind is not Kind.COMMANDS:
            drafts = parse_drafts(sys.stdin.buffer.read(), "standard input", kind)
            return self._source("standard input", drafts, self._redirected(), identity=identity)
        self.follows_stdin = True
        return None

    def _source(self, origin: str, drafts: list[Draft], record: SourceRecord | None, *, identity: bool) -> Source:
        job_specs = self._specs(drafts, origin, self._occurrences if identity else None)
        return Source(origin, job_specs, record)

    def load_lines(self, drafts: list[Draft], root: str | None, environment: dict[str, str]) -> Load:
        """Return the request that adds commands read from standard input to the session in `root`."""
        return Load(with_code(root, self._specs(drafts, "standard input")), environment, "standard input")

    def _specs(self, drafts: list[Draft], origin: str, occurrences: Occurrences | None = None) -> tuple[JobSpec, ...]:
        return specs(
            drafts,
            cwd=self._cwd,
            environment=self._environment,
            group=origin,
            defaults=self._settings,
            occurrences=occurrences,
        )

    # Records of sources

    def _redirected(self) -> SourceRecord | None:
        """Return a record of the file behind `< jobs.txt`, or None.

        The file must still have the same name and must be a command list.
        """
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
            again=self._again,
            load=self._load,
            place=self._place,
        )


def _working_directory() -> str:
    """Return the directory in which the jobs will run.

    It must exist, and its name must be valid UTF-8 because it is stored.
    """
    try:
        directory = os.getcwd()
        directory.encode()
    except OSError as error:
        refuse(f"the current directory no longer exists ({error.strerror}); change to another one")
    except UnicodeEncodeError:
        refuse(f"the current directory's name ({os.fsencode(directory)!r}) is not valid UTF-8; run from another one")
    return directory


def _kind_of_stdin() -> Kind:
    """Guess the input format from the name of the file that standard input is redirected from."""
    try:
        kind = kind_of(os.readlink(f"/proc/self/fd/{STDIN}")) if has_identity(STDIN) else Kind.COMMANDS
    except (OSError, BadInput):
        return Kind.COMMANDS
    return kind if kind in PARSERS else Kind.COMMANDS


def _is_input(fd: int) -> bool:
    """Return whether a file descriptor may provide input. A closed one and /dev/null do not."""
    try:
        mode = os.fstat(fd)
    except OSError:
        return False
    return not (stat.S_ISCHR(mode.st_mode) and os.path.samestat(mode, os.stat(os.devnull)))
