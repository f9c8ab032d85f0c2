"""The engine of a Slurm cluster: submits attempts and carries out orders about them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial

from msgspec.structs import replace

from gputui.core.events import NeverRan, NotStarted, Outcome, Vanished
from gputui.core.job import JobId
from gputui.core.steps import Step, reached
from gputui.engines.claims import Absent, ClaimedAttempts, Revoked
from gputui.engines.protocol import LEFT_BEHIND, Abilities, Launch, Report, Since, Survivor
from gputui.process.watch import EventLoop

from .attempt import BatchAttempt, BatchOrder
from .cancel import BatchStopper, Withdrawal
from .client import SlurmError, SlurmRefused
from .sbatch import meaning_of, submit
from .state import SlurmParts
from .watch import ClaimWatch, EndInquiry, QueueWatch

# ---- Gives attempts to Slurm, one after the other in a thread of their own ----


STARTED_BEFORE = "this attempt was started before"
QUEUED = "it is being given to Slurm"


class Submitter:
    """`add` and what becomes of it are of the owner's thread."""

    def __init__(
        self, parts: SlurmParts, stopper: BatchStopper, withdrawal: Withdrawal, queue_watch: QueueWatch
    ) -> None:
        self._parts = parts
        self._stopper = stopper
        self._withdrawal = withdrawal
        self._queue_watch = queue_watch

    def add(self, attempt: BatchAttempt, launch: Launch, folder: str) -> None:
        """`folder`: the session's private one."""
        self._parts.attempts.add(attempt)
        self._parts.attempts.tell_waiting(attempt, QUEUED)
        self._parts.submissions.add(partial(self._submit, attempt, _on_shared_paths(launch), folder))

    def _submit(self, attempt: BatchAttempt, launch: Launch, folder: str) -> None:
        """In the thread of submissions, as all until `_submitted`."""
        then = self._parts.in_loop(self._submitted)
        claim = self._parts.claims.read(*attempt.key)
        if self._parts.closed:
            return
        if not isinstance(claim, Absent):
            then(attempt, NeverRan() if isinstance(claim, Revoked) else Vanished(STARTED_BEFORE))
        elif attempt.order is not BatchOrder.NONE:
            then(attempt, self._withdrawal.take_back(attempt.key))
        else:
            then(attempt, self._number(attempt, launch, folder))

    def _number(self, attempt: BatchAttempt, launch: Launch, folder: str) -> int | Outcome | None:
        """None: it may be there, and has begun. A submission that is not clear is taken back by its claim."""
        try:
            number = submit(launch, attempt.token, folder, has_gpus=self._queue_watch.has_gpus)
        except SlurmRefused as refused:
            return meaning_of(refused)
        except SlurmError as error:
            self._parts.in_loop(self._queue_watch.be_in_trouble)(str(error))
            return self._withdrawal.take_back(attempt.key)
        except (OSError, ValueError) as error:
            return NotStarted(f"it cannot be given to Slurm: {error}")
        reached(Step.SPAWNED)
        return number

    def _submitted(self, attempt: BatchAttempt, number: int | Outcome | None) -> None:
        if not isinstance(number, int | None):
            self._parts.end(attempt, number)
            return
        attempt.submitted_at, attempt.number = time.monotonic(), number
        reached(Step.WATCHED)
        self._parts.attempts.tell_waiting(attempt, "Slurm has not looked at it yet")
        if attempt.order is not BatchOrder.NONE:
            self._stopper.carry_out(attempt)
        self._parts.questions.poke()


def _on_shared_paths(launch: Launch) -> Launch:
    """Paths through our own descriptors mean nothing elsewhere."""
    return replace(launch, out=_real(launch.out), err=_real(launch.err) if launch.err is not None else None)


def _real(path: str) -> str:
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


# ---- The engine of a Slurm cluster ----


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
