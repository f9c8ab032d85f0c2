"""Sees attempts begin and end in Slurm: by its queue, by their claims, and by asking why they ended."""

from __future__ import annotations

import signal
import time
from functools import partial

from gputui.core.amounts import moment
from gputui.core.events import EngineTrouble, Exited, NeverRan, NodeFailed, NodesSeen, NotStarted
from gputui.core.lanes import NodeSize
from gputui.core.steps import Step, reached
from gputui.engines.claims import Absent, BatchBegun, FolderGone, LogFailed, Revoked, Unreadable, WrittenExit

from .attempt import (
    NODE_FAILURES,
    BatchAttempt,
    BatchOrder,
    ClaimReading,
    SlurmVerdict,
    after_exit,
    without_record,
)
from .cancel import BatchStopper, Withdrawal
from .messages import waits
from .parse import NodeState, Phase, SlurmEnd, SlurmJob, SlurmNode, largest
from .poll import QueueAnswer
from .sbatch import token_of
from .state import Finished, SlurmParts
from .supervisor import KILLED

# ---- Why attempts in Slurm ended that did not end by themselves ----


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
        attempt.requeued |= attempt.put_back
        if not attempt.put_back:
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
        attempt.requeued |= attempt.put_back
        if attempt.killed or attempt.order is BatchOrder.KILL:
            self._parts.end(attempt, Exited(KILLED))
        elif now - attempt.over_since < _patience(attempt) or attempt.put_back:
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


def _is_undecided(attempt: BatchAttempt) -> bool:
    """It waits in Slurm's queue again; or was told to end, calls that a success, and Slurm has not answered; or what
    the admin wants done after each job takes long."""
    if attempt.row is None:
        return attempt.missed == 0 and attempt.exit is not None and attempt.exit.code == 0
    in_time = attempt.over_since is not None and time.monotonic() - attempt.over_since < RECORD_PATIENCE
    return attempt.put_back or (attempt.row.state == "COMPLETING" and in_time)


def _has_failed_node(attempt: BatchAttempt) -> bool:
    return attempt.row is not None and attempt.row.state in NODE_FAILURES


def _patience(attempt: BatchAttempt) -> float:
    if _has_failed_node(attempt):
        return NODE_PATIENCE
    says_why = attempt.row is not None and attempt.row.state not in ("COMPLETED", "FAILED")
    return WORD_PATIENCE if says_why else RECORD_PATIENCE


# ---- What Slurm's queue tells of attempts ----


RUNS_ON_AFTER = 20.0
"""Seconds after its end in which Slurm may still list an attempt as running."""
KNOWN_AFTER = 60.0
"""Seconds after an end in which a controller that crashes may forget that it knew of it."""


