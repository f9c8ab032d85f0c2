"""The results of a session: a thread reads them from the logs of attempts while the logs grow, and the owner stores and
shows them.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.job import Job, JobId
from gputui.core.results import (
    UNNAMED,
    AttemptSeries,
    Behind,
    Curve,
    JobResults,
    MainMetric,
    Point,
    ResultBook,
    WantedMetric,
    direction_of,
    parse_wanted_metric,
)
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.process.watch import NoThread, start_thread
from gputui.session.store.store import ResultRow, Store
from gputui.views.siblings import MOST_SIBLINGS, Family, SiblingBook, behind, family_of

from .job_directories import Directories
from .session_dir import Journal

if TYPE_CHECKING:
    from gputui.logs.metrics import MetricReader, MetricReading

T = TypeVar("T")

# Files


FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def streams(directories: Directories, job: Job, attempt: int) -> list[tuple[str, ...]]:
    """Return the possible paths of each log of the attempt. The logs of a first attempt are moved when a second one
    starts.
    """
    named = directories.files(job, attempt)
    paths = [named.out] if named.err is None else [named.out, named.err]
    if attempt > 1 or job.spec.outfile is not None:
        return [(directories.stable_path(path),) for path in paths]
    moved = directories.moved(job)
    # After the move, the first path is a symlink, which is not followed.
    return [
        (directories.stable_path(path), directories.stable_path(own))
        for path, own in zip(paths, (moved.out, moved.err or ""), strict=False)
    ]


@contextmanager
def opened(places: tuple[str, ...]) -> Iterator[tuple[int, os.stat_result] | None]:
    """Open the first path that exists. Yield the descriptor and status, or None if there is no regular file. Never
    blocks on a FIFO.
    """
    for place in places:
        with suppress(OSError, ValueError):
            descriptor = os.open(place, FLAGS)
            break
    else:
        yield None
        return
    try:
        facts = os.fstat(descriptor)
        yield (descriptor, facts) if stat.S_ISREG(facts.st_mode) else None
    finally:
        os.close(descriptor)


# One attempt


AT_ONCE = 1 << 18
"""Maximum number of bytes of a file that are read in one piece."""
FURTHEST_BEHIND = 1 << 26
"""Maximum number of bytes by which the reader may fall behind a log that grows faster than it is read. If it falls
further behind, it skips the oldest bytes.
"""
LAST_BEHIND = 1 << 22
"""The same limit as FURTHEST_BEHIND, for a leaving owner that has already spent CLOSING_TIME seconds on reading."""
HEAD = TAIL = 1 << 16
"""Number of bytes read first from each end of a long log. The start names the metrics, and the end shows the current
progress.
"""
MOST_AHEAD = 500
"""Maximum number of readings from the end of a log that are kept until the reader gets there."""


class _LogState(Struct):
    """How far a log was read. It is stored, so that the next owner reads nothing twice."""

    offset: int = 0
    reader: bytes = b""


class _LogTail:
    """The end of a log that is still being read from its start. It is shown early, and read again when its
    turn comes.
    """

    def __init__(self, start: int, reader: MetricReader) -> None:
        self.start = self.offset = start
        self.reader = reader
        self.reader.gap()
        self.readings: deque[tuple[MetricReading, float]] = deque(maxlen=MOST_AHEAD)


class _LogReader:
    """The reading of one log file of an attempt."""

    def __init__(self, places: tuple[str, ...], state: _LogState | None, wanted: WantedMetric | None) -> None:
        self.places = places
        self.offset = state.offset if state is not None else 0
        self._stored, self._wanted = state, wanted
        self.written = 0.0
        self.is_behind = False
        self.ahead: _LogTail | None = None

    @cached_property
    def reader(self) -> MetricReader:
        """The reader of the log. It is created when there is output, because many jobs print nothing and importing its
        module is slow.
        """
        from gputui.logs.metrics import MetricReader

        stored = self._stored.reader if self._stored is not None else b""
        with suppress(ValueError):  # written by another version
            return MetricReader.resume(stored) if stored else MetricReader(self._wanted)
        reader = MetricReader(self._wanted)
        reader.gap()
        return reader

    @property
    def newest(self) -> MetricReader | None:
        """The reader that knows the job's current progress, or None if there was no output yet."""
        if self.ahead is not None:
            return self.ahead.reader
        return self.reader if self.offset else None

    def read(self, most: int, now: float, times: int = 1, furthest: int = FURTHEST_BEHIND) -> list[MetricReading]:
        """Read at most `times` pieces. Skip everything that is more than `furthest` bytes before the end.

        `most` is the number of lines per piece. `now` is the time of the newest readings.
        """
        if not self.offset and _is_empty(self.places[0]):
            return []
        with opened(self.places) as log:
            if log is None:
                return []
            descriptor, facts = log
            size = facts.st_size
            self.is_behind, self.written = False, facts.st_mtime
            readings: list[MetricReading] = []
            for _ in range(times if size != self.offset else 0):
                if size < self.offset:  # it was truncated
                    self.offset = 0
                    self.reader.gap()
                elif self.offset and size - self.offset > furthest:
                    self.offset = size - furthest
                    self.reader.gap()
                data = os.pread(descriptor, AT_ONCE if self.offset else min(AT_ONCE, HEAD), self.offset)
                self.offset += len(data)
                self.is_behind = self.offset < size and bool(data)
                readings += self.reader.feed(data, most)
                if not self.is_behind:
                    break
            self._look_ahead(descriptor, size, most, min(now, self.written))
            return readings

    def _look_ahead(self, descriptor: int, size: int, most: int, at: float) -> None:
        if not self.is_behind:
            self.ahead = None
            return
        ahead = self.ahead
        if ahead is None or ahead.start < self.offset or not 0 <= size - ahead.offset <= TAIL:
            ahead = self.ahead = _LogTail(max(self.offset, size - TAIL), type(self.reader).resume(self.reader.state()))
        data = os.pread(descriptor, size - ahead.offset, ahead.offset)
        ahead.offset += len(data)
        ahead.readings.extend((reading, at) for reading in ahead.reader.feed(data, most))

    def state(self) -> _LogState:
        return _LogState(self.offset, self.reader.state() if self.offset else b"")


