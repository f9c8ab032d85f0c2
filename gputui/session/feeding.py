"""Jobs that sources give while others run: each is read in a thread of its own, by whoever owns the session.

What came and how far it was read are made durable together: the next owner goes on just there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from gputui.core.events import Refusal
from gputui.core.job import JobId, JobSpec
from gputui.core.snapshot import Snapshot
from gputui.sources.follow import Follower
from gputui.sources.source import BadInput, Draft, Occurrences, specs
from gputui.sources.user_python import python_of
from gputui.sources.yielder import Yielder

from .loading import Again, plan
from .outfiles import check_outfiles
from .source_record import SourceKind, SourceRecord
from .ticket import Act, OwnerGone

if TYPE_CHECKING:
    from .owner import Owner

LOOK_EVERY = 0.25
MOST_WAITING = 10_000
"""A followed file is not read further while so many jobs wait."""
LAST_LINES = 1.0
"""Seconds that an owner who leaves may spend on what was just read."""
AHEAD = 100
"""A yielder is not asked for more while so many jobs wait: it may want to see how the first ones ended."""


class Fed(msgspec.Struct, frozen=True):
    """Jobs of a source and how far it was read, in one turn. A job that is refused does not cost its neighbours."""

    before: SourceRecord
    source: SourceRecord
    """As it is after them."""
    specs: tuple[JobSpec, ...] = ()

    def __call__(self, act: Act) -> tuple[list[JobId], list[str]]:
        if act.sources.get(self.source.key) != self.before:
            raise OwnerGone("the source was forgotten, or is read anew")
        planned = plan(act.scheduler.book, self.specs, self.source.again)
        first = act.scheduler.book.next_id
        refused = [] if _taken(act, self.specs, self.source.again) else self._one_by_one(act)
        act.sources[self.source.key] = self.source
        return [*planned.jobs, *range(first, act.scheduler.book.next_id)], refused

    def _one_by_one(self, act: Act) -> list[str]:
        refused: list[str] = []
        for spec in self.specs:
            try:
                _take(act, (spec,), self.source.again)
            except Refusal as refusal:
                refused.append(f"{spec.command}: {refusal}")
        return refused


def _taken(act: Act, wanted: tuple[JobSpec, ...], again: Again) -> bool:
    """An add refuses before it changes anything; what is rerun was looked at just now."""
    try:
        _take(act, wanted, again)
    except Refusal:
        return False
    return True


def _take(act: Act, wanted: tuple[JobSpec, ...], again: Again) -> None:
    planned = plan(act.scheduler.book, wanted, again)
    check_outfiles(act.scheduler.book, planned.new)
    for event in planned.events():
        act.handle(event)


class Feeds:
    """Starts a thread for each source that can go on; told every snapshot, in the owner's thread."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._feeds: dict[str, Feed] = {}
        self._ending: dict[str, Feed] = {}
        """Told to stop; another reader of the same source waits until they have."""
        self.on_fed: Callable[[SourceRecord, list[JobId], list[str]], None] = lambda source, jobs, complaints: None
        """Called in a feed's thread with what became durable."""
        owner.on_turn.append(self.look)
        owner.on_leaving.append(self.close)

    def look(self, snapshot: Snapshot) -> None:
        if not self._owner.sources and not self._feeds:
            return
        wanted = {key: one for key, one in self._owner.sources.items() if one.goes_on(snapshot.mode, snapshot.cause)}
        for key in self._feeds.keys() - wanted.keys():
            self._ending[key] = self._feeds.pop(key)
            self._ending[key].stop()
        for key in wanted.keys() - self._feeds.keys():
            self._begin(key, wanted[key])

    def _begin(self, key: str, source: SourceRecord) -> None:
        if key in self._ending and self._ending[key].is_alive():
            self._owner.loop.call_later(LOOK_EVERY, lambda: self.look(self._owner.snapshot))
            return
        self._feeds[key] = Feed(self._owner, source, self)
        self._feeds[key].start()

    def close(self) -> None:
        """What was read already is still taken in: a FIFO does not give it twice."""
        for feed in self._feeds.values():
            feed.stop()
        deadline = time.monotonic() + LAST_LINES
        while any(feed.has_hands_full for feed in self._feeds.values()) and time.monotonic() < deadline:
            self._owner.take_in()
            time.sleep(0.001)


