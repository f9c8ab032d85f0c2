"""Two threads that watch attempts in Slurm: one queries Slurm's queue, and the other reads claims and exit records."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Struct

from gputui.core.job import JobId, Purpose
from gputui.engines.claims import BatchStarted, Claim, Claims
from gputui.process.processes import user_name
from gputui.process.watch import start_thread

from .client import NoSlurm, SlurmCommands, SlurmError
from .parse import SlurmJob, SlurmNode
from .supervisor import BEGUN, ENDED

EVERY, SELDOM = 2.0, 30.0
GROWTH = 1.3
NODES_EVERY = 60.0


class QueueAnswer(Struct, frozen=True):
    jobs: list[SlurmJob] | None
    """The jobs in the queue, or None if Slurm did not answer."""
    asked_at: float
    """Time of the query on the monotonic clock."""
    trouble: str = ""
    nodes: list[SlurmNode] | None = None


class QueuePoller:
    """Thread that queries Slurm's queue regularly, less often while nothing changes.

    It calls `notify` in that thread.
    """

    def __init__(
        self, commands: SlurmCommands, notify: Callable[[QueueAnswer], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._commands = commands
        self._notify = notify
        self._user = user_name(os.geteuid())
        self._wake = threading.Condition()
        self._poked = True
        self._idle = False
        self._closed = False
        self._interval = EVERY
        self._last: list[tuple[str, str, str | None]] | None = None
        self._nodes_at = float("-inf")
        self._silent_since: float | None = None
        start_thread(self._work, "gputui-questions", failed)

    def poke(self) -> None:
        """Request a query soon."""
        with self._wake:
            self._poked, self._idle, self._interval = True, False, EVERY
            self._wake.notify()

    def rest(self) -> None:
        """Stop querying until the next `poke`."""
        self._idle = True

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _work(self) -> None:
        asked_at = float("-inf")
        while self._await(asked_at):
            asked_at = time.monotonic()
            answer = self._ask(asked_at)
            if not self._closed:
                self._notify(answer)

    def _await(self, asked_at: float) -> bool:
        """Wait until the next query is due, at least EVERY seconds after the last one.

        Return False if the poller was closed.
        """
        with self._wake:
            while not self._closed:
                now = time.monotonic()
                due = asked_at + (EVERY if self._poked else self._interval)
                if now >= due and not (self._idle and self._silent_since is None and not self._poked):
                    self._poked = False
                    return True
                self._wake.wait(max(0.0, due - now) if now < due else None)
        return False

    def _ask(self, at: float) -> QueueAnswer:
        nodes: list[SlurmNode] | None = None
        try:
            jobs = self._commands.queue(self._user)
            if at - self._nodes_at >= NODES_EVERY:
                nodes, self._nodes_at = self._commands.nodes(), at
        except SlurmError as error:
            self._silent_since = self._silent_since or time.time()
            self._interval = min(SELDOM, self._interval * GROWTH)
            since = time.strftime("%H:%M", time.localtime(self._silent_since))
            words = str(error) if isinstance(error, NoSlurm) else f"Slurm not responding since {since} ({error})"
            return QueueAnswer(None, at, words)
        self._silent_since = None
        state = [(job.id, job.state, job.reason) for job in jobs]
        self._interval = min(SELDOM, self._interval * GROWTH) if state == self._last else EVERY
        self._last = state
        return QueueAnswer(jobs, at, "", nodes)


Key = tuple[JobId, int]
SOON, LATER = 0.1, 0.5
"""Seconds between two scans: the usual interval, and the interval after many scans without news."""
_QUIET_LOOKS = 100


class ClaimReading(Struct, frozen=True):
    """What the shared file system says about an attempt."""

    key: Key
    claim: Claim
    begun: BatchStarted | None
    asked: Purpose | None
    ended: bool
    """Whether the supervisor has left the note that the attempt ended.

    The note stays until Slurm knows about the end too.
    """


class ClaimReader:
    """Thread that reads claims when a supervisor leaves a note, or on request. It calls `notify` in that thread."""

    def __init__(
        self, private: int, claims: Claims, notify: Callable[[list[ClaimReading]], None],
        failed: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self._directory = f"/proc/self/fd/{private}/news"
        self._claims = claims
        self._notify = notify
        self._wanted: queue.SimpleQueue[Iterable[Key] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Key] = queue.SimpleQueue()
        self._seen: set[str] = set()
        with suppress(FileExistsError):
            os.mkdir(self._directory, 0o700)
        self._thread = start_thread(self._work, "gputui-records", failed)

    def read(self, keys: Iterable[Key]) -> None:
        self._wanted.put(tuple(keys))

    def discard(self, key: Key) -> None:
        """Remove the notes about an attempt."""
        self._done.put(key)

    def close(self) -> None:
        self._wanted.put(None)
        self._thread.join(1.0)

    def _work(self) -> None:
        quiet_looks = 0
        while True:
            keys: set[Key] = set()
            with suppress(queue.Empty):
                wanted = self._wanted.get(timeout=LATER if quiet_looks > _QUIET_LOOKS else SOON)
                if wanted is None:
                    return
                keys.update(wanted)
            keys |= self._fresh()
            quiet_looks = 0 if keys else quiet_looks + 1
            while not self._done.empty():
                job, attempt = self._done.get()
                for word in (BEGUN, ENDED):
                    with suppress(OSError):
                        os.unlink(f"{self._directory}/{job}.{attempt}.{word}")
            if keys:
                self._notify([self._reading(key) for key in sorted(keys)])

    def _fresh(self) -> set[Key]:
        """Return the attempts for which there are new notes since the last scan."""
        try:
            names = set(os.listdir(self._directory))
        except OSError:
            return set()
        fresh, self._seen = names - self._seen, names
        parts = [name.split(".") for name in fresh]
        return {
            (int(part[0]), int(part[1]))
            for part in parts
            if len(part) == 3 and part[0].isdecimal() and part[1].isdecimal() and part[2] in (BEGUN, ENDED)
        }

    def _reading(self, key: Key) -> ClaimReading:
        ended = f"{key[0]}.{key[1]}.{ENDED}" in self._seen
        return ClaimReading(key, self._claims.read(*key), self._claims.begun(*key), self._claims.asked(*key), ended)