class AttemptReader:
    """The reading of all logs of one attempt. Only one thread may use it at a time."""

    def __init__(self, job: Job, attempt: int, directories: Directories, stored: ResultRow | None = None) -> None:
        self.job, self.attempt = job.id, attempt
        self.family = family_of(job.spec)
        self.is_dirty = False
        """Whether something was read that is not stored yet."""
        self.failed = False
        """Whether the attempt could not be read. The error has been logged."""
        self.kept_at = time.monotonic()
        wanted = parsed_metric(job.spec.metric)
        self._direction = (wanted.name or UNNAMED, wanted.direction) if wanted is not None else (None, None)
        self._last_progress: tuple[float | None, float | None] = (None, None)
        """The last progress and the time when it was printed."""
        before = decoded(stored.results, JobResults) if stored is not None else None
        self._written_at = before.written_at if before is not None else None
        self._longest_pause, self._outputs = (before.longest_pause, before.outputs) if before is not None else (0.0, 0)
        self._silent_since = job.active.since if job.active is not None and stored is None else None
        series = decoded(stored.series, AttemptSeries) if stored is not None else None
        logs = decoded(stored.state, list[_LogState]) if stored is not None and stored.state else []
        if series is None or logs is None:  # unreadable: read everything again
            series, logs = AttemptSeries(), []
        self._series = series
        self._open: Callable[[], list[_LogReader]] = lambda: [
            _LogReader(places, logs[number] if number < len(logs) else None, wanted)
            for number, places in enumerate(streams(directories, job, attempt))
        ]

    @cached_property
    def _logs(self) -> list[_LogReader]:
        """The readers of the log files. The reading thread creates them, because the owner's thread has
        no time for it.
        """
        return self._open()

    def read(self, most: int, now: float, times: int = 1, furthest: int = FURTHEST_BEHIND) -> bool:
        """Read what was written since the last call. Return whether there was anything."""
        before = [log.offset for log in self._logs]
        for number, log in enumerate(self._logs):
            readings = log.read(most, now, times, furthest)
            self._take(self._series, readings, min(now, log.written) if log.written else now, number)
        changed = [log.offset for log in self._logs] != before
        if changed:
            # Output from before the first read is as old as its file. A file server's clock may be ahead, hence `min`.
            written = max(log.written for log in self._logs)
            at = now if self._outputs else min(now, written or now)
            if self._silent_since is not None:
                self._longest_pause = max(self._longest_pause, at - self._silent_since)
            self._silent_since = self._written_at = at
            self._outputs += 1
        self.is_dirty = self.is_dirty or changed
        return changed

    @property
    def is_behind(self) -> bool:
        return any(log.is_behind for log in self._logs)

    def finish(self, most: int, now: float, furthest: int = FURTHEST_BEHIND) -> bool:
        """Continue reading after the attempt has ended. At the end of the log, also read a last line without a newline.
        Return whether the attempt has results to be stored.
        """
        changed = self.read(most, now, AT_THE_END, furthest)
        for number, log in enumerate(self._logs if not self.is_behind else ()):
            if not log.offset:
                continue
            self._take(self._series, log.reader.finish(), min(now, log.written) if log.written else now, number)
        return changed or self.is_dirty or bool(self._series.series)

    def _take(self, series: AttemptSeries, readings: list[MetricReading], at: float, log: int) -> None:
        name, direction = self._direction
        for reading in readings:
            wanted = direction if reading.name == name else None
            series.take(reading.name, Point(reading.step, at, reading.value), wanted, unit=reading.unit, log=log)

    @property
    def results(self) -> JobResults:
        progress = self._progress()
        if progress != self._last_progress[0]:
            self._last_progress = (progress, max(log.written for log in self._logs) or time.time())
        note = next((newest.note for log in reversed(self._logs) if (newest := log.newest) and newest.note), "")
        results = self.series.results(self.attempt, progress, note, self._last_progress[1])
        return replace(results, written_at=self._written_at, longest_pause=self._longest_pause, outputs=self._outputs)

    def _progress(self) -> float | None:
        # Epochs measure the progress of the whole job. Without them, the log that was written last is the most current.
        reported = [
            (newest.tells_whole, log.written, newest.progress)
            for log in self._logs
            if (newest := log.newest) is not None and newest.progress is not None
        ]
        return max(reported)[2] if reported else None

    @property
    def series(self) -> AttemptSeries:
        """What was read so far, including the end of the log if it was read ahead."""
        if not self.is_behind:
            return self._series
        series = msgspec.msgpack.decode(msgspec.msgpack.encode(self._series), type=AttemptSeries)
        for number, log in enumerate(self._logs):
            for reading, at in log.ahead.readings if log.ahead is not None else ():
                self._take(series, [reading], at, number)
        return series

    def compared(self, siblings: SiblingBook, metric: MainMetric, progress: float | None) -> Behind | None:
        """Add the attempt's curve to `siblings`, and return how far the attempt is behind the others, or None if it is
        not.
        """
        series = self._series.series.get(metric.name)
        if series is None:
            return None
        siblings.learn(self.family, self.job, series.points)
        return behind(series.points, siblings.siblings(self.family, self.job), metric.direction, progress)

    def row(self, *, is_over: bool) -> ResultRow:
        self.is_dirty, self.kept_at = False, time.monotonic()
        state = b"" if is_over else msgspec.msgpack.encode([log.state() for log in self._logs])
        return ResultRow(
            self.job, self.attempt, msgspec.msgpack.encode(self.results), msgspec.msgpack.encode(self._series), state
        )


