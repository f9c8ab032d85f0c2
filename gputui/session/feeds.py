"""Sources that go on while jobs run: followed files and yielders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from gputui.core.events import Refusal
from gputui.core.job import JobId, JobSpec
from gputui.core.snapshot import Snapshot
from gputui.sources.follow import Follower
from gputui.sources.source import BadInput, Draft, Occurrences, specs
from gputui.sources.yielder import Yielder, python_of

from .errors import CommitFailed
from .event_loop import Act, OwnerGone
from .layouts import check_outfiles
from .loading import SourceKind, SourceRecord, plan

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner


# ---- What a source gave, taken in ----


class Given(msgspec.Struct, frozen=True):
    """What became of it."""

    source: SourceRecord
    """As it is remembered now."""
    jobs: list[JobId]
    refused: list[str]


class Fed(msgspec.Struct, frozen=True):
    """Jobs of a source and how far it was read, in one turn. A job that is refused does not cost its neighbours."""

    before: SourceRecord
    specs: tuple[JobSpec, ...]
    changes: dict[str, Any]
    """Of what is remembered of the source."""

    def __call__(self, act: Act) -> Given:
        source = act.sources.get(self.before.key)
        if source is None or source.reading != self.before.reading:
            raise OwnerGone("the source was forgotten, or is read by another")
        first = act.scheduler.book.next_id
        known_jobs, refused = self._taken(act)
        source = act.sources[source.key] = replace(source, **self.changes)
        return Given(source, [*known_jobs, *range(first, act.scheduler.book.next_id)], refused)

    def _taken(self, act: Act) -> tuple[list[JobId], list[str]]:
        """An add is refused before it changes anything; then each job is taken for itself."""
        try:
            return self._take(act, self.specs), []
        except CommitFailed:
            raise
        except Refusal:
            pass
        job_ids: list[JobId] = []
        refused: list[str] = []
        for spec in self.specs:
            try:
                job_ids += self._take(act, (spec,))
            except Refusal as refusal:
                refused.append(f"{spec.command}: {refusal}")
        return job_ids, refused

    def _take(self, act: Act, wanted: tuple[JobSpec, ...]) -> list[JobId]:
        planned = plan(act.scheduler.book, wanted, self.before.again, now=act.now)
        check_outfiles(act.scheduler.book, planned.new)
        for event in planned.events():
            act.handle(event)
        return list(planned.jobs)


# ---- One source that goes on, read in a thread of its own ----


OnFed = Callable[[SourceRecord, list[JobId], list[str]], None]
"""Told what became durable: the source, its jobs, and complaints."""

LOOK_EVERY = 0.25
MOST_WAITING = 10_000
"""A followed file is not read further while so many jobs wait."""
AHEAD = 100
"""A yielder is not asked for more while so many jobs wait: it may want to see how the first ones ended."""


class Feed(threading.Thread):
    """Reads one source until it ends or is told to stop."""

    def __init__(self, owner: Owner, source: SourceRecord, on_fed: OnFed) -> None:
        super().__init__(name=f"gputui-{source.kind}", daemon=True)
        self._owner = owner
        self._source = source
        self._begun_by = source.load
        self._on_fed = on_fed
        self._stopped = threading.Event()
        self._hands = threading.Lock()
        """Held while something was read that is not durable yet."""
        self._yielder: Yielder | None = None

    def begun(self) -> bool:
        """False: the machine gives no thread now."""
        try:
            self.start()
        except (RuntimeError, MemoryError):
            return False
        return True

    @property
    def load(self) -> str:
        """Which load began it."""
        return self._begun_by

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
        self._on_fed(self._source, [], [sentence])

    def _give(self, drafts: tuple[Draft, ...], occurrences: Occurrences | None = None, **changes: object) -> None:
        """Returns when it is durable."""
        remembered = self._owner.sources.get(self._source.key)
        if remembered is not None and remembered.reading == self._source.reading:
            self._source = remembered  # perhaps with other settings by now
        source = self._source
        wanted = specs(
            drafts,
            cwd=source.cwd,
            environment=source.environment,
            group=source.group,
            defaults=source.settings,
            occurrences=occurrences,
        )
        taken_in = self._taken(Fed(source, wanted, changes))
        self._source = taken_in.source
        for sentence in taken_in.refused:
            self._owner.journal.write(sentence)
        self._on_fed(taken_in.source, taken_in.jobs, taken_in.refused)

    def _taken(self, fed: Fed) -> Given:
        """Offered again while the queue cannot be written: what was read is not given twice."""
        while True:
            try:
                return self._owner.do(fed).result()
            except CommitFailed:
                if self._stopped.wait(LOOK_EVERY):
                    raise OwnerGone("told to stop") from None

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
        log = self._owner.paths.yielder_log
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
            known_before = max(0, min(len(batch), before - (came - len(batch))))
            source = self._source
            specs(
                batch[:known_before], cwd=source.cwd, environment="", defaults=source.settings, occurrences=occurrences
            )
            if batch[known_before:]:
                self._give(tuple(batch[known_before:]), occurrences, position=came)

    def _room(self, given_back: int) -> int:
        """How many more items are wanted; waits until there is room. 0: told to stop."""
        while not self._stopped.is_set():
            room = AHEAD - self._owner.snapshot.waiting
            if room > 0 or given_back > 0:
                return max(room, given_back)
            self._stopped.wait(LOOK_EVERY)
        return 0


# ---- The sources that go on while jobs run ----


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