class Feed(threading.Thread):
    """Reads one source until it ends or is told to stop."""

    def __init__(self, owner: Owner, source: SourceRecord, feeds: Feeds) -> None:
        super().__init__(name=f"gputui-{source.kind}", daemon=True)
        self._owner = owner
        self._source = source
        self._feeds = feeds
        self._stopped = threading.Event()
        self._hands = threading.Lock()
        """Held while something was read that is not durable yet."""
        self._yielder: Yielder | None = None

    def stop(self) -> None:
        self._stopped.set()
        if self._yielder is not None:
            self._yielder.kill()

    @property
    def has_hands_full(self) -> bool:
        return self.is_alive() and self._hands.locked()

    def run(self) -> None:
        try:
            self._follow() if self._source.kind is SourceKind.FOLLOWED else self._yield()
        except OwnerGone:
            pass
        except Exception as error:
            # Whatever it is, the session goes on without this source, and says so.
            self._complain(f"{self._source.path} is read no further: {error!r}")
            with suppress(OwnerGone):
                self._give((), ended=True, trouble=repr(error))

    def _complain(self, sentence: str) -> None:
        self._owner.journal.write(sentence)
        self._feeds.on_fed(self._source, [], [sentence])

    def _give(self, drafts: tuple[Draft, ...], occurrences: Occurrences | None = None, **changes: object) -> None:
        """Returns when it is durable."""
        source = replace(self._source, **changes)
        wanted = specs(
            drafts,
            cwd=source.cwd,
            environment=source.environment,
            group=source.group,
            defaults=source.settings,
            occurrences=occurrences,
        )
        jobs, refused = self._owner.do(Fed(self._source, source, wanted)).result()
        self._source = source
        for sentence in refused:
            self._owner.journal.write(sentence)
        self._feeds.on_fed(source, jobs, refused)

    # Followed files

    def _follow(self) -> None:
        source = self._source
        follower = Follower(source.path, source.position, source.mark, source.rest)
        try:
            while not self._stopped.is_set():
                full = self._owner.snapshot.waiting > MOST_WAITING
                with self._hands:
                    came = not full and not self._stopped.is_set() and self._read(follower)
                if not came and (full or not follower.wait(LOOK_EVERY)):
                    self._stopped.wait(LOOK_EVERY)
        finally:
            follower.close()

    def _read(self, follower: Follower) -> bool:
        read = follower.read()
        if read is None:
            return False
        now, before = (read.position, read.mark, read.rest), self._source
        if read.drafts or now != (before.position, before.mark, before.rest):
            self._give(read.drafts, position=read.position, mark=read.mark, rest=read.rest)
        for sentence in read.complaints:
            self._complain(sentence)
        return True

    # Yielders

    def _yield(self) -> None:
        source = self._source
        environment = self._owner.environment_of(source.environment)
        log = os.path.join(self._owner.paths.private, "yielder.log")
        python = python_of(environment)
        self._yielder = Yielder(source.path, python=python, cwd=source.cwd, environment=environment, log=log)
        try:
            self._take_all(self._yielder)
            if not self._stopped.is_set():
                self._give((), ended=True)
        except BadInput as bad:
            if not self._stopped.is_set():
                self._owner.journal.write(f"{bad} ({log})")
                self._give((), ended=True, trouble=f"{bad} (more in {log})")
        finally:
            self._yielder.close()

    def _take_all(self, yielder: Yielder) -> None:
        """Items that were taken before only count: they are numbered, not added again."""
        occurrences = Occurrences()
        before = self._source.position
        allowed = came = 0
        batches = yielder.batches()
        while True:
            if came >= allowed:
                room = self._room(before - came)
                if room == 0:
                    return
                allowed += room
                yielder.allow(room)
            batch = next(batches, None)
            if batch is None:
                return
            came += len(batch)
            known = max(0, min(len(batch), before - (came - len(batch))))
            source = self._source
            specs(batch[:known], cwd=source.cwd, environment="", defaults=source.settings, occurrences=occurrences)
            if batch[known:]:
                self._give(tuple(batch[known:]), occurrences, position=came)

    def _room(self, known: int) -> int:
        """How many more items are wanted; waits until there is room. 0: told to stop."""
        while not self._stopped.is_set():
            room = AHEAD - self._owner.snapshot.waiting
            if room > 0 or known > 0:
                return max(room, known)
            self._stopped.wait(LOOK_EVERY)
        return 0
