"""Carries out what was ordered about attempts in Slurm, again and again until it was heard."""

from __future__ import annotations

import time

from .live import BatchAttempt, BatchOrder
from .parts import SlurmParts
from .records import Key

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
