"""The thread that reads results: every attempt under way once a second, every one that ended to its end.

It takes a small share of one processor, however much is printed: the more there is to read, the fewer lines of it.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from gputui.core.job import Job, JobId
from gputui.core.results import JobResults
from gputui.core.results.series import AttemptSeries
from gputui.process.threads import NoThread, begin
from gputui.session.files.folders import Folders
from gputui.session.journal import Journal
from gputui.session.store.result_rows import ResultRow

from .attempt_reading import AttemptReading

__all__ = ["ReadResults", "ResultsReader"]

EVERY = 1.0
"""Seconds between two looks at a log."""
GATHER = 0.1
"""Seconds in which ends gather: many short jobs wake the thread once."""
SHARE = 0.03
"""Of one processor."""
MOST_LINES, FEWEST_LINES = 200, 6
"""Of one file in one pass."""
KEEP_EVERY = 30.0
"""Seconds; an owner that dies before reads them again."""

Key = tuple[JobId, int]


class ReadResults(Struct, frozen=True):
    """What one pass gave."""

    news: dict[JobId, JobResults]
    rows: list[ResultRow]
    """To be stored."""


class ResultsReader:
    """Told by the owner's thread what to read; hands on what it read."""

    def __init__(self, folders: Folders, journal: Journal, on_read: Callable[[], None]) -> None:
        """`on_read` is called in the reader's thread."""
        self._folders, self._journal, self._on_read = folders, journal, on_read
        self._readings: dict[Key, AttemptReading] = {}
        self._ended: deque[AttemptReading] = deque()
        self._past: deque[tuple[Job, int]] = deque()
        """Attempts that ended under another version, which read no results."""
        self._read: deque[ReadResults] = deque()
        self._wake = threading.Condition()
        self._at_work = threading.Lock()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._lines = MOST_LINES

    # For the owner's thread

    def watch(self, job: Job, attempt: int, stored: ResultRow | None = None) -> None:
        with self._wake:
            if (job.id, attempt) in self._readings:
                return
            self._readings[job.id, attempt] = AttemptReading(job, attempt, self._folders, stored)
            if len(self._readings) == 1:
                self._wake.notify()
        self._begin()

    def end(self, job: JobId, attempt: int) -> None:
        with self._wake:
            reading = self._readings.pop((job, attempt), None)
            if reading is not None:
                self._ended.append(reading)
                if len(self._ended) == 1:
                    self._wake.notify()

    def read_past(self, attempts: list[tuple[Job, int]]) -> None:
        """When there is nothing else to do."""
        with self._wake:
            self._past.extend(attempts)
            self._wake.notify()
        if attempts:
            self._begin()

    def take(self) -> list[ReadResults]:
        """What was read since it was asked last."""
        results: list[ReadResults] = []
        while self._read:
            results.append(self._read.popleft())
        return results

    def series(self, job: JobId, attempt: int) -> AttemptSeries | None:
        """Of an attempt that is being read; a copy."""
        with self._wake:
            reading = self._readings.get((job, attempt))
        if reading is None:
            return None
        with self._at_work:
            return AttemptSeries(dict(reading.series.series))

    def catch_up(self) -> None:
        """Here and now, for an owner that has no thread for it."""
        with self._at_work:
            self._pass(time.time(), final=False)

    def close(self, patience: float = 2.0) -> None:
        """Reads what has ended; what runs is left to the next owner."""
        with self._wake:
            self._closing = True
            self._past.clear()
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(patience)
            if self._thread.is_alive():  # a file system that hangs; the next owner reads it
                return
        with self._at_work:
            self._pass(time.time(), final=True)

    def _begin(self) -> None:
        """Where the machine gives no thread, logs are read when their jobs have ended and the owner leaves."""
        if self._thread is None:
            try:
                self._thread = begin(self._work, "gputui-results")
            except NoThread:
                return

    # The thread

    def _work(self) -> None:
        used, began = time.thread_time(), time.monotonic()
        while self._await_work():
            try:
                with self._at_work:
                    self._pass(time.time(), final=False)
            except Exception:  # a log that cannot be read costs its results, not the others'
                self._journal.write(traceback.format_exc())
            used, began = self._weigh(used, began)

    def _await_work(self) -> bool:
        with self._wake:
            while not (self._readings or self._ended or self._past or self._closing):
                self._wake.wait()
            if not self._closing:
                busy = self._ended or self._past
                self._wake.wait(GATHER if busy else EVERY)
                if self._ended and not busy:
                    self._wake.wait(GATHER)
            return not self._closing

    def _weigh(self, used: float, began: float) -> tuple[float, float]:
        """Fewer lines next time, if these took more than our share."""
        now_used, now = time.thread_time(), time.monotonic()
        share = (now_used - used) / max(now - began, GATHER)
        wanted = self._lines * (SHARE / share if share > SHARE else 1.25)
        self._lines = round(min(MOST_LINES, max(FEWEST_LINES, wanted)))
        return now_used, now

    def _pass(self, now: float, *, final: bool) -> None:
        with self._wake:
            ended, self._ended = list(self._ended), deque()
            going = list(self._readings.values())
            past = self._past.popleft() if self._past and not ended else None
        news: dict[JobId, JobResults] = {}
        rows: list[ResultRow] = []
        for reading in ended:
            if reading.finish(MOST_LINES, now):
                news[reading.job] = reading.results
                rows.append(reading.row(is_over=True))
        if past is not None:
            self._read_past(*past, news, rows)
        for reading in going:
            self._go_on(reading, now, news, rows, final=final)
        if news or rows:
            self._read.append(ReadResults(news, rows))
            self._on_read()

    def _go_on(
        self, reading: AttemptReading, now: float, news: dict[JobId, JobResults], rows: list[ResultRow], *, final: bool
    ) -> None:
        if not final and reading.read(self._lines, now):
            news[reading.job] = reading.results
        if reading.is_dirty and (final or time.monotonic() - reading.kept_at > KEEP_EVERY):
            rows.append(reading.row(is_over=False))

    def _read_past(self, job: Job, attempt: int, news: dict[JobId, JobResults], rows: list[ResultRow]) -> None:
        reading = AttemptReading(job, attempt, self._folders)
        reading.finish(MOST_LINES, time.time())
        news[job.id] = reading.results
        rows.append(reading.row(is_over=True))
