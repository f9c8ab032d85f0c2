"""Detection of hung jobs, which print nothing and do no work on their GPUs or CPUs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from gputui.core.events import Silence
from gputui.core.job import Job, JobId, OnHang, Running
from gputui.core.policies import ActivitySample, gpu_activity_known, is_hung, last_activity
from gputui.core.snapshot import Snapshot
from gputui.process.processes import TreeUse, use_of_trees
from gputui.session.devices.devices import Devices
from gputui.session.event_loop import Loop, Timer
from gputui.session.job_directories import Directories

SHORTEST, LONGEST = 0.25, 30.0
"""Limits of the time between two checks of a job, in seconds."""
CHECKS = 20
"""How often a job is checked during its `hang_after` period."""

Key = tuple[JobId, int]


class LastActivity(Struct):
    """The state of an attempt at its last check."""

    signs: ActivitySample | None
    """What the last check measured, or None before the first check."""
    at: float
    """Monotonic time when the attempt last showed activity."""


class Watched(Struct, frozen=True):
    """The input of one check of an attempt."""

    job: Job
    attempt: int
    pid: int | None
    logs: tuple[str, ...]
    gpu_seen: float | None
    gpu_work: float | None
    """Time when the driver last reported work on the attempt's devices. `gpu_seen` is when it last reported the devices
    at all. Like `asked`, both are wall-clock times.
    """
    asked: float


class HangWatch:
    """The watch for hung jobs. Its methods are called in the owner's thread, but the checks run in another."""

    def __init__(self, loop: Loop, directories: Directories, devices: Devices, tell: Callable[[Silence], None]) -> None:
        self._loop, self._directories, self._devices, self._tell = loop, directories, devices, tell
        self._lives: dict[Key, LastActivity] = {}
        self._snapshot: Snapshot | None = None
        self._timer: Timer | None = None
        self._due = float("inf")
        self._checking = False

    def update(self, snapshot: Snapshot) -> None:
        """Start watching new attempts and forget ended ones. Called with each new snapshot. It reads no files, because
        hundreds of jobs may start and end at the same time.
        """
        self._snapshot = snapshot
        running = {(job.id, job.issued): job for job in _running(snapshot)}
        self._lives = {key: life for key, life in self._lives.items() if key in running}
        for key in running.keys() - self._lives.keys():
            self._lives[key] = LastActivity(None, time.monotonic())
            self._check_in(_interval(running[key]))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._checking = True

    def _check_in(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        if due < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = self._loop.call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer, self._due = None, float("inf")
        watched = [self._watched(job) for job in _running(self._snapshot)] if self._snapshot is not None else []
        if watched and not self._checking:
            self._checking = True
            self._loop.run_in_thread(lambda: _read_signs(watched), self._judge)

    def _watched(self, job: Job) -> Watched:
        state = job.state
        assert isinstance(state, Running)
        files = self._directories.files(job, state.placed.attempt)
        logs = tuple(path for path in (files.out, files.err) if path is not None)
        measured, work = self._devices.recording.work_seen(job.id, state.placed.attempt)
        return Watched(job, state.placed.attempt, state.pid, logs, measured, work, time.time())

    def _judge(self, signs_of: list[tuple[Watched, ActivitySample]]) -> None:
        self._checking = False
        if self._snapshot is None:
            return
        delays = [self._judge_one(watched, signs) for watched, signs in signs_of]
        self._check_in(min(delays, default=LONGEST))

    def _judge_one(self, watched: Watched, signs: ActivitySample) -> float:
        """Judge one attempt by the result of a check. Return the seconds until the next check."""
        job, key = watched.job, (watched.job.id, watched.attempt)
        life = self._lives.get(key)
        if life is None:
            return LONGEST  # it has ended meanwhile
        if life.signs is None:
            life.signs, life.at = _initial_signs(job, signs, life.at)
        life.at, life.signs = last_activity(signs, life.signs, life.at), signs
        silent_for = signs.at - life.at
        self._report(job, watched, silent_for)
        remaining = job.spec.hang_after - silent_for
        return max(SHORTEST, min(_interval(job), remaining)) if remaining > 0 else _interval(job)

    def _report(self, job: Job, watched: Watched, silent_for: float) -> None:
        state = job.state
        flagged = isinstance(state, Running) and state.silent_since is not None
        if not is_hung(job.spec, silent_for):
            if flagged:
                self._tell(Silence(job=job.id, attempt=watched.attempt, since=None))
            return
        since = time.time() - silent_for
        if not flagged:
            self._tell(Silence(job=job.id, attempt=watched.attempt, since=since))
        elif job.spec.on_hang is not OnHang.NOTIFY:  # only in the next check, so that hooks for the silence run first
            self._tell(Silence(job=job.id, attempt=watched.attempt, since=since, may_end=True))


def _running(snapshot: Snapshot) -> list[Job]:
    jobs = (snapshot[job_id] for job_id in snapshot.active)
    return [job for job in jobs if isinstance(job.state, Running) and job.spec.hang_after > 0]


def _age(at: float | None, now: float) -> float | None:
    return max(0.0, now - at) if at is not None else None


def _interval(job: Job) -> float:
    return max(SHORTEST, min(LONGEST, job.spec.hang_after / CHECKS))


def _initial_signs(job: Job, signs: ActivitySample, started: float) -> tuple[ActivitySample, float]:
    """Return the measurements with which to compare the first check, and the time of the last activity.

    The last activity is the start of the attempt, unless an earlier owner found that the attempt hangs.
    """
    state = job.state
    if not isinstance(state, Running) or state.silent_since is None:
        return ActivitySample(at=started, cpu_seconds=0.0), started
    silent_for = max(0.0, time.time() - state.silent_since)
    return signs, signs.at - min(silent_for, signs.output_age if signs.output_age is not None else silent_for)


def _read_signs(watched: list[Watched]) -> list[tuple[Watched, ActivitySample]]:
    unmeasured = [
        each.pid for each in watched if each.pid is not None and not gpu_activity_known(_age(each.gpu_seen, each.asked))
    ]
    used = use_of_trees(unmeasured) if unmeasured else {}
    return [(each, _signs(each, used)) for each in watched]


def _signs(watched: Watched, used: dict[int, TreeUse]) -> ActivitySample:
    sizes: list[int] = []
    written: list[float] = []
    for path in watched.logs:
        with suppress(OSError):
            status = os.stat(path)
            sizes += [status.st_size, status.st_mtime_ns]
            written.append(status.st_mtime)
    use = used.get(watched.pid) if watched.pid is not None else None
    return ActivitySample(
        at=time.monotonic(),
        output=tuple(sizes),
        output_age=_age(max(written), time.time()) if written else None,
        gpu_age=_age(watched.gpu_seen, watched.asked),
        gpu_work=watched.gpu_work,
        gpu_work_age=_age(watched.gpu_work, watched.asked),
        cpu_seconds=use.cpu_seconds if use is not None else None,
    )
