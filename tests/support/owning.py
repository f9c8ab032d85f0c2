"""An owner in this process, for tests of the session's parts: no command line, real jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gputui.core.events import Settings
from gputui.core.job import Ended, Job, JobId, JobSpec
from gputui.core.lanes import DeviceKind, Lane
from gputui.session import lock as locks
from gputui.session.event_loop import Act
from gputui.session.lock import Lock, OwnerKind
from gputui.session.owner.owner import Owner
from gputui.session.owner.requests import Begin, Load
from gputui.session.session_dir import Paths

from .waiting import until


def spec(command: str, **settings: object) -> JobSpec:
    fields: dict[str, object] = {"cwd": "/", "environment": "", **settings}
    return JobSpec(command=command, **fields)  # type: ignore[arg-type]


@contextmanager
def owned(root: Path, lanes: int | tuple[Lane, ...] = 2, kind: OwnerKind = OwnerKind.RUN) -> Iterator[Owner]:
    """A session that starts jobs, until the block ends."""
    paths = Paths(str(root))
    paths.create()
    lock = locks.take(paths)
    assert isinstance(lock, Lock)
    owner = Owner(paths, lock, kind)
    try:
        owner.start()
        given_lanes = _lanes(lanes) if isinstance(lanes, int) else lanes
        begin = Begin(given_lanes, given=True, change_lanes=True, cpu_jobs=2)
        owner.do(begin).result(60)
        yield owner
    finally:
        owner.close()
        lock.release()


def _lanes(count: int) -> tuple[Lane, ...]:
    return tuple(Lane(number, (str(number),), DeviceKind.SIMULATED) for number in range(count))


def add(owner: Owner, *specs: JobSpec) -> list[JobId]:
    return list(owner.do(Load(specs, dict(os.environ), "test")).result(60).jobs)


def change_settings(owner: Owner, **changes: object) -> None:
    def work(act: Act) -> None:
        act.handle(Settings(**changes))  # type: ignore[arg-type]

    owner.do(work).result(60)


def ended(owner: Owner, job_id: JobId) -> Job:
    """The job, once it has ended."""
    until(lambda: isinstance(owner.snapshot[job_id].state, Ended), f"#{job_id} has ended")
    return owner.snapshot[job_id]
