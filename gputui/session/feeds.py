"""Sources that deliver jobs while the session runs: followed files and yielders."""

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

from .code_snapshots import with_code
from .errors import CommitFailed
from .event_loop import OwnerGone, TurnContext
from .loading import SourceKind, SourceRecord, check_outfiles, plan

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner


class IngestResult(msgspec.Struct, frozen=True):
    source: SourceRecord
    """The updated record of the source."""
    jobs: list[JobId]
    refused: list[str]


class IngestJobs(msgspec.Struct, frozen=True):
    """Add jobs of a source and record how far the source was read, both in one turn. If a job is refused, the others
    are still added.
    """

    before: SourceRecord
    specs: tuple[JobSpec, ...]
    changes: dict[str, Any]
    """New values of fields of the source's record."""

    def __call__(self, act: TurnContext) -> IngestResult:
        source = act.sources.get(self.before.key)
        if source is None or source.reading != self.before.reading:
            raise OwnerGone("source was removed, or is read by another")
        first = act.scheduler.book.next_id
        known_jobs, refused = self._add_all(act)
        source = act.sources[source.key] = replace(source, **self.changes)
        return IngestResult(source, [*known_jobs, *range(first, act.scheduler.book.next_id)], refused)

    def _add_all(self, act: TurnContext) -> tuple[list[JobId], list[str]]:
        """Add all jobs at once. If that is refused, nothing has changed, and each job is added on its own."""
        try:
            return self._add(act, self.specs), []
        except CommitFailed:
            raise
        except Refusal:
            pass
        job_ids: list[JobId] = []
        refused: list[str] = []
        for spec in self.specs:
            try:
                job_ids += self._add(act, (spec,))
            except Refusal as refusal:
                refused.append(f"{spec.command}: {refusal}")
        return job_ids, refused

    def _add(self, act: TurnContext, added: tuple[JobSpec, ...]) -> list[JobId]:
        planned = plan(act.scheduler.book, added, self.before.again, now=act.now)
        check_outfiles(act.scheduler.book, planned.new)
        for event in planned.events():
            act.handle(event)
        return list(planned.jobs)


OnFed = Callable[[SourceRecord, list[JobId], list[str]], None]
"""Callback that is called when added jobs are durable. Its arguments are the source, its jobs, and error messages."""

LOOK_EVERY = 0.25
LAST_LINES = 1.0
"""Seconds that a leaving owner may spend on adding what its sources have just read."""
MOST_WAITING = 10_000
"""Number of waiting jobs above which a followed file is not read further."""
AHEAD = 100
"""Number of waiting jobs at which a yielder is not asked for more. The limit is low because a yielder may depend on
results of earlier jobs.
"""


