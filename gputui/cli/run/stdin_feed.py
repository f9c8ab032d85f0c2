"""Jobs that arrive on standard input while others run: read in a thread, added in batches, never faster than wanted."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable

from gputui.core.events import Refusal
from gputui.process.threads import begin
from gputui.session.control import client
from gputui.session.control.client import ClientError
from gputui.session.errors import CommitFailed
from gputui.session.owner.ticket import OwnerGone
from gputui.sources.command_list import CommandLines
from gputui.sources.source import BadInput, Draft

CHUNK = 1 << 16
OFFERED_EVERY = 0.5
"""Seconds between tries, while the queue cannot be written."""
MOST_WAITING = 10_000
"""A producer is held back while so many jobs wait; the pipe makes it wait."""


class Feeder:
    """Reads until the end of the input; `ended` is set then, and `trouble` says what was wrong with a line."""

    def __init__(
        self,
        fd: int,
        add: Callable[[list[Draft]], None],
        waiting: Callable[[], int],
        at_its_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.ended = threading.Event()
        self.trouble: str | None = None
        self.to_its_end = threading.Event()
        """Set when the program is about to leave: take all there is, without holding back."""
        self._fd = fd
        self._reading_since: float | None = None
        self._add = add
        self._waiting = waiting
        self._at_its_end = at_its_end

    def start(self) -> None:
        """Raises NoThread."""
        begin(self._read, "gputui-stdin")

    def quiet_for(self, seconds: float) -> bool:
        """Nothing has come for so long."""
        return self._reading_since is not None and time.monotonic() - self._reading_since > seconds

    def _read(self) -> None:
        lines = CommandLines("standard input")
        try:
            while chunk := self._next():
                self._pass_on(lines.feed(chunk))
                while self._waiting() > MOST_WAITING and not self.to_its_end.wait(0.2):
                    pass
            self._pass_on(lines.finish())
        except BadInput as error:
            self.trouble = str(error)
        except OSError as error:
            self.trouble = f"standard input cannot be read: {error.strerror}"
        except (ClientError, Refusal, OwnerGone) as error:
            self.trouble = str(error)
        finally:
            self.ended.set()
            self._at_its_end()

    def _next(self) -> bytes:
        self._reading_since = time.monotonic()
        try:
            return os.read(self._fd, CHUNK)
        finally:
            self._reading_since = None

    def _pass_on(self, drafts: Iterable[Draft]) -> None:
        """All together; those before a bad line are added before it is complained of."""
        batch: list[Draft] = []
        try:
            batch.extend(drafts)
        finally:
            self._add_batch(batch)

    def _add_batch(self, batch: list[Draft]) -> None:
        try:
            if batch:
                self._offer(batch)
        except CommitFailed:
            raise
        except Refusal:
            if len(batch) == 1:
                raise
            # How lines fall into batches is chance, so a bad one must not cost its neighbours.
            for draft in batch:
                self._offer([draft])

    def _offer(self, batch: list[Draft]) -> None:
        """Again while the queue cannot be written: a pipe does not give its lines twice."""
        while True:
            try:
                return self._add(batch)
            except (CommitFailed, client.NotDurable):
                if self.to_its_end.wait(OFFERED_EVERY):
                    raise
