"""What the engine's parts share: attempts, claims, threads, and attempts that must still be cancelled."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from gputui.core.events import EngineTrouble, NodesSeen, Outcome
from gputui.core.job import JobId
from gputui.engines.claims import MARK, Claims, Revoked, key_of
from gputui.engines.protocol import Report
from gputui.process.watch import EventLoop

from .attempt import BatchAttempt, BatchAttempts, ClaimReading, Key, Records, SlurmVerdict
from .client import Errands, SlurmCommands, SlurmError
from .parse import Phase, SlurmJob
from .poll import Questions, QueueAnswer
from .sbatch import Orders, token_of

# ---- Attempts that were taken back and may still stand in Slurm's queue ----


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


# ---- What the parts of the engine share ----


AGAIN_AFTER = 1.0
"""Seconds until a claim is read again."""


class Finished(Struct):
    """An attempt that left a record of its end, and that Slurm may not know to have ended."""

    at: float
    """When its end was read, on the monotonic clock."""
    slurm_knows: bool = False


class SlurmParts:
    """`take_readings` and `take_answer` are called in the owner's thread, as long as nothing is closed."""

    def __init__(
        self,
        loop: EventLoop,
        private: int,
        session: str,
        claims: Claims,
        report: Callable[[Report], None],
        take_readings: Callable[[list[ClaimReading]], None],
        take_answer: Callable[[QueueAnswer], None],
    ) -> None:
        self.loop = loop
        self.session = session
        self.claims = claims
        self.closed = False
        self.revoked: set[Key] = set()
        self.finished: dict[Key, Finished] = {}
        self.attempts = BatchAttempts(report)
        self.commands = SlurmCommands()
        self.records = Records(private, claims, self.in_loop(take_readings))
        self.questions = Questions(self.commands, self.in_loop(take_answer))
        self.submissions = Errands("gputui-submissions")
        self.orders = Orders(self.commands, Errands("gputui-orders"))
        self.leftovers = Leftovers(private, session, claims, self.orders.user)
        self._private = private
        self._report = report

    @property
    def folder(self) -> str:
        """The session's private folder, by the path that nodes know it under."""
        return os.readlink(f"/proc/self/fd/{self._private}")

    def in_loop(self, call: Callable[..., None]) -> Callable[..., None]:
        """The same, for another thread."""

        def hand_over(*arguments: object) -> None:
            self.loop.call_soon_threadsafe(lambda: None if self.closed else call(*arguments))

        return hand_over

    def tell(self, news: EngineTrouble | NodesSeen) -> None:
        self._report(news)

    def read_again(self, attempt: BatchAttempt) -> None:
        self.loop.call_later(AGAIN_AFTER, lambda: self.records.read([attempt.key]))

    def end(self, attempt: BatchAttempt, outcome: Outcome, at: float | None = None) -> None:
        self.end_by(attempt, SlurmVerdict(outcome), at)

    def end_by(self, attempt: BatchAttempt, verdict: SlurmVerdict, at: float | None = None) -> None:
        """`at`: when its supervisor wrote down that it ended; None: it did not."""
        if attempt.key in self.attempts:
            if at is not None:
                self.finished[attempt.key] = Finished(time.monotonic())
            else:
                self.records.discard(attempt.key)
            self.attempts.end(attempt, verdict, at)

    def close(self) -> None:
        self.closed = True
        self.questions.close()
        self.submissions.close()
        self.orders.errands.close()
