"""What everybody else sees of the session: the newest snapshot, which jobs changed, and whoever is told of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec.structs import replace

from gputui.core.job import JobId
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.core.views.eta import SteadyEnd
from gputui.session.results.results import SessionResults

ETA_EVERY = 1.0


class Publication:
    """Made anew by each turn; any thread may read the snapshot."""

    def __init__(self, scheduler: Scheduler, results: SessionResults, on_change: Callable[[], None]) -> None:
        self._results = results
        self.snapshot: Snapshot = results.over(scheduler.snapshot())
        self.on_turn: list[Callable[[Snapshot], None]] = []
        """Called in the owner's thread with each new snapshot."""
        self.on_change = on_change
        self._eta: tuple[float, float | None] = (0.0, None)
        self._steady_end = SteadyEnd()
        self._changed: set[JobId] = set()
        self._changed_lock = threading.Lock()

    def renew(self, scheduler: Scheduler, now: float, trouble: str | None, awaits: Callable[[], str]) -> Snapshot:
        """`awaits` is asked what an idle session waits for."""
        if abs(now - self._eta[0]) > ETA_EVERY:
            self._eta = (now, self._end(scheduler, now))
        snapshot = self._results.show(scheduler.snapshot())
        awaited = awaits() if not snapshot.active else ""
        self.snapshot = replace(snapshot, eta=self._eta[1], trouble=trouble, awaits=awaited)
        return self.snapshot

    def _end(self, scheduler: Scheduler, now: float) -> float | None:
        waiting = sum(scheduler.book.waiting_in_group.values())
        return self._steady_end.take(
            scheduler.eta(now, self._results.book.results), now, waiting, len(scheduler.board.lanes)
        )

    def settle(self) -> None:
        """The last picture: with what was read when the owner left."""
        self.snapshot = self._results.over(self.snapshot)

    def tell(self) -> None:
        with self._changed_lock:
            self._changed |= self.snapshot.changed
        for look in self.on_turn:
            look(self.snapshot)
        self.on_change()

    def take_changed(self) -> set[JobId]:
        """The jobs that changed since it was asked last; a snapshot read afterwards has all of it."""
        with self._changed_lock:
            changed, self._changed = self._changed, set()
        return changed
