"""The engine of a Slurm cluster: gives attempts to Slurm, sees them begin and end, takes them back, stops them.

Never waits for Slurm or the shared file system in the owner's thread: submissions, questions, orders and the reading
of records have threads of their own, which tell this one. The claim decides what runs; Slurm's word only tells why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from gputui.core.events import Vanished
from gputui.core.job import JobId
from gputui.engines.claimed_attempts import ClaimedAttempts
from gputui.engines.protocol import LEFT_BEHIND, Abilities, Launch, Report, Since, Survivor
from gputui.process.event_loop import EventLoop

from .claim_watch import ClaimWatch
from .inquiry import EndInquiry
from .live import BatchAttempt, BatchOrder
from .parts import SlurmParts
from .queue_watch import QueueWatch
from .stop import BatchStopper
from .submitter import Submitter
from .withdrawal import Withdrawal


class SlurmEngine(ClaimedAttempts):
    """`private`, the session's private folder, must be on a file system that the nodes share."""

    abilities = Abilities(can_suspend=True, can_pin_device=False, telemetry=False, leaves_processes=False)

    def __init__(self, loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> None:
        super().__init__(private, session)
        self._parts = parts = SlurmParts(
            loop, private, session, self._claims, report,
            lambda readings: self._claim_watch.take(readings), lambda answer: self._queue_watch.take(answer),
        )  # fmt: skip
        self._revoked = parts.revoked
        withdrawal = Withdrawal(parts)
        inquiry = EndInquiry(parts, withdrawal)
        self._stopper = BatchStopper(parts)
        self._claim_watch = ClaimWatch(parts, self._stopper, withdrawal, inquiry)
        self._queue_watch = QueueWatch(parts, self._stopper, inquiry)
        self._submitter = Submitter(parts, self._stopper, withdrawal, self._queue_watch)

    def start(self, launches: Iterable[Launch]) -> None:
        self._claims.make_folder()
        folder = self._parts.folder
        for launch in launches:
            if launch.folder is not None:
                os.close(launch.folder)
            key = (launch.job, launch.attempt)
            self._submitter.add(BatchAttempt(key, self.token(*key), launch.cwd), launch, folder)

    def recover(self, survivors: list[Survivor]) -> None:
        for survivor in survivors:
            key = (survivor.job, survivor.attempt)
            attempt = BatchAttempt(key, self.token(*key), survived=True, submitted_at=time.monotonic())
            self._parts.attempts.add(attempt)
            if survivor.since is Since.COPY:
                self._parts.end(attempt, Vanished(LEFT_BEHIND[Since.COPY]))
        self._parts.records.read([attempt.key for attempt in self._parts.attempts])
        if self._parts.attempts:
            self._parts.questions.poke()

    def withdraw(self, job: JobId, attempt: int) -> None:
        self._stopper.order((job, attempt), BatchOrder.WITHDRAW)

    def terminate(self, job: JobId, attempt: int) -> None:
        self._stopper.order((job, attempt), BatchOrder.TERMINATE)

    def kill(self, job: JobId, attempt: int) -> None:
        self._stopper.order((job, attempt), BatchOrder.KILL)

    def suspend(self, job: JobId, attempt: int) -> None:
        self._stopper.set_suspended((job, attempt), True)

    def resume(self, job: JobId, attempt: int) -> None:
        self._stopper.set_suspended((job, attempt), False)

    def gc(self, *, all_dead: bool) -> None:
        """Revocations stay, however old: Slurm's queue may be older."""
        self._claims.remove_unwanted(lambda *key: key in self._parts.attempts, all_dead=False)

    def kill_leftovers(self, job: JobId, attempt: int) -> None:
        """There are none: the supervisor, and Slurm after it, end what a command leaves."""

    def close(self) -> None:
        self._parts.close()
        if not self._queue_watch.trouble:
            self._parts.leftovers.sweep()
        self._parts.records.close()
        self._parts.attempts.clear()
