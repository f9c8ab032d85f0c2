"""The sources of one `run` that go on giving jobs: what they gave, and whether more may come."""

from __future__ import annotations

import queue
from collections.abc import Callable, Container, Iterable

from gputui.core.job import JobId
from gputui.core.snapshot import Snapshot
from gputui.session.store.source_record import SourceKind, SourceRecord

from .yielder_prints import Prints


class Lasting:
    """Told in the sources' threads, asked in the run's own."""

    def __init__(self, say: Callable[[str], None], wake: Callable[[], None]) -> None:
        self._say = say
        self._wake = wake
        self._sources: dict[str, SourceRecord] = {}
        """As they were when they last gave something."""
        self._fed: queue.SimpleQueue[tuple[SourceRecord, list[JobId], list[str]]] = queue.SimpleQueue()
        self.failed = False
        self.prints: Prints | None = None
        """What the yielders among them print, if there are any."""

    def wait_for(self, sources: Iterable[SourceRecord]) -> bool:
        """These are this run's; whether there are any that may give more."""
        self._sources.update((source.key, source) for source in sources if source.lasts)
        return bool(self._sources)

    def listen(self, log: str, tell: Callable[[str], None]) -> None:
        """From now on what yielders print is told, where there are any."""
        if any(source.kind is SourceKind.YIELDER for source in self._sources.values()):
            self.prints = Prints(log, tell)

    def announce(self) -> None:
        for source in self._sources.values():
            if source.kind is SourceKind.FOLLOWED:
                self._say(f"what is appended to {source.path} is run")

    def fed(self, source: SourceRecord, jobs: list[JobId], complaints: list[str]) -> None:
        self._fed.put((source, jobs, complaints))
        self._wake()

    def take(self) -> list[JobId]:
        """The jobs that came since it was asked last."""
        job_ids: list[JobId] = []
        if self.prints is not None:
            self.prints.copy()
        while not self._fed.empty():
            source, jobs, complaints = self._fed.get()
            for sentence in complaints:
                self._say(sentence)
            if source.key in self._sources:
                self._sources[source.key] = source
                job_ids += jobs
                self._tell_end(source)
        return job_ids

    def _tell_end(self, source: SourceRecord) -> None:
        if source.trouble is not None:
            self.failed = True
            self._say(f"{source.trouble}; the jobs it gave go on")

    def more_may_come(self, snapshot: Snapshot, remembered: Container[str]) -> bool:
        remembered_sources = (source for key, source in self._sources.items() if key in remembered)
        return any(source.goes_on(snapshot.mode, snapshot.cause) for source in remembered_sources)