class Feed(threading.Thread):
    """A thread that reads one source until it ends or `stop` is called."""

    def __init__(self, owner: Owner, source: SourceRecord, on_fed: OnFed) -> None:
        super().__init__(name=f"gputui-{source.kind}", daemon=True)
        self._owner = owner
        self._source = source
        self.load = source.load
        """The id of the load that started this thread."""
        self._on_fed = on_fed
        self._stopped = threading.Event()
        self._uncommitted = threading.Lock()
        """A lock that is held while something that has been read is not durable yet."""
        self._yielder: Yielder | None = None

    def stop(self) -> None:
        self._stopped.set()
        if self._yielder is not None:
            self._yielder.kill()

    @property
    def has_uncommitted(self) -> bool:
        return self.is_alive() and self._uncommitted.locked()

    def run(self) -> None:
        try:
            self._follow() if self._source.kind is SourceKind.FOLLOWED else self._yield()
        except OwnerGone:
            pass
        except Exception as error:
            # The session reports any error and continues without this source.
            self._complain(f"stopped reading {self._source.path}: {error!r}")
            with suppress(OwnerGone):
                self._give((), ended=True, trouble=repr(error))

    def _complain(self, sentence: str) -> None:
        self._owner.journal.write(sentence)
        self._on_fed(self._source, [], [sentence])

    def _give(self, drafts: tuple[Draft, ...], occurrences: Occurrences | None = None, **changes: object) -> None:
        """Have the owner add these jobs and update the source's record. Return when both are durable."""
        remembered = self._owner.sources.get(self._source.key)
        if remembered is not None and remembered.reading == self._source.reading:
            self._source = remembered  # its settings may have changed
        source = self._source
        wanted = specs(
            drafts,
            cwd=source.cwd,
            environment=source.environment,
            group=source.group,
            defaults=source.settings,
            occurrences=occurrences,
        )
        unsnapped = ""
        try:
            wanted = with_code(self._owner.paths.root, wanted)
        except BadInput as bad:
            unsnapped, wanted = str(bad), ()
        while True:  # retried until the store can be written, because the source does not deliver these jobs twice
            try:
                result = self._owner.do(IngestJobs(source, wanted, changes)).result()
                break
            except CommitFailed:
                if self._stopped.wait(LOOK_EVERY):
                    raise OwnerGone("stop requested") from None
        self._source = result.source
        refused = [*result.refused, *(f"{draft.command}: {unsnapped}" for draft in drafts if unsnapped)]
        for sentence in refused:
            self._owner.journal.write(sentence)
        self._on_fed(result.source, result.jobs, refused)

    # Followed files

    def _follow(self) -> None:
        source = self._source
        follower = Follower(source.path, source.position, source.mark, source.rest)
        try:
            while not self._stopped.is_set():
                full = self._owner.snapshot.waiting > MOST_WAITING
                with self._uncommitted:
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
        environment = self._owner.do(lambda act: self._owner.environment(source.environment)).result()
        log = self._owner.paths.yielder_log
        python = python_of(environment)
        self._yielder = Yielder(source.path, python=python, cwd=source.cwd, environment=environment, log=log)
        try:
            self._read_items(self._yielder)
            if not self._stopped.is_set():
                self._give((), ended=True)
        except BadInput as bad:
            if not self._stopped.is_set():
                self._owner.journal.write(f"{bad} ({log})")
                self._give((), ended=True, trouble=f"{bad} (more in {log})")
        finally:
            self._yielder.close()

    def _read_items(self, yielder: Yielder) -> None:
        """Read the items of the yielder. Items that an earlier owner has added are counted, but not added again."""
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
        """Wait until more jobs may be added. Return how many items the yielder may yield, or 0 if the thread was
        stopped.
        """
        while not self._stopped.is_set():
            room = AHEAD - self._owner.snapshot.waiting
            if room > 0 or given_back > 0:
                return max(room, given_back)
            self._stopped.wait(LOOK_EVERY)
        return 0


class Feeds:
    """The threads that read the session's sources, one for each source that may deliver more jobs. `look` is called
    with every snapshot in the owner's thread.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._feeds: dict[str, Feed] = {}
        self._ending: dict[str, Feed] = {}
        """Threads that are stopping. A new reader of the same source waits until the old one has ended."""
        self.on_fed: OnFed = lambda source, jobs, complaints: None
        """Callback that is called when added jobs are durable. It is called in the thread of the source."""
        owner.on_turn.append(self.look)
        owner.on_leaving.append(self.close)

    def look(self, snapshot: Snapshot) -> None:
        if not self._owner.sources and not self._feeds:
            return
        wanted = {
            key: source
            for key, source in self._owner.sources.items()
            if source.may_yield(snapshot.mode, snapshot.cause)
        }
        for key in [key for key, feed in self._feeds.items() if not _is_wanted(feed, wanted.get(key))]:
            self._ending[key] = self._feeds.pop(key)
            self._ending[key].stop()
        for key in wanted.keys() - self._feeds.keys():
            self._start(key, wanted[key])

    def _start(self, key: str, source: SourceRecord) -> None:
        feed = Feed(self._owner, source, lambda *fed: self.on_fed(*fed))
        if key not in self._ending or not self._ending[key].is_alive():
            with suppress(RuntimeError, MemoryError):  # no thread could be started
                feed.start()
                self._feeds[key] = feed
                return
        self._owner.loop.call_later(LOOK_EVERY, lambda: self.look(self._owner.snapshot))

    def close(self) -> None:
        """Stop reading, and commit what was already read, because a FIFO does not deliver it twice."""
        for feed in self._feeds.values():
            feed.stop()
        deadline = time.monotonic() + LAST_LINES
        while any(feed.has_uncommitted for feed in self._feeds.values()) and time.monotonic() < deadline:
            self._owner.ingest_pending()
            time.sleep(0.001)


def _is_wanted(feed: Feed, source: SourceRecord | None) -> bool:
    """Return whether this thread still reads the right source. A yielder that is loaded again is started again; a
    followed file is not.
    """
    return source is not None and (source.kind is SourceKind.FOLLOWED or source.load == feed.load)
