"""Stopping attempts in Slurm, and withdrawing those that have not begun."""

from __future__ import annotations

import os
import time
from functools import partial

from gputui.core.events import NeverRan, NoRoom, Outcome
from gputui.core.steps import Step, reached
from gputui.engines.claims import Revoked

from .attempt import BatchAttempt, BatchOrder, Key, before_claim
from .parse import SlurmEnd
from .state import SlurmParts

# ---- Carries out what was ordered about attempts in Slurm, again and again until it was heard ----


STILL_AT = (0.0, 2.0, 6.0)
"""Seconds after which a job is told to stand still or go on: one that has only just begun does not hear it, and Slurm
does not say so."""


class BatchStopper:
    """In the owner's thread."""

    def __init__(self, parts: SlurmParts) -> None:
        self._parts = parts
        self._orders = parts.orders

    def order(self, key: Key, order: BatchOrder) -> None:
        attempt = self._parts.attempts.get(key)
        if attempt is None or order.value <= attempt.order.value:
            return
        if order is BatchOrder.WITHDRAW and attempt.begun is not None:
            return
        attempt.order = order
        if attempt.submitted_at is not None:
            self.carry_out(attempt)

    def set_suspended(self, key: Key, suspended: bool) -> None:
        attempt = self._parts.attempts.get(key)
        if attempt is not None and attempt.begun is not None and attempt.order is BatchOrder.NONE:
            attempt.suspended = suspended
            for seconds in STILL_AT:
                self._parts.loop.call_later(seconds, lambda: self._stand_still(attempt, suspended))

    def _stand_still(self, attempt: BatchAttempt, suspended: bool) -> None:
        """Or go on; unless something else was ordered since."""
        is_meant = attempt.suspended is suspended and attempt.order is BatchOrder.NONE
        if is_meant and attempt.key in self._parts.attempts and not self._parts.closed:
            self._orders.suspend(attempt) if suspended else self._orders.go_on(attempt)

    def carry_out(self, attempt: BatchAttempt) -> None:
        """One that has not begun is taken back, whatever was ordered."""
        if attempt.begun is None:
            self._parts.records.read([attempt.key])
            return
        attempt.ordered_at = time.monotonic()
        if attempt.order is BatchOrder.KILL:
            self._orders.kill(attempt)
            self._parts.loop.call_later(self._orders.KILL_AFTER, lambda: self._make_sure(attempt))
        elif attempt.order is BatchOrder.TERMINATE:
            self._orders.terminate(attempt)

    def _make_sure(self, attempt: BatchAttempt) -> None:
        """Its supervisor did not end it in time: Slurm does, and there will be no exit record."""
        if not self._parts.closed and attempt.key in self._parts.attempts and attempt.exit is None:
            attempt.killed = True
            self._orders.kill_supervisor(attempt)
            self._parts.questions.poke()

    def remind(self, attempt: BatchAttempt) -> None:
        """Slurm may not have heard an order."""
        late = time.monotonic() - attempt.ordered_at > self._orders.AGAIN_AFTER
        if attempt.begun is not None and attempt.order is not BatchOrder.NONE and not attempt.over and late:
            self.carry_out(attempt)


# ---- Takes attempts back that have not begun ----


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
