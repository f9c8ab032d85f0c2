"""Starting placed jobs: folder, environment, command line."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from shlex import quote

from gputui.core.events import (
    AttemptEnded,
    ContinueTree,
    Instruction,
    KillTree,
    NoRoom,
    NotStarted,
    Outcome,
    Settings,
    Start,
    SuspendTree,
    Terminate,
    Withdraw,
)
from gputui.core.job import EngineName, Job, JobSpec, Placed
from gputui.core.lanes import Lane
from gputui.core.steps import Step, reached
from gputui.engines.protocol import ClusterWishes, Engine, Launch, Report
from gputui.python.user_code.modules import USER_CODE
from gputui.session.devices.devices import Devices
from gputui.session.environment import as_given, captured, defaults, told, visible
from gputui.session.errors import NotOurs
from gputui.session.job_folders import Folders
from gputui.session.session_dir import Paths
from gputui.session.store.store import Store
from gputui.sources.yielder import python_of

# ---- What a shell is given to run ----


CALLER = os.path.join(USER_CODE, "call_task.py")


def command_line(spec: JobSpec, environment: Mapping[str, str]) -> str:
    if spec.task:
        python = "python3" if spec.wrap else quote(python_of(environment))
        called = f"{python} {quote(CALLER)} {quote(spec.task)} {quote(spec.command)}"
        return f"{spec.wrap} {called}" if spec.wrap else called
    if not spec.wrap:
        return spec.command
    login = " -l" if spec.login_shell else ""
    return f"{spec.wrap} {quote(spec.shell or 'bash')}{login} -c {quote(spec.command)}"


# ---- Does what the scheduler instructed ----


PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EROFS, errno.EIO)


class Launcher:
    """Remembers environments, for thousands of jobs share one."""

    def __init__(
        self,
        paths: Paths,
        folders: Folders,
        store: Store,
        engine: Engine,
        report: Callable[[Report], None],
        note: Callable[[Job], None],
        devices: Devices,
    ) -> None:
        self.environments: dict[str, dict[str, str]] = {}
        self._paths = paths
        self._folders = folders
        self._store = store
        self._engine = engine
        self._report = report
        self._note = note
        self._devices = devices
        self._lanes: tuple[Lane, ...] = ()
        self._wishes = ClusterWishes()
        self._bases: dict[tuple[str, bool], dict[str, str]] = {}
        """What all jobs of one environment are given, with a lane and without, as long as the lanes are the same."""

    def carry_out(self, instructions: list[Instruction], lanes: tuple[Lane, ...], settings: Settings) -> None:
        self._wishes = _wishes(settings)
        starts = [instruction.job for instruction in instructions if isinstance(instruction, Start)]
        if starts:
            self._engine.start(self._launches(starts, lanes))
            for job in starts:
                self._devices.hand_on(job.id)
                self._note(job)
        for instruction in instructions:
            self._signal(instruction)

    def _signal(self, instruction: Instruction) -> None:
        match instruction:
            case Terminate(job=job_id, attempt=attempt):
                self._engine.terminate(job_id, attempt)
            case Withdraw(job=job_id, attempt=attempt):
                self._engine.withdraw(job_id, attempt)
            case KillTree(job=job_id, attempt=attempt):
                self._engine.kill(job_id, attempt)
            case SuspendTree(job=job_id, attempt=attempt):
                self._engine.suspend(job_id, attempt)
            case ContinueTree(job=job_id, attempt=attempt):
                self._engine.resume(job_id, attempt)

    def _launches(self, jobs: list[Job], lanes: tuple[Lane, ...]) -> Iterator[Launch]:
        """One after the other: while this one's folder is made, the engine starts the one before."""
        for job in jobs:
            assert job.active is not None
            try:
                self._folders.prepare(job, job.active.attempt)
                held = self._folders.held(job, job.active.attempt)
            except (OSError, NotOurs) as error:
                self._report(_not_launched(job, job.active.attempt, error))
                continue
            reached(Step.FOLDER_MADE)
            yield self._launch(job, job.active, lanes, held)

    def _launch(self, job: Job, placed: Placed, lanes: tuple[Lane, ...], held: int | None) -> Launch:
        files = self._folders.files(job, placed.attempt)
        own = self._base(placed, lanes)
        environment = {
            **own,
            **self._visible(job, placed, own),
            **told(job, placed, self._paths.root, self._folders.folder(job)),
            **job.spec.variables,
        }
        return Launch(
            job=job.id,
            attempt=placed.attempt,
            command=command_line(job.spec, environment),
            shell=job.spec.shell,
            login_shell=job.spec.login_shell,
            cwd=job.spec.cwd,
            environment=environment,
            out=self._folders.reached(files.out),
            err=self._folders.reached(files.err) if files.err is not None else None,
            folder=held,
            gpus=job.spec.request.gpus,
            timeout=job.spec.timeout,
            engine=placed.engine,
            wishes=self._wishes,
            lease=self._devices.lease_of(job.id),
        )

    def _visible(self, job: Job, placed: Placed, own: dict[str, str]) -> dict[str, str]:
        """In a cluster the devices are not known yet, and are told by it."""
        if placed.engine is not EngineName.LOCAL:
            return {}
        return visible(placed.gpus, {**own, **job.spec.variables} if job.spec.variables else own, self._devices.uuid_of)

    def _base(self, placed: Placed, lanes: tuple[Lane, ...]) -> dict[str, str]:
        if lanes is not self._lanes:
            self._lanes = lanes
            self._bases.clear()
        key = (placed.environment, bool(placed.lanes))
        base = self._bases.get(key)
        if base is None:
            base = {**defaults(lanes if placed.lanes else ()), **as_given(self.environment(placed.environment))}
            self._bases[key] = base
        return base

    def environment(self, digest: str) -> dict[str, str]:
        environment = self.environments.get(digest)
        if environment is None:
            environment = self._store.environment(digest)
            if environment is None:  # the store was rebuilt without it
                environment = captured()
            self.environments[digest] = environment
        return environment


def _wishes(settings: Settings) -> ClusterWishes:
    return ClusterWishes(
        partition=settings.partition, account=settings.account, qos=settings.qos, time=settings.time,
        constraint=settings.constraint, sbatch_opt=settings.sbatch_opt,
    )  # fmt: skip


def _not_launched(job: Job, attempt: int, error: OSError | NotOurs) -> AttemptEnded:
    return AttemptEnded(job=job.id, attempt=attempt, outcome=_why_not(job, error), at=time.time())


def _why_not(job: Job, error: OSError | NotOurs) -> Outcome:
    if isinstance(error, NotOurs):
        return NotStarted(f"{error}; then rerun #{job.id}")
    why = f"its folder cannot be made: {error.strerror}"
    return NoRoom(why) if error.errno in PASSING else NotStarted(why)
