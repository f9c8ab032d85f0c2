"""Reads claims and exit records from the shared file system, in a thread of its own: it may be slow, or hang.

Supervisors leave empty files in `news` when an attempt begins and when it ends, so one folder is looked at, however
many attempts there are.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Struct

from gputui.core.job import JobId, Purpose
from gputui.engines.claims import BatchBegun, Claim, Claims
from gputui.process.threads import begin

from .supervisor import BEGUN, ENDED

Key = tuple[JobId, int]
SOON, LATER = 0.1, 0.5
"""Seconds between two looks: while there is news, and when there has been none for a while."""
_QUIET_LOOKS = 100


class ClaimReading(Struct, frozen=True):
    """What the disk tells of an attempt."""

    key: Key
    claim: Claim
    begun: BatchBegun | None
    asked: Purpose | None


class Records:
    """`tell` is called in the thread that reads, with all that was read at once."""

    def __init__(self, private: int, claims: Claims, tell: Callable[[list[ClaimReading]], None]) -> None:
        self.folder = f"/proc/self/fd/{private}/news"
        self._claims = claims
        self._tell = tell
        self._wanted: queue.SimpleQueue[Iterable[Key] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Key] = queue.SimpleQueue()
        self._seen: set[str] = set()
        self._quiet = 0
        with suppress(FileExistsError):
            os.mkdir(self.folder, 0o700)
        self._thread = begin(self._work, "gputui-records")

    def read(self, keys: Iterable[Key]) -> None:
        self._wanted.put(tuple(keys))

    def close(self) -> None:
        self._wanted.put(None)
        self._thread.join(1.0)

    def discard(self, key: Key) -> None:
        """The news of an attempt whose end was read: its claim tells the same to whoever comes next."""
        self._done.put(key)

    def _clear(self, job: JobId, attempt: int) -> None:
        for word in (BEGUN, ENDED):
            with suppress(OSError):
                os.unlink(f"{self.folder}/{job}.{attempt}.{word}")

    def _work(self) -> None:
        while True:
            keys: set[Key] = set()
            with suppress(queue.Empty):
                wanted = self._wanted.get(timeout=LATER if self._quiet > _QUIET_LOOKS else SOON)
                if wanted is None:
                    return
                keys.update(wanted)
            keys |= self._fresh()
            self._quiet = 0 if keys else self._quiet + 1
            while not self._done.empty():
                self._clear(*self._done.get())
            if keys:
                self._tell([self._reading(key) for key in sorted(keys)])

    def _fresh(self) -> set[Key]:
        try:
            names = set(os.listdir(self.folder))
        except OSError:
            return set()
        fresh, self._seen = names - self._seen, names
        return {key for name in fresh if (key := _key(name)) is not None}

    def _reading(self, key: Key) -> ClaimReading:
        return ClaimReading(key, self._claims.read(*key), self._claims.begun(*key), self._claims.asked(*key))


def _key(name: str) -> Key | None:
    job, _, rest = name.partition(".")
    attempt, _, word = rest.partition(".")
    return (int(job), int(attempt)) if job.isdecimal() and attempt.isdecimal() and word in (BEGUN, ENDED) else None
