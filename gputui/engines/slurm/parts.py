"""What the parts of the engine share: attempts, their claims, and the threads that speak with Slurm and the disk."""

from __future__ import annotations

import os
from collections.abc import Callable

from gputui.core.events import EngineTrouble, NodesSeen, Outcome
from gputui.engines.claims import Claims
from gputui.engines.protocol import Report
from gputui.process.event_loop import EventLoop

from .commands import SlurmCommands
from .errands import Errands
from .leftovers import Leftovers
from .live import BatchAttempt, BatchAttempts
from .orders import Orders
from .outcomes import SlurmVerdict
from .questions import Questions, QueueAnswer
from .records import ClaimReading, Key, Records

AGAIN_AFTER = 1.0
"""Seconds until a claim is read again."""


class SlurmParts:
    """`take_readings` and `take_answer` are called in the owner's thread, as long as nothing is closed."""

    def __init__(
        self,
        loop: EventLoop,
        private: int,
        session: str,
        claims: Claims,
        report: Callable[[Report], None],
        take_readings: Callable[[list[ClaimReading]], None],
        take_answer: Callable[[QueueAnswer], None],
    ) -> None:
        self.loop = loop
        self.session = session
        self.claims = claims
        self.closed = False
        self.revoked: set[Key] = set()
        self.attempts = BatchAttempts(report)
        self.commands = SlurmCommands()
        self.records = Records(private, claims, self.in_loop(take_readings))
        self.questions = Questions(self.commands, self.in_loop(take_answer))
        self.submissions = Errands("gputui-submissions")
        self.orders = Orders(self.commands, Errands("gputui-orders"))
        self.leftovers = Leftovers(private, session, claims, self.orders.user)
        self._private = private
        self._report = report

    @property
    def folder(self) -> str:
        """The session's private folder, by the path that nodes know it under."""
        return os.readlink(f"/proc/self/fd/{self._private}")

    def in_loop(self, call: Callable[..., None]) -> Callable[..., None]:
        """The same, for another thread."""

        def hand_over(*arguments: object) -> None:
            self.loop.call_soon_threadsafe(lambda: None if self.closed else call(*arguments))

        return hand_over

    def tell(self, news: EngineTrouble | NodesSeen) -> None:
        self._report(news)

    def read_again(self, attempt: BatchAttempt) -> None:
        self.loop.call_later(AGAIN_AFTER, lambda: self.records.read([attempt.key]))

    def end(self, attempt: BatchAttempt, outcome: Outcome, at: float | None = None) -> None:
        self.end_by(attempt, SlurmVerdict(outcome), at)

    def end_by(self, attempt: BatchAttempt, verdict: SlurmVerdict, at: float | None = None) -> None:
        if attempt.key in self.attempts:
            self.records.discard(attempt.key)
            self.attempts.end(attempt, verdict, at)

    def close(self) -> None:
        self.closed = True
        self.questions.close()
        self.submissions.close()
        self.orders.errands.close()