def parsed_metric(written: str) -> WantedMetric | None:
    """Parse a metric such as `val_acc max`. Return None if the text is empty or invalid."""
    with suppress(ValueError):
        return parse_wanted_metric(written) if written else None
    return None


def decoded(data: bytes, kind: type[T]) -> T | None:
    """Decode what an owner, perhaps of another version, has stored. Return None if it is unreadable."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.msgpack.decode(data, type=kind)
    return None


def _is_empty(path: str) -> bool:
    try:
        facts = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(facts.st_mode) and not facts.st_size


# The thread


EVERY = 1.0
"""Seconds between two passes over the logs of running attempts."""
GATHER = 0.1
"""Seconds to wait for more attempts to end, so that many short jobs wake the thread only once."""
SHARE = 0.03
"""Maximum share of one CPU that the thread should use."""
MOST_LINES, FEWEST_LINES = 200, 6
"""Limits of the number of lines of one file that are read in one pass."""
AT_THE_END = 4
"""Number of pieces that one pass reads of a log whose attempt has ended."""
CLOSING_TIME = 3.0
"""Seconds that a leaving owner may spend on unread logs."""
KEEP_EVERY = 30.0
"""Seconds between two times that the results of a running attempt are stored. If the owner is killed, the newer results
are lost.
"""

Key = tuple[JobId, int]


class ReadResults(Struct, frozen=True):
    """The results of one pass over the logs."""

    news: dict[JobId, JobResults]
    rows: list[ResultRow]
    """Results to be stored."""
    behind: dict[JobId, Behind | None]
    """For each running job that was read, how far it is behind its siblings, or None if it is not."""


class ResultsReader:
    """The thread that reads the logs. `on_read` is called in it when there are new results."""

    def __init__(self, directories: Directories, journal: Journal, on_read: Callable[[], None]) -> None:
        self._directories, self._journal, self._on_read = directories, journal, on_read
        self._readings: dict[Key, AttemptReader] = {}
        self._ended: deque[AttemptReader] = deque()
        self._unread: deque[tuple[Job, int]] = deque()
        """Ended attempts whose results were never stored. They are read when there is nothing else to do."""
        self._read: deque[ReadResults] = deque()
        self._wake = threading.Condition()
        self._at_work = threading.Lock()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._lines = MOST_LINES
        self._metric: MainMetric | None = None
        self._siblings = SiblingBook()
        self._unlearned: deque[tuple[Family, ResultRow]] = deque()
        """Stored results of siblings whose curves still have to be added to `_siblings`."""

    # For the owner's thread

    def compare_by(self, metric: MainMetric | None) -> None:
        """Set the metric by which running jobs are compared with their siblings, and forget the siblings."""
        with self._wake:
            self._metric, self._siblings = metric, SiblingBook()
            self._unlearned.clear()

    def learn_later(self, family: Family, rows: Iterable[ResultRow]) -> None:
        with self._wake:
            self._unlearned.extend((family, row) for row in rows)

    def watch(self, job: Job, attempt: int, stored: ResultRow | None = None) -> None:
        with self._wake:
            if (job.id, attempt) in self._readings:
                return
            self._readings[job.id, attempt] = AttemptReader(job, attempt, self._directories, stored)
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

    def read_later(self, attempts: list[tuple[Job, int]]) -> None:
        with self._wake:
            self._unread.extend(attempts)
            self._wake.notify()
        if attempts:
            self._begin()

    def take(self) -> list[ReadResults]:
        """Return what was read since the last call."""
        return [self._read.popleft() for _ in range(len(self._read))]

    def curves(self, job: JobId, attempt: int) -> tuple[Curve, ...] | None:
        """Return the curves of an attempt that is being read, or None if it is not."""
        with self._wake:
            ended = (reading for reading in self._ended if (reading.job, reading.attempt) == (job, attempt))
            reading = self._readings.get((job, attempt)) or next(ended, None)
        if reading is None:
            return None
        with self._at_work:  # the reader's thread must not change the curves in the meantime
            return reading.series.curves()

    def catch_up(self) -> None:
        """Make one pass over the logs in the caller's thread."""
        with self._at_work:
            self._pass(time.time(), final=False)

    def close(self, patience: float = 2.0) -> None:
        """Read the logs of ended attempts to the end. Logs of running attempts are left to the next owner."""
        with self._wake:
            self._closing = True
            self._unread.clear()
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(patience)
            if self._thread.is_alive():  # the file system hangs; the next owner reads it
                return
        with self._at_work:
            self._pass(time.time(), final=True)

    def _begin(self) -> None:
        if self._thread is None:
            with suppress(NoThread):  # without the thread, `close` reads the logs
                self._thread = start_thread(self._work, "gputui-results")

    # The thread

    def _work(self) -> None:
        used, began = time.thread_time(), time.monotonic()
        while self._await_work():
            with self._at_work:
                self._pass(time.time(), final=False)
            used, began = self._adapt_line_limit(used, began)

    def _await_work(self) -> bool:
        with self._wake:
            while not (self._readings or self._ended or self._unread or self._closing):
                self._wake.wait()
            if not self._closing:
                busy = self._ended or self._unread
                self._wake.wait(GATHER if busy else EVERY)
                if self._ended and not busy:
                    self._wake.wait(GATHER)
            return not self._closing

    def _adapt_line_limit(self, used: float, began: float) -> tuple[float, float]:
        """Adapt the number of lines per pass to the share of the CPU that the last pass used. Return the new
        measurements.
        """
        now_used, now = time.thread_time(), time.monotonic()
        share = (now_used - used) / max(now - began, GATHER)
        wanted = self._lines * (SHARE / share if share > SHARE else 1.25)
        self._lines = round(min(MOST_LINES, max(FEWEST_LINES, wanted)))
        return now_used, now

    def _pass(self, now: float, *, final: bool) -> None:
        with self._wake:
            ended, self._ended = list(self._ended), deque()
            going = list(self._readings.values())
            unread = self._unread.popleft() if self._unread and not ended else None
            metric, siblings = self._metric, self._siblings
            unlearned, self._unlearned = list(self._unlearned), deque()
        for family, row in unlearned:
            series = decoded(row.series, AttemptSeries)
            if metric is not None and series is not None and metric.name in series.series:
                siblings.learn(family, row.job, series.series[metric.name].points)
        news: dict[JobId, JobResults] = {}
        rows: list[ResultRow] = []
        verdicts: dict[JobId, Behind | None] = {}
        deadline = time.monotonic() + CLOSING_TIME
        for reading in ended:
            with self._guarded(reading, rows):
                self._finish(reading, now, news, rows, deadline if final else None)
                if metric is not None:
                    reading.compared(siblings, metric, None)  # as a sibling of other jobs
        if unread is not None:
            reading = AttemptReader(*unread, self._directories)
            reading.is_dirty = True  # store a row even without any results, so that the logs are not read again
            with self._guarded(reading, rows):
                self._finish(reading, now, news, rows, None)
        for reading in going:
            with self._guarded(reading):
                if not final and reading.read(self._lines, now):
                    news[reading.job] = reading.results
                    if metric is not None:
                        verdicts[reading.job] = reading.compared(siblings, metric, news[reading.job].progress)
                if reading.is_dirty and (final or time.monotonic() - reading.kept_at > KEEP_EVERY):
                    rows.append(reading.row(is_over=False))
        if news or rows:
            self._read.append(ReadResults(news, rows, verdicts))
            self._on_read()

    @contextmanager
    def _guarded(self, reading: AttemptReader, rows: list[ResultRow] | None = None) -> Iterator[None]:
        """Log the first error in the block, and suppress it. For an ended attempt, `rows` gets a row that makes the
        next owner read the logs again.
        """
        try:
            yield
        except Exception:
            if not reading.failed:
                self._journal.write(f"results of #{reading.job} cannot be read: {traceback.format_exc()}")
            reading.failed = True
            if rows is not None:
                rows.append(reading.row(is_over=False))

    def _finish(
        self,
        reading: AttemptReader,
        now: float,
        news: dict[JobId, JobResults],
        rows: list[ResultRow],
        deadline: float | None,
    ) -> None:
        """Read some of the logs of an ended attempt; the next pass reads the rest. In the last pass, `deadline` is
        given and everything is read.
        """
        has_results = reading.finish(MOST_LINES, now)
        while reading.is_behind and deadline is not None:
            late = time.monotonic() > deadline
            reading.finish(MOST_LINES, now, LAST_BEHIND if late else FURTHEST_BEHIND)
        if has_results:
            news[reading.job] = reading.results
        if reading.is_behind:
            with self._wake:
                self._ended.append(reading)
        elif has_results:
            rows.append(reading.row(is_over=True))


