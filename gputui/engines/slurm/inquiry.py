"""Why attempts in Slurm ended that did not end by themselves: Slurm is asked, and the disk is given time to tell.

While Slurm may start an attempt a second time, because it was put back into its queue, the attempt is not over: its
claim must be there, and is gone soon after its end.
"""

from __future__ import annotations

import time
from functools import partial

from gputui.core.events import Exited, NodeFailed
from gputui.engines.claims import BatchBegun, WrittenExit

from .answers import Phase, SlurmEnd, SlurmNode
from .live import BatchAttempt, BatchOrder
from .outcomes import NODE_FAILURES, after_exit, without_record
from .parts import SlurmParts
from .supervisor import KILLED
from .withdrawal import Withdrawal

RECORD_PATIENCE = 60.0
"""Seconds in which an exit record may come late: another machine's files are not seen at once."""
WORD_PATIENCE = 12.0
"""Seconds in which Slurm may say why it ended an attempt."""
NODE_PATIENCE = 300.0
"""Seconds in which a node that failed may come back, and show that nothing runs there any more."""
NODE_LOOKS = 5.0
"""Seconds between two looks at a node that failed."""


class EndInquiry:
    """In the owner's thread."""

    def __init__(self, parts: SlurmParts, withdrawal: Withdrawal) -> None:
        self._parts = parts
        self._withdrawal = withdrawal

    # It left an exit record

    def begin(self, attempt: BatchAttempt, record: WrittenExit) -> None:
        """It was told to end by nobody here: Slurm knows why."""
        attempt.exit, attempt.over_since = record, time.monotonic()
        self._parts.questions.poke()
        self._later(attempt)

    def _later(self, attempt: BatchAttempt) -> None:
        self._parts.loop.call_later(WORD_PATIENCE, lambda: self._explain_late(attempt))

    def _explain_late(self, attempt: BatchAttempt) -> None:
        """Slurm has had its time, but for what must not be told wrong."""
        if attempt.key not in self._parts.attempts or self._parts.closed:
            return
        if _is_undecided(attempt):
            self._later(attempt)
        else:
            self._explain(attempt)

    def explain(self, attempt: BatchAttempt) -> None:
        """Slurm counts it as over. One in its queue again is cancelled there first."""
        attempt.requeued |= _is_waiting(attempt)
        if not _is_waiting(attempt):
            self._explain(attempt)

    def _explain(self, attempt: BatchAttempt) -> None:
        if attempt.row is not None and not attempt.survived:
            self._tell_exit(attempt, attempt.row.state)
        elif not attempt.asking:
            attempt.asking = True
            self._parts.orders.errands.add(partial(self._ask_of_exit, attempt))

    def _ask_of_exit(self, attempt: BatchAttempt) -> None:
        """In the thread of orders."""
        end = self._withdrawal.last_words(attempt)
        attempt.requeued |= end is not None and end.restarts > 0
        self._parts.in_loop(self._tell_exit)(attempt, end.state if end is not None else None)

    def _tell_exit(self, attempt: BatchAttempt, state: str | None) -> None:
        record, node = attempt.exit, attempt.begun.node if attempt.begun is not None else "?"
        if record is not None:
            verdict = after_exit(record.code, state, node, requeued=attempt.requeued)
            self._parts.end_by(attempt, verdict, record.at)

    # It left none

    def without_record(self, attempt: BatchAttempt, begun: BatchBegun) -> None:
        now = time.monotonic()
        if attempt.over_since is None:
            attempt.over_since = now
        attempt.requeued |= _is_waiting(attempt)
        if attempt.killed or attempt.order is BatchOrder.KILL:
            self._parts.end(attempt, Exited(KILLED))
        elif now - attempt.over_since < _patience(attempt) or _is_waiting(attempt):
            self._parts.read_again(attempt)
            if _has_failed_node(attempt) and now > attempt.node_seen_at + NODE_LOOKS:
                self._ask_of_node(attempt, begun)
        elif not attempt.asking:
            self._ask_of_node(attempt, begun, last=True)

    def _ask_of_node(self, attempt: BatchAttempt, begun: BatchBegun, *, last: bool = False) -> None:
        attempt.asking, attempt.node_seen_at = True, time.monotonic()
        take = self._parts.in_loop(partial(self._take_answer, attempt, begun, last=last))

        def work() -> None:
            take(self._withdrawal.last_words(attempt), self._parts.commands.node(begun.node))

        self._parts.orders.errands.add(work)

    def _take_answer(
        self, attempt: BatchAttempt, begun: BatchBegun, end: SlurmEnd | None, node: SlurmNode | None, *, last: bool
    ) -> None:
        attempt.asking = False
        attempt.requeued |= end is not None and end.restarts > 0
        verdict = without_record(end, begun.node, node, requeued=attempt.requeued)
        if attempt.exit is None and (last or isinstance(verdict.outcome, NodeFailed)):
            self._parts.end_by(attempt, verdict)


def _is_waiting(attempt: BatchAttempt) -> bool:
    return attempt.row is not None and attempt.row.phase is Phase.WAITING


def _is_undecided(attempt: BatchAttempt) -> bool:
    """It waits in Slurm's queue again; or was told to end, calls that a success, and Slurm has not answered; or what
    the admin wants done after each job takes long."""
    if attempt.row is None:
        return attempt.missed == 0 and attempt.exit is not None and attempt.exit.code == 0
    in_time = attempt.over_since is not None and time.monotonic() - attempt.over_since < RECORD_PATIENCE
    return _is_waiting(attempt) or (attempt.row.state == "COMPLETING" and in_time)


def _has_failed_node(attempt: BatchAttempt) -> bool:
    return attempt.row is not None and attempt.row.state in NODE_FAILURES


def _patience(attempt: BatchAttempt) -> float:
    if _has_failed_node(attempt):
        return NODE_PATIENCE
    says_why = attempt.row is not None and attempt.row.state not in ("COMPLETED", "FAILED")
    return WORD_PATIENCE if says_why else RECORD_PATIENCE
