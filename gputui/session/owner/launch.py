"""Execution of the scheduler's instructions: starts jobs with their directory, environment and command, and sends
signals.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from shlex import join, quote

from msgspec import Struct

from gputui.core import events
from gputui.core.job import EngineName, Job, JobSpec, Placed
from gputui.core.slots import Slot
from gputui.core.steps import Step, reached
from gputui.engines.protocol import ClusterOptions, Engine, Launch, Report
from gputui.python.user_code.modules import USER_CODE
from gputui.session import terminal
from gputui.session.code_snapshots import in_checkout
from gputui.session.devices.devices import Devices
from gputui.session.environment import as_given, captured, cuda_variables, default_variables, job_variables
from gputui.session.errors import NotOurs
from gputui.session.job_directories import Directories
from gputui.session.session_dir import Paths
from gputui.session.store.store import Store
from gputui.sources.yielder import python_of

CALLER = os.path.join(USER_CODE, "call_task.py")


TEMPORARY_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EROFS, errno.EIO)
"""Errors that may go away. If one occurs, the start is tried again later."""


def command_line(spec: JobSpec, environment: Mapping[str, str]) -> str:
    command = _command_line(spec, environment)
    if spec.terminal is None:
        return command
    keep = "keep" if spec.terminal.keep else "hang-up"
    program = [sys.executable, "-I", terminal.__file__, spec.terminal.socket, keep]
    return join([*program, spec.shell or "bash", *(["-l"] if spec.login_shell else []), "-c", command])


def _command_line(spec: JobSpec, environment: Mapping[str, str]) -> str:
    if spec.task:
        python = "python3" if spec.wrap else quote(python_of(environment))
        called = f"{python} {quote(CALLER)} {quote(spec.task)} {quote(spec.command)}"
        return f"{spec.wrap} {called}" if spec.wrap else called
    if not spec.wrap:
        return spec.command
    login = " -l" if spec.login_shell else ""
    return f"{spec.wrap} {quote(spec.shell or 'bash')}{login} -c {quote(spec.command)}"


class Launcher(Struct, eq=False):
    paths: Paths
    directories: Directories
    store: Store
    engine: Engine
    report: Callable[[Report], None]
    note: Callable[[Job], None]
    devices: Devices
    environments: dict[str, dict[str, str]] = {}
    """Environments by digest. Thousands of jobs share one."""
    _slots: tuple[Slot, ...] = ()
    _cluster_options: ClusterOptions = ClusterOptions()
    _bases: dict[tuple[str, bool], dict[str, str]] = {}
    """Base variables of jobs, by the digest of their environment and whether they have a slot. Cached until the slots
    change.
    """

    def carry_out(
        self, instructions: list[events.Instruction], slots: tuple[Slot, ...], settings: events.Settings
    ) -> None:
        self._cluster_options = ClusterOptions(
            partition=settings.partition, account=settings.account, qos=settings.qos, time=settings.time,
            constraint=settings.constraint, sbatch_opt=settings.sbatch_opt,
        )  # fmt: skip
        starts = [instruction.job for instruction in instructions if isinstance(instruction, events.Start)]
        if starts:
            self.engine.start(self._launches(starts, slots))
            for job in starts:
                self.devices.release_lease(job.id)
                self.note(job)
        for instruction in instructions:
            if isinstance(instruction, events.AttemptInstruction):
                self.engine.carry_out(instruction)

    def _launches(self, jobs: list[Job], slots: tuple[Slot, ...]) -> Iterator[Launch]:
        """Yield the launches of jobs, preparing one directory at a time. The engine starts a job while the directory of
        the next one is made.
        """
        for job in jobs:
            assert job.active is not None
            outcome: events.Outcome | None = None
            if job.spec.snapshot and job.spec.code is None:
                outcome = events.NotStarted("it has no snapshot of its code; add it again with gputui add --snapshot")
            else:
                try:
                    self.directories.prepare(job, job.active.attempt)
                    held = self.directories.open_if_replaceable(job, job.active.attempt)
                except NotOurs as error:
                    outcome = events.NotStarted(f"{error}; then rerun #{job.id}")
                except OSError as error:
                    why = f"cannot create its directory: {error.strerror}"
                    outcome = events.NoRoom(why) if error.errno in TEMPORARY_ERRORS else events.NotStarted(why)
            if outcome is not None:
                self.report(
                    events.AttemptEnded(job=job.id, attempt=job.active.attempt, outcome=outcome, at=time.time())
                )
                continue
            reached(Step.DIRECTORY_MADE)
            yield self._launch(job, job.active, slots, held)

    def _launch(self, job: Job, placed: Placed, slots: tuple[Slot, ...], held: int | None) -> Launch:
        files = self.directories.files(job, placed.attempt)
        own = self._base(placed, slots)
        devices: dict[str, str] = {}
        if placed.engine is EngineName.LOCAL:  # a cluster sets these variables itself
            before = {**own, **job.spec.variables} if job.spec.variables else own
            devices = cuda_variables(placed.gpus, before, self.devices.uuid_of)
        environment = {
            **own,
            **devices,
            **job_variables(job, placed, self.paths.root, self.directories.directory(job)),
            **job.spec.variables,
        }
        command, cwd = command_line(job.spec, environment), job.spec.cwd
        if job.spec.code is not None:
            command, cwd = in_checkout(self.paths.root, job.spec.code, command), self.paths.root
        return Launch(
            job=job.id,
            attempt=placed.attempt,
            command=command,
            shell=job.spec.shell,
            login_shell=job.spec.login_shell,
            cwd=cwd,
            environment=environment,
            out=self.directories.stable_path(files.out),
            err=self.directories.stable_path(files.err) if files.err is not None else None,
            directory=held,
            gpus=job.spec.request.gpus,
            timeout=job.spec.timeout,
            engine=placed.engine,
            cluster_options=self._cluster_options,
            lease=self.devices.lease_of(job.id),
        )

    def _base(self, placed: Placed, slots: tuple[Slot, ...]) -> dict[str, str]:
        if slots is not self._slots:
            self._slots = slots
            self._bases.clear()
        key = (placed.environment, bool(placed.slots))
        base = self._bases.get(key)
        if base is None:
            base = {
                **default_variables(slots if placed.slots else ()),
                **as_given(self.environment(placed.environment)),
            }
            self._bases[key] = base
        return base

    def environment(self, digest: str) -> dict[str, str]:
        environment = self.environments.get(digest)
        if environment is None:
            environment = self.store.environment(digest)
            if environment is None:  # the store was rebuilt without it
                environment = captured()
            self.environments[digest] = environment
        return environment