# The results of all attempts, as the owner stores and shows them


MOST_SEARCHED = 500
"""Maximum number of jobs among which siblings are searched. The newest jobs are chosen."""
MOST_UNREAD = 1000
"""Maximum number of jobs without stored results whose logs are read again. The newest jobs are chosen."""


class SessionResults:
    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        directories: Directories,
        journal: Journal,
        on_read: Callable[[], None],
    ) -> None:
        """Load the stored results and watch active attempts. `on_read` is called in another thread when there is
        something to `take_in`.
        """
        self._store, self._scheduler = store, scheduler
        self.reader = ResultsReader(directories, journal, on_read)
        book = scheduler.book
        self._chosen = scheduler.settings.metric
        self.book = ResultBook(book.first_id, main_metric(self._chosen))
        self._next_id = book.first_id
        """The first job whose settings have not been searched for a metric yet."""
        self._note_metrics()
        stored = store.load_results()
        self.book.load({job: packed for job, packed in stored.items() if job in book}, book.__getitem__)
        newest = range(max(book.first_id, book.next_id - MOST_UNREAD), book.next_id)
        self.book.note_paces(book[job_id] for job_id in newest)
        self._changed: set[JobId] = set()
        self._behind: dict[JobId, Behind] = {}
        """Running jobs that are behind their siblings. The dict is replaced, because snapshots share it."""
        self._families: set[Family] = set()
        """The families whose stored curves have been passed to the reader."""
        self.reader.compare_by(self.book.metric)
        self._watched: dict[JobId, int] = {}
        """The attempt of each job whose logs are being read."""
        for job_id, attempt in store.unfinished_results():
            if job_id in book:
                self.reader.watch(book[job_id], attempt, self._stored(job_id, attempt))
                self._watched[job_id] = attempt
                self._give_siblings(book[job_id])
                self._watch(book[job_id])
        for job_id in book.active:
            self._watch(book[job_id])

    def read_unread(self) -> None:
        """Read the logs of ended jobs without stored results. There are such jobs if an owner was killed too soon or
        the store was rebuilt.
        """
        book = self._scheduler.book
        unread = (job for job in reversed(list(book)) if job.attempts and job.id not in self.book.results)
        self.reader.read_later([(job, job.attempts[-1].number) for job in islice(unread, MOST_UNREAD)])

    def _stored(self, job: JobId, attempt: int) -> ResultRow | None:
        return next((row for row in self._store.results_of(job) if row.attempt == attempt), None)

    # In a turn

    def take_in(self, rows: dict[tuple[JobId, int], ResultRow]) -> None:
        """Take in what was read since the last turn. Results to be stored are added to `rows`."""
        book = self._scheduler.book
        for read in self.reader.take():
            news = {job: results for job, results in read.news.items() if job in book and self._is_newest(job, results)}
            self._follow(lambda news=news: self.book.put(news, book.__getitem__), news)  # type: ignore[misc]
            rows.update({(row.job, row.attempt): row for row in read.rows})
            for job, verdict in read.behind.items():
                self._note_behind(job, verdict if job in self._watched else None)

    def _is_newest(self, job: JobId, results: JobResults) -> bool:
        """Return whether the results belong to the newest attempt. The logs of an earlier attempt may be read late."""
        newest = self.book.results.get(job)
        return newest is None or newest.attempt <= results.attempt

    def update(self, snapshot: Snapshot) -> Snapshot:
        """Watch the attempts that have started and stop watching those that have ended. Return the snapshot with the
        results.
        """
        book = self._scheduler.book
        ran = [job_id for job_id in snapshot.changed if book[job_id].issued]  # new ones may be very many
        for job_id in ran:
            self._watch(book[job_id])
        self._note_metrics()
        if self._scheduler.settings.metric != self._chosen:
            self._chosen = self._scheduler.settings.metric
            self._follow(lambda: self.book.choose(main_metric(self._chosen), book.__getitem__), ())
        self._follow(lambda: self.book.refresh(ran, book.__getitem__), ())
        return self.add_to(snapshot)

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the current results."""
        changed, self._changed = snapshot.changed | self._changed, set()
        book, paces = self.book, self.book.paces.usual()
        return replace(
            snapshot, changed=changed, results=book.results, paces=paces, metric=book.metric, best=book.best,
            behind=self._behind,
        )  # fmt: skip

    def _watch(self, job: Job) -> None:
        """Start reading the log of the job's active attempt, and stop reading the previous one."""
        before, now = self._watched.get(job.id), job.active.attempt if job.active is not None else None
        if before == now:
            return
        if before is not None:
            self.reader.end(job.id, before)
            del self._watched[job.id]
            self._note_behind(job.id, None)
        if now is not None:
            self.reader.watch(job, now)
            self._watched[job.id] = now
            self._give_siblings(job)

    def _note_behind(self, job: JobId, verdict: Behind | None) -> None:
        if self._behind.get(job) == verdict:
            return
        self._changed.add(job)
        self._behind = {other: known for other, known in self._behind.items() if other != job}
        if verdict is not None:
            self._behind[job] = verdict

    def _give_siblings(self, job: Job) -> None:
        """Pass the stored curves of the job's siblings to the reader, once per family."""
        family, book = family_of(job.spec), self._scheduler.book
        if self.book.metric is None or family in self._families:
            return
        newest = range(book.next_id - 1, max(book.first_id, book.next_id - MOST_SEARCHED) - 1, -1)
        ended = (book[job_id] for job_id in newest if job_id not in self._watched and job_id in self.book.results)
        siblings = islice((other for other in ended if family_of(other.spec) == family), MOST_SIBLINGS)
        rows = [self._stored(other.id, self.book.results[other.id].attempt) for other in siblings]
        if all(rows):  # otherwise, try again with the next job, because some results are not stored yet
            self._families.add(family)
        self.reader.learn_later(family, [row for row in reversed(rows) if row is not None])

    def _note_metrics(self) -> None:
        """Note the metrics that new jobs name in their settings."""
        book, metrics = self._scheduler.book, []
        for job_id in range(self._next_id, book.next_id):
            wanted = parsed_metric(book[job_id].spec.metric)
            if wanted is not None:
                name = wanted.name or UNNAMED
                metrics.append(MainMetric(name, wanted.direction or direction_of(name), is_chosen=True))
        self._next_id = book.next_id
        if metrics:
            self.book.ask(metrics, book.__getitem__)

    def _follow(self, change: Callable[[], None], jobs: Iterable[JobId]) -> None:
        """Call `change`, and note these jobs and all others whose rows in the job table are affected by it."""
        metric, best = self.book.metric, self.book.best
        change()
        self._changed.update(jobs)
        if self.book.metric != metric:
            self._changed.update(self.book.results)
            self._behind, self._families = {}, set()
            self.reader.compare_by(self.book.metric)
            for job_id in self._watched:
                self._give_siblings(self._scheduler.book[job_id])
        elif self.book.best != best:
            self._changed.update(job for job in (best, self.book.best) if job is not None)

    # Queries

    def curves(self, job: JobId, attempt: int | None = None) -> tuple[Curve, ...]:
        """Return the curves of an attempt. The default is the newest attempt that printed results."""
        newest = self.book.results.get(job)
        number = attempt if attempt is not None else newest.attempt if newest is not None else 0
        live = self.reader.curves(job, number)
        if live is not None:
            return live
        stored = self._stored(job, number)
        series = decoded(stored.series, AttemptSeries) if stored is not None else None
        return series.curves() if series is not None else ()

    def attempts(self, job: JobId) -> dict[int, JobResults]:
        """Return the results of each attempt that printed any."""
        stored = {row.attempt: decoded(row.results, JobResults) for row in self._store.results_of(job)}
        stored |= {newest.attempt: newest} if (newest := self.book.results.get(job)) is not None else {}
        return {attempt: results for attempt, results in stored.items() if results is not None}

    def close(self, rows: dict[tuple[JobId, int], ResultRow]) -> None:
        """Read the logs of ended attempts to the end. Results to be stored are added to `rows`."""
        self.reader.close()
        self.take_in(rows)


def main_metric(written: str) -> MainMetric | None:
    """Parse the metric that the user chose, such as `val_acc max`. Return None if the text is empty or invalid or names
    no metric.
    """
    wanted = parsed_metric(written)
    if wanted is None or wanted.name is None:
        return None
    return MainMetric(wanted.name, wanted.direction or direction_of(wanted.name), is_chosen=True)