class QueueWatch:
    """In the owner's thread."""

    def __init__(self, parts: SlurmParts, stopper: BatchStopper, inquiry: EndInquiry) -> None:
        self._parts = parts
        self._stopper = stopper
        self._inquiry = inquiry
        self.has_gpus = True
        """Some node has."""
        self.trouble = ""
        """Why Slurm does not answer."""
        self._down: dict[str, str] = {}
        """Nodes that are down, with Slurm's own words for their state."""

    def take(self, answer: QueueAnswer) -> None:
        if answer.jobs is None:
            self.be_in_trouble(answer.trouble)
            return
        self.be_in_trouble("")
        if answer.nodes is not None:
            self._see_nodes(answer.nodes)
        rows = self._own_rows(answer.jobs)
        for attempt in self._parts.attempts:
            if attempt.submitted_at is not None and attempt.submitted_at < answer.asked_at:
                self._compare(attempt, rows.get(attempt.token), answer.asked_at)
        self._cancel_ended(rows, answer.asked_at)
        self._clear_queue(rows, answer.asked_at)

    def be_in_trouble(self, why: str) -> None:
        if why != self.trouble:
            self.trouble = why
            self._parts.tell(EngineTrouble(why))
            if why:
                self._parts.questions.poke()

    def _see_nodes(self, nodes: list[SlurmNode]) -> None:
        self._down = {node.name: node.said for node in nodes if node.state is NodeState.DOWN}
        most = largest(nodes)
        self.has_gpus = most is None or most.gpus > 0
        self._parts.tell(NodesSeen(NodeSize(most.name, most.gpus) if most is not None else None))

    def _own_rows(self, jobs: list[SlurmJob]) -> dict[str, SlurmJob]:
        """By token."""
        own = f"{self._parts.session}."
        return {token: job for job in jobs if (token := token_of(job)) is not None and token.startswith(own)}

    def _compare(self, attempt: BatchAttempt, row: SlurmJob | None, asked_at: float) -> None:
        attempt.see_row(row, asked_at)
        if attempt.exit is not None:
            if attempt.over:
                self._inquiry.explain(attempt)
        elif row is not None and row.phase is Phase.WAITING and attempt.begun is None:
            self._parts.attempts.tell_waiting(attempt, waits(row, time.time()))
            if attempt.order is not BatchOrder.NONE:
                self._parts.records.read([attempt.key])
        else:
            if attempt.begun is None or attempt.over:
                self._parts.records.read([attempt.key])
            self._stopper.remind(attempt)
        if attempt.begun is not None:
            self._parts.attempts.tell_remark(attempt, self._remark(attempt, attempt.begun.node))

    def _remark(self, attempt: BatchAttempt, node: str) -> str:
        if attempt.row is not None and _has_failed_node(attempt):
            since = attempt.over_since if attempt.over_since is not None else time.monotonic()
            until = moment(time.time() + since + NODE_PATIENCE - time.monotonic(), time.time())
            return f"node {node} failed (Slurm: {attempt.row.state}): lost unless it is back by {until}"
        return f"node {node} is down (Slurm: {self._down[node]}); it may run on there" if node in self._down else ""

    def _cancel_ended(self, rows: dict[str, SlurmJob], asked_at: float) -> None:
        """A controller that crashed may list ended jobs as running, for hours, and their GPUs as taken."""
        stuck: set[str] = set()
        for key, finished in list(self._parts.finished.items()):
            since = asked_at - finished.at
            row = rows.get(token := "{}.{}.{}".format(self._parts.session, *key))
            if row is not None and row.state == "RUNNING":
                if since > RUNS_ON_AFTER:
                    stuck.add(token)
            elif since > 0 and not finished.slurm_knows:
                finished.slurm_knows = True
                self._parts.records.discard(key)
            elif since > KNOWN_AFTER:
                del self._parts.finished[key]
        self._parts.orders.cancel_ended(stuck)

    def _clear_queue(self, rows: dict[str, SlurmJob], asked_at: float) -> None:
        unwanted = self._unwanted(rows)
        self._parts.orders.cancel(unwanted)
        if not unwanted:
            self._parts.orders.errands.add(partial(self._parts.leftovers.none_at, asked_at))
        if not self._parts.attempts and not unwanted and not self._parts.finished:
            self._parts.questions.rest()

    def _unwanted(self, rows: dict[str, SlurmJob]) -> list[str]:
        """The numbers of what waits in Slurm's queue and is not to begin."""
        live = [attempt for attempt in self._parts.attempts if attempt.key not in self._parts.revoked]
        wanted = {attempt.token for attempt in live if not attempt.over or attempt.begun is None}
        return [row.id for token, row in rows.items() if token not in wanted and row.phase is Phase.WAITING]


# ---- What the disk tells of attempts in Slurm ----


_CODES_OF_SLURM = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
"""Of commands that Slurm may have ended. By other signals, as of a segmentation fault, they end by themselves."""


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
            if attempt is not None:
                attempt.asked = reading.asked or attempt.asked
                attempt.asking = False
                self._compare(attempt, reading)
            elif reading.ended:
                self._parts.finished.setdefault(reading.key, Finished(time.monotonic()))
                self._parts.questions.poke()
            elif reading.key not in self._parts.finished:
                self._parts.records.discard(reading.key)

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
        if not attempt.see_begin(begun):
            return
        self._parts.attempts.tell_begun(attempt, begun)
        if attempt.order in (BatchOrder.TERMINATE, BatchOrder.KILL):
            self._stopper.carry_out(attempt)
        elif attempt.order is BatchOrder.WITHDRAW:
            attempt.order = BatchOrder.NONE  # it was too late

    def _exited(self, attempt: BatchAttempt, record: WrittenExit) -> None:
        if attempt.exit is not None:
            return
        reached(Step.END_SEEN)
        by_itself = record.code not in _CODES_OF_SLURM and not record.signalled
        if by_itself or attempt.order is not BatchOrder.NONE or attempt.asked is not None:
            self._parts.end_by(attempt, SlurmVerdict(Exited(record.code), by_itself=by_itself), record.at)
        else:
            self._inquiry.begin(attempt, record)
