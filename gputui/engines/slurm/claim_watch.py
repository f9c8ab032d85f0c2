"""What the disk tells of attempts in Slurm: that they began, and how they ended."""

from __future__ import annotations

from gputui.core.events import Exited, NeverRan, NotStarted
from gputui.core.steps import Step, reached
from gputui.engines.claims import Absent, BatchBegun, FolderGone, LogFailed, Revoked, Unreadable, WrittenExit

from .inquiry import EndInquiry
from .live import BatchAttempt, BatchOrder
from .parts import SlurmParts
from .records import ClaimReading
from .stop import BatchStopper
from .withdrawal import Withdrawal


class ClaimWatch:
    """In the owner's thread."""

    def __init__(self, parts: SlurmParts, stopper: BatchStopper, withdrawal: Withdrawal, inquiry: EndInquiry) -> None:
        self._parts = parts
        self._stopper = stopper
        self._withdrawal = withdrawal
        self._inquiry = inquiry

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
                self._inquiry.without_record(attempt, begun)
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
        if attempt.exit is not None:
            return
        reached(Step.END_SEEN)
        by_itself = record.code <= 128 and not record.signalled
        if by_itself or attempt.order is not BatchOrder.NONE or attempt.asked is not None:
            self._parts.end(attempt, Exited(record.code), record.at)
        else:
            self._inquiry.begin(attempt, record)
