"""A request to the owner from another thread, and its answer, which is given only when it is durable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from gputui.core.events import Event
from gputui.core.scheduler import Scheduler
from gputui.session.files.layouts import Layout
from gputui.session.store.source_record import SourceRecord

T = TypeVar("T")


class Act(Protocol):
    """What a request may do in the owner's thread: look at the scheduler and hand it events."""

    scheduler: Scheduler
    now: float
    sources: dict[str, SourceRecord]
    """Those the session remembers, by their keys; a change of it is stored with the rest of the turn's."""

    def handle(self, event: Event) -> None: ...

    def lay_out(self, layout: Layout) -> None:
        """Jobs that have not begun get folders with these names; Refusal: such folders are there already."""

    def keep_environment(self, environment: dict[str, str]) -> str:
        """Stores an environment with this change; returns its digest."""


Work = Callable[[Act], T]


class OwnerGone(Exception):
    """The owner ended before it could answer; whether the request was carried out must be looked up."""


class Ticket(Generic[T]):
    def __init__(self, work: Work[T], uuid: str | None = None) -> None:
        self.work = work
        self.uuid = uuid
        """Names the request for ever: repeated, it is answered as before and not carried out again."""
        self.reply: Callable[[Ticket[T]], bytes] | None = None
        """How its answer looks on the wire, for the store to remember."""
        self.changes = False
        """It changed something, which must be durable before it is answered."""
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._then: Callable[[Ticket[T]], None] | None = None

    def outcome(self) -> T:
        """What came of it, durable or not; for the owner's thread."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # carried out by now

    def result(self, timeout: float | None = None) -> T:
        """Waits for the answer; raises what the request raised, a Refusal above all."""
        if not self._done.wait(timeout):
            raise TimeoutError("the owner did not answer in time")
        return self.outcome()

    def when_done(self, then: Callable[[Ticket[T]], None]) -> None:
        """Called when the answer is there: in the owner's thread, or at once if it is there already."""
        with self._lock:
            self._then = then
            late = self._done.is_set()
        if late:
            then(self)

    def carry_out(self, act: Act) -> None:
        try:
            self._value = self.work(act)
        except Exception as error:
            self._error = error

    @property
    def failed(self) -> bool:
        return self._error is not None

    def answer(self, value: T) -> None:
        """Another one than it had, before it is given."""
        self._value = value

    def fail(self, error: BaseException) -> None:
        self._error = self._error or error

    def settle(self, error: BaseException | None = None) -> None:
        self._error = self._error or error
        with self._lock:
            self._done.set()
            then = self._then
        if then is not None:
            then(self)
