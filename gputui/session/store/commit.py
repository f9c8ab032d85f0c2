"""Commits of what a turn has changed. While the disk is full, a pause is kept in a file of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from gputui.core.events import LEFT_ON_PURPOSE, Drain, Mode, Pause, PauseKind
from gputui.core.job import JobId
from gputui.core.scheduler import Record, Scheduler
from gputui.core.steps import Step, reached
from gputui.session.errors import StoreDamaged, StoreTrouble
from gputui.session.event_loop import Ticket
from gputui.session.loading import SourceRecord
from gputui.session.session_dir import Journal

from .event_log import EventRecorder
from .store import Change, Identity, ResultRow, Store

# The pause file. It is allocated while the disk has room, and then overwritten in place.


PAUSE_FILE, SIZE = "pause", 16
"""Name of the pause file, and its constant size in bytes."""


def read_pause(private: str) -> str:
    with suppress(OSError), open(os.path.join(private, PAUSE_FILE), "rb") as file:
        return file.read(SIZE).decode("ascii", "replace").strip()
    return ""


def write_pause(private: str, word: str, flags: int = 0) -> bool:
    """Write the pause to its file. Return whether it is durable. An empty word removes the pause."""
    with suppress(OSError):
        path = os.path.join(private, PAUSE_FILE)
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
        try:
            os.pwrite(fd, word.encode().ljust(SIZE), 0)
            os.fdatasync(fd)
        finally:
            os.close(fd)
        return True
    return False


# Commits


Sources = dict[str, SourceRecord]


class Saver:
    """The part of an owner that commits its changes to the store."""

    def __init__(
        self, store: Store, identity: Identity, scheduler: Scheduler, journal: Journal, sources: Sources
    ) -> None:
        self.environments: dict[str, dict[str, str]] = {}
        """New environments for the next commit."""
        self.results: dict[tuple[JobId, int], ResultRow] = {}
        """New results of attempts for the next commit."""
        self.trouble: str | None = None
        """Why the last commit failed, as a message for the user; None if it succeeded."""
        self.refusal = ""
        """Why the last commit failed, as the answer to refused requests."""
        self.spans = store.span_record()
        """The record of what keeps jobs from starting."""
        self.log = EventRecorder(scheduler, store.event_numbers()[1])
        self._store = store
        self.identity = identity
        self._saved_identity: Identity | None = None
        self._journal = journal
        self._record: Record | None = None
        self._sources = dict(sources)
        self._private = os.path.dirname(store.path)
        if not os.path.exists(os.path.join(self._private, PAUSE_FILE)):
            write_pause(self._private, "", os.O_CREAT)
        self._noted = read_pause(self._private)
        """The pause that is in the pause file but not in the store; empty if there is none."""

    def save(self, scheduler: Scheduler, sources: Sources, answered: Sequence[Ticket[Any]], now: float) -> bool:
        """Commit all changes. Return whether everything is durable. If not, no instruction of the turn may be carried
        out.
        """
        try:
            change = self._change(scheduler, sources, answered, now)
            if change.is_empty():
                return True
            self._store.commit(change)
        except (StoreTrouble, StoreDamaged) as trouble:
            self._in_trouble(scheduler, str(trouble))
            return False
        self.log.mark_saved(scheduler, change.events)
        scheduler.book.unsaved.clear()
        scheduler.book.unsaved_revoked.clear()
        scheduler.unsaved_history.clear()
        self.spans.unsaved.clear()
        self.environments = {}
        self.results = {}
        self._record, self._sources = scheduler.record(), dict(sources)
        self._saved_identity = self.identity
        if self.trouble is not None:
            self.trouble, scheduler.stalled = None, ""
            self._journal.write("the queue is writable again")
        self._note("")
        reached(Step.COMMITTED)
        return True

    def keep_results(self) -> None:
        """Store results before the owner leaves. If that fails, the next owner reads the logs again."""
        if self.results:
            try:
                self._store.commit(Change(results=list(self.results.values())))
            except (StoreTrouble, StoreDamaged) as trouble:
                self._journal.write(str(trouble))

    def _change(self, scheduler: Scheduler, sources: Sources, answered: Sequence[Ticket[Any]], now: float) -> Change:
        book, record = scheduler.book, scheduler.record()
        self.spans.mode(scheduler.mode, scheduler.cause, now)
        return Change(
            jobs=[book[job_id] for job_id in book.unsaved],
            revoked_keys=book.unsaved_revoked,
            moments=scheduler.unsaved_history,
            environments=self.environments,
            replies=[
                (ticket.uuid, ticket.reply(ticket).decode(), now)
                for ticket in answered
                if ticket.uuid is not None and ticket.reply is not None
            ],
            # After a failure, always write something, to find out whether the store can be written again.
            record=record if record != self._record or self.trouble is not None else None,
            identity=self.identity if self.identity != self._saved_identity else None,
            sources=list(sources.values()) if sources != self._sources else None,
            spans=list(self.spans.unsaved.values()),
            results=list(self.results.values()),
            events=self.log.collect(scheduler, now),
            full=bool(answered) or bool(self._noted),
        )

    def _in_trouble(self, scheduler: Scheduler, trouble: str) -> None:
        if self.trouble is None:
            self._journal.write(trouble)
        self.trouble = f"no new jobs start, running jobs continue: {trouble} ({self._store.path})"
        self.refusal = f"nothing was changed: {trouble} ({self._store.path}); try again later"
        scheduler.stalled = f"no jobs start: {trouble}"
        self._note(_pause_of(scheduler) or self._noted)
        self._store.checkpoint()

    def _note(self, pause: str) -> None:
        if pause != self._noted and write_pause(self._private, pause):
            self._noted = pause


DRAIN = "drain"


def _pause_of(scheduler: Scheduler) -> str:
    """Return the pause as the single word that is stored, or "" if there is none. Of a pause after errors, only
    `stopped` is stored.
    """
    if scheduler.mode is Mode.DRAINING:
        return DRAIN
    if scheduler.cause is None:
        return ""
    if scheduler.cause.kind is PauseKind.CRASHES:
        return PauseKind.STOPPED if scheduler.cause.left else ""
    return scheduler.cause.kind


def apply_noted_pause(scheduler: Scheduler, private: str, now: float) -> None:
    """Apply the pause that an earlier owner could not store."""
    word = read_pause(private)
    if word == DRAIN:
        scheduler.handle(Drain(), now)
    elif word in LEFT_ON_PURPOSE or word == PauseKind.USER:
        scheduler.handle(Pause(PauseKind(word)), now)
