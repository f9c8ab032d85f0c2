"""Makes what a turn changed durable; notes a pause where the disk is full."""

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

from .store import Change, Identity, ResultRow, Store

# ---- A pause that could not be stored, noted where a full disk has room ----


SIZE = 16
"""Bytes; always all of them are written, in place."""


def prepare(private: str) -> None:
    """Takes the file's place on the disk, if there is room."""
    with suppress(OSError):
        if not os.path.exists(_file(private)):
            _write(private, "", os.O_CREAT)


def note(private: str, word: str) -> bool:
    """Durable when it is True; the empty word takes back the one before."""
    try:
        _write(private, word)
    except OSError:
        return False
    return True


def noted(private: str) -> str:
    try:
        return _bytes(private).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _bytes(private: str) -> bytes:
    with open(_file(private), "rb") as file:
        return file.read(SIZE)


def _write(private: str, word: str, flags: int = 0) -> None:
    fd = os.open(_file(private), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
    try:
        os.pwrite(fd, word.encode().ljust(SIZE), 0)
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _file(private: str) -> str:
    return os.path.join(private, "pause")


# ---- Makes what a turn changed durable ----


Sources = dict[str, SourceRecord]


class Saver:
    """Knows what is durable already, so that a commit holds only what is not."""

    def __init__(self, store: Store, identity: Identity, journal: Journal, sources: Sources) -> None:
        self.environments: dict[str, dict[str, str]] = {}
        """New ones, kept with the next change."""
        self.results: dict[tuple[JobId, int], ResultRow] = {}
        """Of attempts, as far as they were read; kept with the next change."""
        self.trouble: str | None = None
        """Why the last change could not be made durable, for the user."""
        self.refusal = ""
        """The same, for whoever wants to change something meanwhile."""
        self.spans = store.span_record()
        """What keeps jobs from starting; others say what they see of it."""
        self._store = store
        self.identity = identity
        self._saved_identity: Identity | None = None
        self._journal = journal
        self._record: Record | None = None
        self._sources = dict(sources)
        self._private = os.path.dirname(store.path)
        prepare(self._private)
        self._noted = noted(self._private)
        """The pause that the store does not know, but its next owner must."""

    def save(self, scheduler: Scheduler, sources: Sources, answered: Sequence[Ticket[Any]], now: float) -> bool:
        """False: nothing was made durable, so nothing may be done."""
        try:
            change = self._change(scheduler, sources, answered, now)
            if change.nothing():
                return True
            self._store.commit(change)
        except (StoreTrouble, StoreDamaged) as trouble:
            self._in_trouble(scheduler, str(trouble))
            return False
        scheduler.book.unsaved.clear()
        scheduler.unsaved_moments.clear()
        self.spans.unsaved.clear()
        self.environments = {}
        self.results = {}
        self._record, self._sources = scheduler.record(), dict(sources)
        self._saved_identity = self.identity
        self._out_of_trouble(scheduler)
        self._note("")
        reached(Step.COMMITTED)
        return True

    def keep_results(self) -> None:
        """On the way out; what cannot be stored is read again by the next owner."""
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
            moments=scheduler.unsaved_moments,
            environments=self.environments,
            replies=[
                (ticket.uuid, ticket.reply(ticket).decode(), now)
                for ticket in answered
                if ticket.uuid is not None and ticket.reply is not None
            ],
            # In trouble something is always written: it would not be known to be over otherwise.
            record=record if record != self._record or self.trouble is not None else None,
            identity=self.identity if self.identity != self._saved_identity else None,
            sources=list(sources.values()) if sources != self._sources else None,
            spans=list(self.spans.unsaved.values()),
            results=list(self.results.values()),
            full=bool(answered) or bool(self._noted),
        )

    def _in_trouble(self, scheduler: Scheduler, trouble: str) -> None:
        if self.trouble is None:
            self._journal.write(trouble)
        self.trouble = f"nothing new starts, running jobs go on: {trouble} ({self._store.path})"
        self.refusal = f"nothing was changed: {trouble} ({self._store.path}); try again when it can be"
        scheduler.stalled = f"nothing starts: {trouble}"
        self._note(_pause_of(scheduler) or self._noted)
        self._store.make_room()

    def _note(self, pause: str) -> None:
        if pause != self._noted and note(self._private, pause):
            self._noted = pause

    def _out_of_trouble(self, scheduler: Scheduler) -> None:
        if self.trouble is not None:
            self.trouble, scheduler.stalled = None, ""
            self._journal.write("the queue can be written again")


DRAIN = "drain"


def _pause_of(scheduler: Scheduler) -> str:
    """What somebody asked for, in a word; a breaker's pause has more to tell."""
    if scheduler.mode is Mode.DRAINING:
        return DRAIN
    if scheduler.cause is None:
        return ""
    if scheduler.cause.kind is PauseKind.CRASHES:
        return PauseKind.STOPPED if scheduler.cause.left else ""
    return scheduler.cause.kind


def apply_noted_pause(scheduler: Scheduler, private: str, now: float) -> None:
    """An earlier owner could not store it."""
    word = noted(private)
    if word == DRAIN:
        scheduler.handle(Drain(), now)
    elif word in LEFT_ON_PURPOSE or word == PauseKind.USER:
        scheduler.handle(Pause(PauseKind(word)), now)
