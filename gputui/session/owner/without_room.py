"""What an owner still does while its queue cannot be written: it ends what runs, and starts nothing.

Every other change is refused. One that met the failure itself is taken back first.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gputui.core.book import Book
from gputui.core.events import Drain, Event, Kill, Pause, Requeue, UserCommand
from gputui.core.instructions import Instruction, KillTree, Terminate
from gputui.core.job import Stopping
from gputui.engines.protocol import Engine
from gputui.session.errors import CommitFailed
from gputui.session.messages.socket_requests import Commands

from .ticket import Ticket


def needs_room(event: Event, book: Book) -> bool:
    """What ends an attempt is written down beside it, and that nothing starts is so already."""
    if isinstance(event, Kill | Requeue):
        return event.job not in book or book[event.job].active is None
    return isinstance(event, UserCommand) and not isinstance(event, Pause | Drain)


def take_back(ticket: Ticket[Any], book: Book, sentence: str) -> None:
    """Answers a request whose changes were taken back; of several commands those stand that end something."""
    if isinstance(ticket.work, Commands) and not ticket.failed:
        outcomes = zip(ticket.work.events, ticket.outcome(), strict=True)
        ticket.answer([each if _stands(event, book) else _refused(each, sentence) for event, each in outcomes])
    else:
        ticket.fail(CommitFailed(sentence))


def _stands(event: UserCommand, book: Book) -> bool:
    if isinstance(event, Kill | Requeue):
        return event.job in book and isinstance(book[event.job].state, Stopping)
    return isinstance(event, Pause | Drain)


def _refused(outcome: Any, sentence: str) -> Any:
    return outcome if outcome.refused is not None else replace(outcome, refused=sentence)


def write_down(book: Book, engine: Engine) -> None:
    """Beside each attempt that is being ended: what it is ended for, for the next owner."""
    for job_id in book.unsaved & book.active:
        state = book[job_id].state
        if isinstance(state, Stopping):
            engine.write_down(job_id, state.placed.attempt, state.purpose)


def orders_of(instructions: list[Instruction]) -> list[Instruction]:
    """Those that end an attempt; what else was instructed was taken back."""
    return [each for each in instructions if isinstance(each, Terminate | KillTree)]
