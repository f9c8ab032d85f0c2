"""Which engine runs a session's attempts: the one place in `session` that knows engines by their names.

A session has attempts of one engine at a time; which one, its lanes say, and each attempt remembers it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from gputui.core.job import EngineName, JobId, Purpose
from gputui.engines.claims import MARK
from gputui.engines.local.engine import LocalEngine
from gputui.engines.protocol import Abilities, Engine, Launch, Report, Survivor
from gputui.process.watch import EventLoop

_TRACE_OF_SLURM = "news"
"""A folder of the private one that only the engine of a cluster makes."""


def engines(loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> Engine:
    return ChosenEngine(loop, private, session, report)


class ChosenEngine:
    """This machine's engine; another one is made when an attempt is to run there, or has run there before."""

    def __init__(self, loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> None:
        self._private = private
        self._local = LocalEngine(loop, private, session, report)
        self._slurm: Engine | None = None
        self._make_slurm: Callable[[], Engine] = partial(_slurm_engine, loop, private, session, report)
        self._there: set[tuple[JobId, int]] = set()
        """The attempts that are not this machine's."""

    def _other(self) -> Engine:
        if self._slurm is None:
            self._slurm = self._make_slurm()
        return self._slurm

    def _of(self, job: JobId, attempt: int) -> Engine:
        return self._other() if (job, attempt) in self._there else self._local

    @property
    def abilities(self) -> Abilities:
        return self._slurm.abilities if self._slurm is not None and self._there else self._local.abilities

    def token(self, job: JobId, attempt: int) -> str:
        return self._local.token(job, attempt)

    def start(self, launches: Iterable[Launch]) -> None:
        """All are of one engine, which gets each as soon as it is there."""
        remaining = iter(launches)
        first = next(remaining, None)
        if first is None:
            return
        engine = self._local if first.engine is EngineName.LOCAL else self._other()
        engine.start(self._noted(first, remaining))

    def _noted(self, first: Launch, others: Iterator[Launch]) -> Iterator[Launch]:
        for launch in _chained(first, others):
            if launch.engine is not EngineName.LOCAL:
                self._there.add((launch.job, launch.attempt))
            yield launch

    def recover(self, survivors: list[Survivor]) -> None:
        there = [survivor for survivor in survivors if survivor.engine is not EngineName.LOCAL]
        self._there |= {(survivor.job, survivor.attempt) for survivor in there}
        self._local.recover([survivor for survivor in survivors if survivor.engine is EngineName.LOCAL])
        if there or self._has(MARK):
            self._other().recover(there)

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
        self._there.discard((job, attempt))

    def gc(self, *, all_dead: bool) -> None:
        """A cluster's queue outlives this machine: where it was used, revocations stay."""
        used = self._has(_TRACE_OF_SLURM)
        engine = self._slurm if self._there and self._slurm is not None else self._local
        engine.gc(all_dead=all_dead and not used)

    def _has(self, name: str) -> bool:
        return os.path.exists(f"/proc/self/fd/{self._private}/{name}")

    def kill_leftovers(self, job: JobId, attempt: int) -> None:
        self._of(job, attempt).kill_leftovers(job, attempt)

    def close(self) -> None:
        self._local.close()
        if self._slurm is not None:
            self._slurm.close()


def _chained(first: Launch, others: Iterator[Launch]) -> Iterator[Launch]:
    yield first
    yield from others


def _slurm_engine(loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> Engine:
    from gputui.engines.slurm.engine import SlurmEngine  # nobody else pays for it

    return SlurmEngine(loop, private, session, report)
