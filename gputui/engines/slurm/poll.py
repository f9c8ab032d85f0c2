"""Two threads that watch attempts in Slurm: one queries Slurm's queue, and the other reads claims and exit records."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from msgspec import Struct

from gputui.core.job import JobId
from gputui.engines.claims import ClaimFile, Claims, parse_key
from gputui.process.processes import user_name
from gputui.process.watch import WorkerThread

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
    """Queries Slurm's queue in a thread, less often while nothing changes, and calls `notify` in that thread."""

    def __init__(
        self, commands: SlurmCommands, notify: Callable[[QueueAnswer], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._commands = commands
        self._notify = notify
        self._user = user_name(os.geteuid())
        self._resting = False
        self._asked_at = float("-inf")
        self._interval = EVERY
        self._last: list[tuple[str, str, str | None]] | None = None
        self._nodes_at = float("-inf")
        self._silent_since: float | None = None
        self._thread = WorkerThread("gputui-questions", failed, self._ask_if_due)

    def poke(self) -> None:
        """Request a query soon, but at least EVERY seconds after the last one."""
        self._thread.add(self._poked)

    def rest(self) -> None:
        """Stop querying until the next `poke`."""
        self._thread.add(self._rested)

    def close(self) -> None:
        self._thread.close(0.0)

    def _poked(self) -> None:
        self._resting, self._interval = False, EVERY

    def _rested(self) -> None:
        self._resting = True

    def _ask_if_due(self) -> float | None:
        """Query Slurm if it is time. Return the seconds until the next query, or None to wait for a poke."""
        if self._resting and self._silent_since is None:
            return None
        now = time.monotonic()
        if now < self._asked_at + self._interval:
            return self._asked_at + self._interval - now
        self._asked_at = now
        self._notify(self._ask(now))
        return 0.0

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
"""Seconds between two scans: the usual interval, and the interval after many scans that found nothing new."""
_QUIET_LOOKS = 100


class ClaimReading(Struct, frozen=True):
    """What the shared file system says about an attempt."""

    key: Key
    file: ClaimFile
    ended: bool
    """Whether the supervisor has left a note about the end. The note stays until Slurm knows about the end too."""


class ClaimReader:
    """Reads claims in a thread, on request or when a supervisor leaves a note, and calls `notify` in that thread."""

    def __init__(
        self, private: int, claims: Claims, notify: Callable[[list[ClaimReading]], None],
        failed: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self._directory = f"/proc/self/fd/{private}/news"
        self._claims = claims
        self._notify = notify
        self._seen: set[str] = set()
        self._quiet_looks = 0
        with suppress(FileExistsError):
            os.mkdir(self._directory, 0o700)
        self._thread = WorkerThread("gputui-records", failed, self._look)

    def read(self, keys: Iterable[Key]) -> None:
        self._thread.add(partial(self._read, set(keys)))

    def discard(self, key: Key) -> None:
        """Remove the notes about an attempt."""
        self._thread.add(partial(self._discard, key))

    def close(self) -> None:
        self._thread.close(1.0)

    def _look(self) -> float:
        """Read the claims with new notes. Return the seconds until the next scan."""
        self._read(set())
        return LATER if self._quiet_looks > _QUIET_LOOKS else SOON

    def _read(self, keys: set[Key]) -> None:
        keys |= self._fresh()
        self._quiet_looks = 0 if keys else self._quiet_looks + 1
        if keys:
            self._notify([self._reading(key) for key in sorted(keys)])

    def _discard(self, key: Key) -> None:
        for word in (BEGUN, ENDED):
            with suppress(OSError):
                os.unlink(f"{self._directory}/{key[0]}.{key[1]}.{word}")

    def _fresh(self) -> set[Key]:
        """Return the attempts for which there are new notes since the last scan."""
        try:
            names = set(os.listdir(self._directory))
        except OSError:
            return set()
        fresh, self._seen = names - self._seen, names
        notes = (name.rpartition(".")[::2] for name in fresh)
        keys = (parse_key(key) for key, word in notes if word in (BEGUN, ENDED))
        return {key for key in keys if key is not None}

    def _reading(self, key: Key) -> ClaimReading:
        ended = f"{key[0]}.{key[1]}.{ENDED}" in self._seen
        return ClaimReading(key, self._claims.read_file(*key), ended)
