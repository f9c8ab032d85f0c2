"""Takes attempts back that have not begun: whoever creates the claim first decides, the batch job or we."""

from __future__ import annotations

import os
from functools import partial

from gputui.core.events import NeverRan, NoRoom, Outcome
from gputui.core.steps import Step, reached
from gputui.engines.claims import Revoked

from .answers import SlurmEnd
from .live import BatchAttempt, BatchOrder
from .outcomes import before_claim
from .parts import SlurmParts
from .records import Key


class Withdrawal:
    """In the owner's thread, but for `take_back` and `last_words`."""

    def __init__(self, parts: SlurmParts) -> None:
        self._parts = parts

    def take_back(self, key: Key) -> NeverRan | NoRoom | None:
        """None: it has begun. In any thread but the owner's."""
        claims, leftovers = self._parts.claims, self._parts.leftovers
        leftovers.note(*key)
        try:
            revoked = claims.revoke(*key)
        except OSError as error:
            return NoRoom(f"the record of its run cannot be written: {error.strerror}")
        if not revoked and not isinstance(claims.read(*key), Revoked):
            return None
        self._parts.revoked.add(key)
        leftovers.note(*key)
        reached(Step.REVOKED)
        return NeverRan()

    def withdraw(self, attempt: BatchAttempt) -> None:
        """It has not begun; and if we are first to create its claim, it never will."""
        if attempt.asking:
            return
        attempt.asking = True
        slurm_knows = attempt.over and attempt.order is BatchOrder.NONE and attempt.row is not None
        self._parts.orders.errands.add(partial(self._work, attempt, ask_slurm=slurm_knows and not attempt.survived))

    def _work(self, attempt: BatchAttempt, *, ask_slurm: bool) -> None:
        """In the thread of orders."""
        outcome: Outcome | None = self.take_back(attempt.key)
        if isinstance(outcome, NeverRan) and ask_slurm:
            outcome = before_claim(self.last_words(attempt), os.path.dirname(self._parts.folder))
        self._parts.in_loop(self._withdrawn)(attempt, outcome)

    def last_words(self, attempt: BatchAttempt) -> SlurmEnd | None:
        """What Slurm knows of its end; in the thread of orders."""
        number = attempt.last_number
        return self._parts.commands.last_words(number, attempt.token) if number is not None else None

    def _withdrawn(self, attempt: BatchAttempt, outcome: Outcome | None) -> None:
        attempt.asking = False
        if attempt.key not in self._parts.attempts:
            return
        if outcome is None:
            self._parts.records.read([attempt.key])
        elif isinstance(outcome, NoRoom) and attempt.order is BatchOrder.NONE and not attempt.over:
            self._parts.read_again(attempt)
        else:
            self._parts.end(attempt, outcome)
            self._parts.questions.poke()  # what is left in Slurm's queue is cancelled when seen there, or by `close`
