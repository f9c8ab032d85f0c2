"""What Slurm's queue tells of attempts: why they wait, that they are over, and which of them are not to be there."""

from __future__ import annotations

import time
from functools import partial

from gputui.core.events import EngineTrouble, NodesSeen
from gputui.core.lanes import NodeSize

from .answers import Phase, SlurmJob, SlurmNode, largest
from .inquiry import EndInquiry
from .live import BatchAttempt, BatchOrder
from .parts import SlurmParts
from .questions import QueueAnswer
from .reasons import waits
from .stop import BatchStopper
from .submission import token_of


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
                self._compare(attempt, rows)
        self._clear_queue(rows, answer.asked_at)

    def be_in_trouble(self, why: str) -> None:
        if why != self.trouble:
            self.trouble = why
            self._parts.tell(EngineTrouble(why))
            if why:
                self._parts.questions.poke()

    def _see_nodes(self, nodes: list[SlurmNode]) -> None:
        most = largest(nodes)
        self.has_gpus = most is None or most.gpus > 0
        self._parts.tell(NodesSeen(NodeSize(most.name, most.gpus) if most is not None else None))

    def _own_rows(self, jobs: list[SlurmJob]) -> dict[str, SlurmJob]:
        """By token."""
        own = f"{self._parts.session}."
        return {token: job for job in jobs if (token := token_of(job)) is not None and token.startswith(own)}

    def _compare(self, attempt: BatchAttempt, rows: dict[str, SlurmJob]) -> None:
        row = attempt.row = rows.get(attempt.token)
        attempt.missed = attempt.missed + 1 if row is None else 0
        if row is not None and attempt.number is None:
            attempt.number = int(row.id)
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

    def _clear_queue(self, rows: dict[str, SlurmJob], asked_at: float) -> None:
        unwanted = self._unwanted(rows)
        self._parts.orders.cancel(unwanted)
        if not unwanted:
            self._parts.orders.errands.add(partial(self._parts.leftovers.none_at, asked_at))
        if not self._parts.attempts and not unwanted:
            self._parts.questions.rest()

    def _unwanted(self, rows: dict[str, SlurmJob]) -> list[str]:
        """The numbers of what waits in Slurm's queue and is not to begin."""
        live = [attempt for attempt in self._parts.attempts if attempt.key not in self._parts.revoked]
        wanted = {attempt.token for attempt in live if not attempt.over or attempt.begun is None}
        return [row.id for token, row in rows.items() if token not in wanted and row.phase is Phase.WAITING]
