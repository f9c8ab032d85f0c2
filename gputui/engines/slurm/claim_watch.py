"""What the disk tells of attempts in Slurm: that they began, how they ended, and what it means where it is silent."""

from __future__ import annotations

import time

from gputui.core.events import Exited, NeverRan, NotStarted
from gputui.core.steps import Step, reached
from gputui.engines.claims import Absent, BatchBegun, FolderGone, LogFailed, Revoked, Unreadable, WrittenExit

from .live import BatchAttempt, BatchOrder
from .outcomes import after_exit, without_record
from .parts import SlurmParts
from .records import ClaimReading
from .stop import BatchStopper
from .supervisor import KILLED
from .withdrawal import Withdrawal

RECORD_PATIENCE = 60.0
"""Seconds in which an exit record may come late: another machine's files are not seen at once."""
WORD_PATIENCE = 12.0
"""Seconds in which Slurm may say why it ended an attempt."""


class ClaimWatch:
    """In the owner's thread."""

    def __init__(self, parts: SlurmParts, stopper: BatchStopper, withdrawal: Withdrawal) -> None:
        self._parts = parts
        self._stopper = stopper
        self._withdrawal = withdrawal

    def take(self, readings: list[ClaimReading]) -> None:
        for reading in readings:
            attempt = self._parts.attempts.get(reading.key)
            if attempt is None:
                self._parts.records.discard(reading.key)
            else:
                attempt.asked = reading.asked or attempt.asked
                attempt.asking = False
                self._compare(attempt, reading)

    def _compare(self, attempt: BatchAttempt, reading: ClaimReading) -> None:
        if reading.begun is not None:
            self._began(attempt, reading.begun)
        match reading.claim:
            case WrittenExit() as record:
                self._exited(attempt, record)
            case FolderGone(at=at):
                why = attempt.cwd and f"the folder {attempt.cwd} is gone"
                self._parts.end(attempt, NotStarted(why or "its folder is gone"), at)
            case LogFailed(at=at):
                self._parts.end(attempt, NotStarted("its log cannot be made on its node, or is there already"), at)
            case Revoked():
                self._parts.revoked.add(attempt.key)
                self._parts.end(attempt, NeverRan())
            case BatchBegun() as begun if attempt.over:
                self._without_record(attempt, begun)
            case Absent() if attempt.over or (attempt.order is not BatchOrder.NONE and attempt.submitted_at):
                self._withdrawal.withdraw(attempt)
            case Unreadable() if attempt.over:
                self._parts.read_again(attempt)

    def _began(self, attempt: BatchAttempt, begun: BatchBegun) -> None:
        attempt.begun, attempt.number = begun, begun.slurm_job
        if attempt.told_begun:
            return
        attempt.told_begun = True
        self._parts.attempts.tell_begun(attempt, begun)
        if attempt.order in (BatchOrder.TERMINATE, BatchOrder.KILL):
            self._stopper.carry_out(attempt)
        elif attempt.order is BatchOrder.WITHDRAW:
            attempt.order = BatchOrder.NONE  # it was too late

    def _exited(self, attempt: BatchAttempt, record: WrittenExit) -> None:
        """A signal that nobody here sent: Slurm knows why."""
        if attempt.exit is not None:
            return
        reached(Step.END_SEEN)
        if record.code <= 128 or attempt.order is not BatchOrder.NONE or attempt.survived:
            self._parts.end(attempt, Exited(record.code), record.at)
            return
        attempt.exit = record
        self._parts.questions.poke()
        self._parts.loop.call_later(WORD_PATIENCE, lambda: self.explain_exit(attempt))

    def explain_exit(self, attempt: BatchAttempt) -> None:
        if attempt.key in self._parts.attempts and attempt.exit is not None:
            state = attempt.row.state if attempt.row is not None else None
            self._parts.end_by(attempt, after_exit(attempt.exit.code, state), attempt.exit.at)

    def _without_record(self, attempt: BatchAttempt, begun: BatchBegun) -> None:
        now = time.monotonic()
        if attempt.over_since is None:
            attempt.over_since = now
        if attempt.killed or attempt.order is BatchOrder.KILL:
            self._parts.end(attempt, Exited(KILLED))
        elif now - attempt.over_since < _patience(attempt):
            self._parts.read_again(attempt)
        elif not attempt.asking:
            attempt.asking = True
            self._ask_slurm(attempt, begun)

    def _ask_slurm(self, attempt: BatchAttempt, begun: BatchBegun) -> None:
        end = self._parts.in_loop(lambda verdict: self._parts.end_by(attempt, verdict))

        def work() -> None:
            end(without_record(self._withdrawal.last_words(attempt), begun.node))

        self._parts.orders.errands.add(work)


def _patience(attempt: BatchAttempt) -> float:
    says_why = attempt.row is not None and attempt.row.state not in ("NODE_FAIL", "BOOT_FAIL", "COMPLETED", "FAILED")
    return WORD_PATIENCE if says_why else RECORD_PATIENCE
