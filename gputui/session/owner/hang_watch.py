"""Watches running jobs for signs of life: what they print, and what their GPUs or processors do.

Collects, in a worker thread where that may take long; what it means is decided by `core/attempts/hanging.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from gputui.core.attempts.hanging import Signs, driver_tells, is_hung, last_life
from gputui.core.attempts.policies import OnHang
from gputui.core.events import Silence
from gputui.core.job import Job, JobId, Running
from gputui.core.snapshot import Snapshot
from gputui.process.processes import cpu_seconds
from gputui.session.devices.devices import Devices
from gputui.session.files.folders import Folders

from .loop import Loop, Timer
from .stacks import StackKeeper
from .ticket import Ticket

if TYPE_CHECKING:
    from .owner import Owner

SHORTEST, LONGEST = 0.25, 30.0
"""Seconds between two looks."""
LOOKS = 20
"""In the time after which a job counts as hung."""

Key = tuple[JobId, int]


class Life(Struct):
    """One attempt as it was last seen."""

    signs: Signs | None
    """None: it has begun and was not looked at yet."""
    at: float
    """When it last did something."""


class Watched(Struct, frozen=True):
    """What there is to look at of one attempt."""

    job: Job
    attempt: int
    pid: int | None
    logs: tuple[str, ...]
    gpu_seen: float | None
    gpu_work: float | None
    """When the driver last told of its devices, and of work there; by the wall clock, as `asked`."""
    asked: float


class HangWatch:
    """In the owner's thread, but for the looking itself."""

    def __init__(self, loop: Loop, folders: Folders, devices: Devices, tell: Callable[[Silence], None]) -> None:
        self._loop, self._folders, self._devices, self._tell = loop, folders, devices, tell
        self._lives: dict[Key, Life] = {}
        self._stacks = StackKeeper(loop, folders)
        self._snapshot: Snapshot | None = None
        self._timer: Timer | None = None
        self._due = float("inf")
        self._looking = False

    def look(self, snapshot: Snapshot) -> None:
        """Called with each new snapshot; nothing is read here, for jobs may begin and end by the hundred."""
        self._snapshot = snapshot
        running = {(job.id, job.issued): job for job in _running(snapshot)}
        self._lives = {key: life for key, life in self._lives.items() if key in running}
        for key in running.keys() - self._lives.keys():
            self._lives[key] = Life(None, time.monotonic())
            self._look_in(_interval(running[key]))

    def close(self) -> None:
        self._stacks.close()
        if self._timer is not None:
            self._timer.cancel()
        self._looking = True

    def _look_in(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        if due < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer, self._due = None, float("inf")
        watched = [self._watched(job) for job in _running(self._snapshot)] if self._snapshot is not None else []
        if watched and not self._looking:
            self._looking = True
            self._loop.run_in_thread(lambda: _seen(watched), self._judge)

    def _watched(self, job: Job) -> Watched:
        state = job.state
        assert isinstance(state, Running)
        files = self._folders.files(job, state.placed.attempt)
        logs = tuple(path for path in (files.out, files.err) if path is not None)
        measured, work = self._devices.recording.work_seen(job.id, state.placed.attempt)
        return Watched(job, state.placed.attempt, state.pid, logs, measured, work, time.time())

    def _judge(self, signs_of: list[tuple[Watched, Signs]]) -> None:
        self._looking = False
        if self._snapshot is None:
            return
        delays = [self._judge_one(watched, signs) for watched, signs in signs_of]
        self._look_in(min(delays, default=LONGEST))

    def _judge_one(self, watched: Watched, signs: Signs) -> float:
        """Seconds until it must be looked at again."""
        job, key = watched.job, (watched.job.id, watched.attempt)
        life = self._lives.get(key)
        if life is None:
            return LONGEST  # it has ended meanwhile
        if life.signs is None:
            life.signs, life.at = _before(job, signs, life.at)
        life.at, life.signs = last_life(signs, life.signs, life.at), signs
        silent_for = signs.at - life.at
        self._say(job, watched, silent_for)
        remaining = job.spec.hang_after - silent_for
        return max(SHORTEST, min(_interval(job), remaining)) if remaining > 0 else _interval(job)

    def _say(self, job: Job, watched: Watched, silent_for: float) -> None:
        state = job.state
        flagged = isinstance(state, Running) and state.silent_since is not None
        if not is_hung(job.spec, silent_for):
            if flagged:
                self._tell(Silence(job=job.id, attempt=watched.attempt, since=None))
            return
        since = time.time() - silent_for
        if not flagged:
            self._tell(Silence(job=job.id, attempt=watched.attempt, since=since))
        if job.spec.on_hang is not OnHang.NOTIFY:
            event = Silence(job=job.id, attempt=watched.attempt, since=since, may_end=True)
            self._stacks.keep(job, watched.attempt, watched.pid, lambda: self._tell(event))


def watch_for_hangs(owner: Owner) -> None:
    """From its first turn on."""

    def tell(event: Silence) -> None:
        owner.take(Ticket(lambda act: act.handle(event)))

    watch = HangWatch(owner.loop, owner.folders, owner.devices, tell)
    owner.on_turn.append(watch.look)
    owner.on_leaving.append(watch.close)


def _running(snapshot: Snapshot) -> list[Job]:
    jobs = (snapshot[job_id] for job_id in snapshot.active)
    return [job for job in jobs if isinstance(job.state, Running) and job.spec.hang_after > 0]


def _age(at: float | None, now: float) -> float | None:
    return max(0.0, now - at) if at is not None else None


def _interval(job: Job) -> float:
    return max(SHORTEST, min(LONGEST, job.spec.hang_after / LOOKS))


def _before(job: Job, signs: Signs, begun: float) -> tuple[Signs, float]:
    """What there was before the first look, and when it was alive: at its beginning, as far as is known.

    What an earlier owner saw of one that hangs stands.
    """
    state = job.state
    if not isinstance(state, Running) or state.silent_since is None:
        return Signs(at=begun, cpu_seconds=0.0), begun
    silent_for = max(0.0, time.time() - state.silent_since)
    return signs, signs.at - min(silent_for, signs.output_age if signs.output_age is not None else silent_for)


def _seen(watched: list[Watched]) -> list[tuple[Watched, Signs]]:
    unmeasured = [
        each.pid for each in watched if each.pid is not None and not driver_tells(_age(each.gpu_seen, each.asked))
    ]
    used = cpu_seconds(unmeasured) if unmeasured else {}
    return [(each, _signs(each, used)) for each in watched]


def _signs(watched: Watched, used: dict[int, float]) -> Signs:
    sizes: list[int] = []
    written: list[float] = []
    for path in watched.logs:
        with suppress(OSError):
            status = os.stat(path)
            sizes += [status.st_size, status.st_mtime_ns]
            written.append(status.st_mtime)
    return Signs(
        at=time.monotonic(),
        output=tuple(sizes),
        output_age=_age(max(written), time.time()) if written else None,
        gpu_age=_age(watched.gpu_seen, watched.asked),
        gpu_work=watched.gpu_work,
        gpu_work_age=_age(watched.gpu_work, watched.asked),
        cpu_seconds=used.get(watched.pid) if watched.pid is not None else None,
    )
