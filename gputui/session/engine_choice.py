"""The engine of a session, which passes each attempt to one of the engines.

A session uses one engine at a time, depending on its slots. Each attempt records the engine that runs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from gputui.core.events import AttemptInstruction
from gputui.core.job import EngineName, JobId, Purpose
from gputui.engines.claims import MARK
from gputui.engines.local.engine import LocalEngine
from gputui.engines.protocol import Engine, EngineFactory, Launch, Report, Survivor
from gputui.process.watch import EventLoop

SLURM_QUEUE_FILE = "news"
"""Name of a file that the Slurm engine leaves in the private directory. If it exists, claims must be kept, because
Slurm's queue outlives this machine.
"""


def _slurm() -> EngineFactory:
    from gputui.engines.slurm.engine import SlurmEngine  # not loaded by sessions without Slurm

    return SlurmEngine


ENGINES: dict[EngineName, Callable[[], EngineFactory]] = {
    EngineName.LOCAL: lambda: LocalEngine,
    EngineName.SLURM: _slurm,
}
"""Functions that import the factory of each engine."""
LEFT_WORK = {EngineName.SLURM: MARK}
"""For each engine, the name of a file in the private directory. If the file exists, the next owner
creates the engine.
"""


class ChosenEngine:
    """An engine that passes each attempt to the engine responsible for it. Engines are created when they are needed."""

    def __init__(self, loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> None:
        self._private = private
        self._arguments = (loop, private, session, report)
        self._engines: dict[EngineName, Engine] = {}
        self._local = self._named(EngineName.LOCAL)
        self._elsewhere: dict[tuple[JobId, int], Engine] = {}
        """The engine of each attempt that the local engine does not run."""

    def _named(self, name: EngineName) -> Engine:
        if name not in self._engines:
            self._engines[name] = ENGINES[name]()(*self._arguments)
        return self._engines[name]

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
        for name in EngineName:
            own = [survivor for survivor in survivors if survivor.engine is name]
            # The engine's own queue may have jobs that the store does not know.
            if own or name is EngineName.LOCAL or (name in LEFT_WORK and self._has(LEFT_WORK[name])):
                engine = self._named(name)
                if engine is not self._local:
                    self._elsewhere |= {(survivor.job, survivor.attempt): engine for survivor in own}
                engine.recover(own)

    def carry_out(self, order: AttemptInstruction) -> None:
        self._of(order.job, order.attempt).carry_out(order)

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
        for engine in self._engines.values():
            engine.close()
