"""Watches running jobs for signs of life, and the stacks of hung ones."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from gputui.core.events import Silence
from gputui.core.job import Job, JobId, OnHang, Running
from gputui.core.policies import Signs, driver_tells, is_hung, last_life
from gputui.core.snapshot import Snapshot
from gputui.process.processes import command_line, cpu_seconds, descendants
from gputui.process.watch import NoThread, begin
from gputui.session.devices.devices import Devices
from gputui.session.errors import SessionError
from gputui.session.event_loop import Loop, Ticket, Timer
from gputui.session.job_folders import Folders

if TYPE_CHECKING:
    from .owner import Owner


# ---- Where a hung Python program stands ----


PATIENCE = 10.0
"""Seconds for one program."""
MOST = 8
"""Programs of an attempt that are looked into."""


class StackKeeper:
    """Once for each attempt; whoever asks again while it is under way is not told twice."""

    def __init__(self, loop: Loop, folders: Folders) -> None:
        self._loop = loop
        self._folders = folders
        self._asked: set[tuple[JobId, int]] = set()
        self._closed = False

    def keep(self, job: Job, attempt: int, wrapper: int | None, then: Callable[[], None]) -> None:
        """`then` is called in the owner's thread, also where nothing could be kept."""
        key = (job.id, attempt)
        tool = spy()
        if tool is None or wrapper is None:
            then()
        elif key not in self._asked:
            self._asked.add(key)
            with suppress(NoThread):
                begin(lambda: self._keep(tool, job, attempt, wrapper, then), "gputui-stack")
                return
            then()

    def close(self) -> None:
        self._closed = True

    def _keep(self, tool: str, job: Job, attempt: int, wrapper: int, then: Callable[[], None]) -> None:
        try:
            text = "\n".join(_dumped(tool, pid) for pid in _programs(wrapper))
            with suppress(OSError, SessionError), self._folders.enter(job) as folder:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(f"stack.{attempt}.txt", flags, 0o666, dir_fd=folder.fd), "w") as file:
                    file.write(text or "none of its programs is Python\n")
        finally:
            if not self._closed:
                self._loop.call_soon_threadsafe(then)


def spy() -> str | None:
    """py-spy, as whoever started the owner would find it, or beside our own Python."""
    import shutil

    beside = os.path.dirname(sys.executable)
    return shutil.which("py-spy", path=os.pathsep.join([os.environ.get("PATH", os.defpath), beside]))


def _programs(wrapper: int) -> list[int]:
    return [pid for pid in descendants(wrapper) if "python" in command_line(pid)][:MOST]


def _dumped(tool: str, pid: int) -> str:
    import subprocess  # of every owner hardly one needs it

    head = f"# {command_line(pid)}\n"
    try:
        done = subprocess.run(
            [tool, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{head}{error}\n"
    return head + done.stdout.decode("utf-8", "replace")


# ---- Watches running jobs for signs of life ----


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
