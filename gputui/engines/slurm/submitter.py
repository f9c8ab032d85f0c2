"""Gives attempts to Slurm, one after the other in a thread of their own."""

from __future__ import annotations

import os
import time
from functools import partial

from msgspec.structs import replace

from gputui.core.events import NeverRan, NotStarted, Outcome, Vanished
from gputui.core.steps import Step, reached
from gputui.engines.claims import Absent, Revoked
from gputui.engines.protocol import Launch

from .commands import SlurmError, SlurmRefused
from .live import BatchAttempt, BatchOrder
from .parts import SlurmParts
from .queue_watch import QueueWatch
from .stop import BatchStopper
from .submission import meaning_of, submit
from .withdrawal import Withdrawal

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
