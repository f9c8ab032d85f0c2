"""The engine of a session, which passes each attempt either to the local engine or to the Slurm engine.

A session uses one engine at a time, depending on its slots. Each attempt records the engine that runs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from gputui.core.job import EngineName, JobId, Purpose
from gputui.engines.claims import MARK
from gputui.engines.local.engine import LocalEngine
from gputui.engines.protocol import Engine, Launch, Report, Survivor
from gputui.process.watch import EventLoop

SLURM_QUEUE_FILE = "news"
"""Name of a file that the Slurm engine leaves in the private directory. If it exists, claims must be kept, because
Slurm's queue outlives this machine.
"""


class ChosenEngine:
    """An engine that passes each attempt to the engine responsible for it. The Slurm engine is only created when it is
    needed.
    """

    def __init__(self, loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> None:
        self._private = private
        self._arguments = (loop, private, session, report)
        self._local = LocalEngine(*self._arguments)
        self._slurm: Engine | None = None
        self._elsewhere: dict[tuple[JobId, int], Engine] = {}
        """Attempts that the local engine does not run, with the engine of each."""

    def _named(self, name: EngineName) -> Engine:
        if name is EngineName.LOCAL:
            return self._local
        if self._slurm is None:
            from gputui.engines.slurm.engine import SlurmEngine  # not loaded by sessions without Slurm

            self._slurm = SlurmEngine(*self._arguments)
        return self._slurm

    def _of(self, job: JobId, attempt: int) -> Engine:
        return self._elsewhere.get((job, attempt), self._local)

    @property
    def _current(self) -> Engine:
        engines = list(self._elsewhere.values())  # copied in one step, as `forget` may be called in another thread
        return engines[0] if engines else self._local

    def token(self, job: JobId, attempt: int) -> str:
        return self._local.token(job, attempt)

    def start(self, launches: Iterable[Launch]) -> None:
        """Start the attempts, which must all have the same engine. It receives each launch as soon as that is ready."""
        remaining = iter(launches)
        first = next(remaining, None)
        if first is None:
            return
        engine = self._named(first.engine)

        def record() -> Iterator[Launch]:
            for launch in chain((first,), remaining):
                if engine is not self._local:
                    self._elsewhere[launch.job, launch.attempt] = engine
                yield launch

        engine.start(record())

    def recover(self, survivors: list[Survivor]) -> None:
        self._local.recover([survivor for survivor in survivors if survivor.engine is EngineName.LOCAL])
        in_slurm = [survivor for survivor in survivors if survivor.engine is EngineName.SLURM]
        if in_slurm or self._has(MARK):  # the queue may have jobs that the store does not know
            engine = self._named(EngineName.SLURM)
            self._elsewhere |= {(survivor.job, survivor.attempt): engine for survivor in in_slurm}
            engine.recover(in_slurm)

    def withdraw(self, job: JobId, attempt: int) -> None:
        self._of(job, attempt).withdraw(job, attempt)

    def terminate(self, job: JobId, attempt: int) -> None:
        self._of(job, attempt).terminate(job, attempt)

    def kill(self, job: JobId, attempt: int) -> None:
        self._of(job, attempt).kill(job, attempt)

    def suspend(self, job: JobId, attempt: int) -> None:
        self._of(job, attempt).suspend(job, attempt)

    def resume(self, job: JobId, attempt: int) -> None:
        self._of(job, attempt).resume(job, attempt)

    def write_down(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        self._of(job, attempt).write_down(job, attempt, purpose)

    def claimed(self) -> list[tuple[JobId, int]]:
        return self._local.claimed()

    def forget(self, job: JobId, attempt: int) -> None:
        self._of(job, attempt).forget(job, attempt)
        self._elsewhere.pop((job, attempt), None)

    def gc(self, *, all_dead: bool) -> None:
        self._current.gc(all_dead=all_dead and not self._has(SLURM_QUEUE_FILE))

    def _has(self, name: str) -> bool:
        return os.path.exists(f"/proc/self/fd/{self._private}/{name}")

    def kill_leftovers(self, job: JobId, attempt: int) -> None:
        self._of(job, attempt).kill_leftovers(job, attempt)

    def close(self) -> None:
        self._local.close()
        if self._slurm is not None:
            self._slurm.close()
