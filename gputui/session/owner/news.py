"""What waits for the owner's next turn: the engine's reports, and the tickets of whoever asks for something."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from gputui.core.events import Spawned, Submitted
from gputui.engines.protocol import Report

from .closing import take_all
from .loop import Loop
from .ticket import OwnerGone, Ticket

SPAWN_NEWS = 0.02
"""Seconds that the news of a started job may wait for company: it needs no commit of its own."""


class News:
    """Wakes the turn once, however much comes before it."""

    def __init__(self, loop: Loop, turn: Callable[[], None]) -> None:
        self._loop = loop
        self._turn = turn
        self._turn_due = False
        self._reports: list[Report] = []
        self.inbox: deque[Ticket[Any]] = deque()
        """Not carried out yet; any thread may append."""
        self.answered: list[Ticket[Any]] = []
        """Carried out, but not durable yet."""

    def kick(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def report(self, report: Report) -> None:
        self._reports.append(report)
        if not isinstance(report, Spawned | Submitted):
            self.kick()
        elif not self._turn_due and len(self._reports) == 1:
            self._loop.call_later(SPAWN_NEWS, self.kick)

    def ask(self, ticket: Ticket[Any]) -> None:
        """In the owner's thread."""
        self.inbox.append(ticket)
        self.kick()

    def turn_begins(self) -> None:
        self._turn_due = False

    def take_reports(self) -> list[Report]:
        reports, self._reports = self._reports, []
        return reports

    def answer(self) -> None:
        answered, self.answered = self.answered, []
        for ticket in answered:
            ticket.settle()

    def turn_away(self, failed: Callable[[], None]) -> None:
        """From any thread; each ticket once. `failed` is called for whoever cannot bear the answer."""
        tickets, self.answered = self.answered, []
        with suppress(IndexError):
            while True:
                tickets.append(self.inbox.popleft())
        owner_gone = OwnerGone("the owner has left the session")
        take_all([partial(ticket.settle, owner_gone) for ticket in tickets], failed)
