"""Attempts that were taken back and may still stand in Slurm's queue: they never run, but hold a place of the user's.

A file names those that there may be, until Slurm was asked after the last one and listed none: so whoever comes next
knows it too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from gputui.core.job import JobId
from gputui.engines.claims import Claims, Revoked
from gputui.engines.queue_mark import MARK, key_of

from .answers import Phase, SlurmJob
from .commands import SlurmCommands, SlurmError
from .submission import token_of

OWN_PATIENCE, INHERITED_PATIENCE = 4.0, 2.0
"""Seconds that a leaving owner waits for Slurm: for what it took back itself, and for what others did."""


class Leftovers:
    """Not for the owner's thread, except when it leaves."""

    def __init__(self, private: int, session: str, claims: Claims, user: str) -> None:
        self._path = f"/proc/self/fd/{private}/{MARK}"
        self._mine = f"{session}."
        self._claims = claims
        self._user = user
        self._lock = threading.Lock()
        self._noted_at = float("-inf")

    def note(self, job: JobId, attempt: int) -> None:
        """It is about to be taken back, or just was."""
        with self._lock, suppress(OSError):
            self._noted_at = time.monotonic()
            line = b"%d.%d\n" % (job, attempt)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "r+b", buffering=0) as file:
                if line not in file.readlines():
                    file.write(line)

    def none_at(self, asked_at: float) -> None:
        """Slurm, asked then, listed none."""
        with self._lock, suppress(OSError):
            if self._noted_at < asked_at:
                os.unlink(self._path)

    def sweep(self) -> None:
        """Cancels them; when Slurm does not answer soon, the next owner does."""
        own = self._noted_at > float("-inf")
        if not own and not os.path.exists(self._path):
            return
        end = time.monotonic() + (OWN_PATIENCE if own else INHERITED_PATIENCE)
        with suppress(SlurmError):
            asked_at = time.monotonic()
            self._cancel(lambda: SlurmCommands(patience=max(0.5, end - time.monotonic())))
            self.none_at(asked_at)

    def _cancel(self, commands: Callable[[], SlurmCommands]) -> None:
        revoked = [job.id for job in commands().queue(self._user) if job.phase is Phase.WAITING and self._is_left(job)]
        if revoked:
            commands().cancel(*revoked)

    def _is_left(self, job: SlurmJob) -> bool:
        token = token_of(job)
        if token is None or not token.startswith(self._mine):
            return False
        key = key_of(token.removeprefix(self._mine))
        return key is not None and isinstance(self._claims.read(*key), Revoked)
