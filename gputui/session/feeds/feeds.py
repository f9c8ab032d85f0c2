"""The sources that go on while jobs run: read by whoever owns the session, and by the next owner from there on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gputui.core.job import JobId
from gputui.core.snapshot import Snapshot
from gputui.session.store.source_record import SourceKind, SourceRecord

from .feed import LOOK_EVERY, Feed, OnFed

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner

LAST_LINES = 1.0
"""Seconds that an owner who leaves may spend on what was just read."""


class Feeds:
    """Starts a thread for each source that can go on; told every snapshot, in the owner's thread."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._feeds: dict[str, Feed] = {}
        self._ending: dict[str, Feed] = {}
        """Told to stop; another reader of the same source waits until they have."""
        self.on_fed: OnFed = lambda source, jobs, complaints: None
        """Called in a feed's thread with what became durable."""
        owner.on_turn.append(self.look)
        owner.on_leaving.append(self.close)

    def look(self, snapshot: Snapshot) -> None:
        if not self._owner.sources and not self._feeds:
            return
        wanted = {
            key: source for key, source in self._owner.sources.items() if source.goes_on(snapshot.mode, snapshot.cause)
        }
        for key in [key for key, feed in self._feeds.items() if not _still_meant(feed, wanted.get(key))]:
            self._ending[key] = self._feeds.pop(key)
            self._ending[key].stop()
        for key in wanted.keys() - self._feeds.keys():
            self._begin(key, wanted[key])

    def _begin(self, key: str, source: SourceRecord) -> None:
        feed = Feed(self._owner, source, self._tell)
        if (key in self._ending and self._ending[key].is_alive()) or not feed.begun():
            self._owner.loop.call_later(LOOK_EVERY, lambda: self.look(self._owner.snapshot))
            return
        self._feeds[key] = feed

    def _tell(self, source: SourceRecord, jobs: list[JobId], complaints: list[str]) -> None:
        self.on_fed(source, jobs, complaints)

    def close(self) -> None:
        """What was read already is still taken in: a FIFO does not give it twice."""
        for feed in self._feeds.values():
            feed.stop()
        deadline = time.monotonic() + LAST_LINES
        while any(feed.has_hands_full for feed in self._feeds.values()) and time.monotonic() < deadline:
            self._owner.take_in()
            time.sleep(0.001)


def _still_meant(feed: Feed, source: SourceRecord | None) -> bool:
    """A yielder that is given again begins anew; a followed file is just followed on."""
    return source is not None and (source.kind is SourceKind.FOLLOWED or source.load == feed.load)
