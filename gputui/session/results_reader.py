"""The thread that reads results of attempts from their growing logs."""

from __future__ import annotations

import os
import stat
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.job import Job, JobId
from gputui.core.result_book import AttemptSeries
from gputui.core.results import UNNAMED, Curve, JobResults, Point, WantedMetric, wanted_of
from gputui.logs.metrics import MetricReader, MetricReading
from gputui.process.watch import NoThread, begin
from gputui.session.store.store import ResultRow

from .job_folders import Folders
from .session_dir import Journal

# ---- An attempt's log as it is read ----


FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def streams(folders: Folders, job: Job, attempt: int) -> list[tuple[str, ...]]:
    """For each file of the attempt: the places where it may be; a first attempt's move when a second begins."""
    named = folders.files(job, attempt)
    paths = [named.out] if named.err is None else [named.out, named.err]
    if attempt > 1 or job.spec.outfile is not None:
        return [(folders.reached(path),) for path in paths]
    moved = folders.moved(job)
    # The name comes last again: between the two looks it may have become a link to another attempt's file.
    return [
        (folders.reached(own), folders.reached(path), folders.reached(own))
        for path, own in zip(paths, (moved.out, moved.err or ""), strict=False)
    ]


@contextmanager
def opened(places: tuple[str, ...]) -> Iterator[tuple[int, os.stat_result] | None]:
    """None: it is not there, or is no file. Never waits for anybody, as a FIFO would."""
    descriptor = _open(places)
    if descriptor is None:
        yield None
        return
    try:
        facts = os.fstat(descriptor)
        yield (descriptor, facts) if stat.S_ISREG(facts.st_mode) else None
    finally:
        os.close(descriptor)


def _open(places: tuple[str, ...]) -> int | None:
    for place in places:
        with suppress(OSError, ValueError):
            return os.open(place, FLAGS)
    return None


# ---- One attempt's results while its log grows ----


AT_ONCE = 1 << 18
"""Bytes of a file that are looked at in one pass."""
FURTHEST_BEHIND = 1 << 26
"""Bytes; what is further back in a log that grows faster than it is read is passed over."""
LAST_BEHIND = 1 << 22
"""The same for an owner that leaves and has spent CLOSING_TIME on it."""
HEAD = TAIL = 1 << 16
"""Bytes of a log that is read late: its beginning says what it is about, and its end where the job is now."""
MOST_AHEAD = 500
"""Readings of the end of a log that are kept until the reader arrives there."""


class _LogState(Struct):
    offset: int = 0
    reader: bytes = b""


class _State(Struct):
    """All that the next owner needs to go on, without reading anything twice."""

    logs: list[_LogState]
    series: AttemptSeries


class _Ahead:
    """The end of a log whose past is still being read: shown on top of it, and read again in its order."""

    def __init__(self, start: int, state: bytes) -> None:
        self.start = self.offset = start
        self.reader = MetricReader.resume(state)
        self.reader.gap()
        self.readings: deque[tuple[MetricReading, float]] = deque(maxlen=MOST_AHEAD)


class _LogReading:
    """One file of an attempt."""

    def __init__(self, places: tuple[str, ...], state: _LogState | None, wanted: WantedMetric | None) -> None:
        self.places = places
        self.offset = state.offset if state is not None else 0
        self.reader = _reader(state, wanted)
        self.written = 0.0
        self.is_behind = False
        self.ahead: _Ahead | None = None

    @property
    def newest(self) -> MetricReader:
        """Knows where the job is now."""
        return self.ahead.reader if self.ahead is not None else self.reader

    def read(self, most: int, now: float, times: int = 1, furthest: int = FURTHEST_BEHIND) -> list[MetricReading]:
        """At most `times` pieces, passing over what is further behind; `now` is the time of its newest readings."""
        with opened(self.places) as log:
            if log is None:
                return []
            descriptor, facts = log
            size = facts.st_size
            self.is_behind, self.written = False, facts.st_mtime
            readings: list[MetricReading] = []
            for _ in range(times if size != self.offset else 0):
                self._keep_up(size, furthest)
                data = os.pread(descriptor, AT_ONCE if self.offset else min(AT_ONCE, HEAD), self.offset)
                self.offset += len(data)
                self.is_behind = self.offset < size and bool(data)
                readings += self.reader.feed(data, most)
                if not self.is_behind:
                    break
            self._look_ahead(descriptor, size, most, min(now, self.written))
            return readings

    def _keep_up(self, size: int, furthest: int) -> None:
        if size < self.offset:  # somebody emptied it
            self.offset = 0
            self.reader.gap()
        elif self.offset and size - self.offset > furthest:
            self.offset = size - furthest
            self.reader.gap()

    def _look_ahead(self, descriptor: int, size: int, most: int, at: float) -> None:
        if not self.is_behind:
            self.ahead = None
            return
        ahead = self.ahead
        if ahead is None or ahead.start < self.offset or not 0 <= size - ahead.offset <= TAIL:
            ahead = self.ahead = _Ahead(max(self.offset, size - TAIL), self.reader.state())
        data = os.pread(descriptor, size - ahead.offset, ahead.offset)
        ahead.offset += len(data)
        ahead.readings.extend((reading, at) for reading in ahead.reader.feed(data, most))

    def state(self) -> _LogState:
        return _LogState(self.offset, self.reader.state())


class _Pauses:
    """When an attempt printed something, and how long it printed nothing."""

    def __init__(self, since: float | None, stored: ResultRow | None) -> None:
        """`since`: its start, where nobody has read it before."""
        self._since = since
        before = _results_of(stored)
        self._at = before.written_at if before is not None else None
        self._longest, self._outputs = (before.longest_pause, before.outputs) if before is not None else (0.0, 0)

    def heard(self, now: float, written: float) -> None:
        """What was written before the first look is as old as its file; file servers have clocks of their own."""
        at = now if self._outputs else min(now, written or now)
        if self._since is not None:
            self._longest = max(self._longest, at - self._since)
        self._since = self._at = at
        self._outputs += 1

    def over(self, results: JobResults) -> JobResults:
        return replace(results, written_at=self._at, longest_pause=self._longest, outputs=self._outputs)


class AttemptReading:
    """Used by one thread at a time."""

    def __init__(self, job: Job, attempt: int, folders: Folders, stored: ResultRow | None = None) -> None:
        self.job, self.attempt = job.id, attempt
        self.is_dirty = False
        """Something was read that is not stored yet."""
        self.failed = False
        """It could not be read, and that was said."""
        self.kept_at = time.monotonic()
        wanted = wanted_by(job)
        state = _state_of(stored)
        self._direction = (wanted.name or UNNAMED, wanted.direction) if wanted is not None else (None, None)
        self._progress_told: tuple[float | None, float | None] = (None, None)
        self._pauses = _Pauses(job.active.since if job.active is not None and stored is None else None, stored)
        self._series = state.series if state is not None else AttemptSeries()
        logs = state.logs if state is not None else []
        self._logs = [
            _LogReading(places, logs[number] if number < len(logs) else None, wanted)
            for number, places in enumerate(streams(folders, job, attempt))
        ]

    def read(self, most: int, now: float) -> bool:
        """Takes what was written since; whether there was anything."""
        return self._read(most, now)

    def _read(self, most: int, now: float, times: int = 1, furthest: int = FURTHEST_BEHIND) -> bool:
        before = [log.offset for log in self._logs]
        for number, log in enumerate(self._logs):
            readings = log.read(most, now, times, furthest)
            self._take(self._series, readings, min(now, log.written) if log.written else now, number)
        changed = [log.offset for log in self._logs] != before
        if changed:
            self._pauses.heard(now, max(log.written for log in self._logs))
        self.is_dirty = self.is_dirty or changed
        return changed

    @property
    def is_behind(self) -> bool:
        return any(log.is_behind for log in self._logs)

    def finish(self, most: int, now: float, furthest: int = FURTHEST_BEHIND) -> bool:
        """The attempt has ended: more of the rest, and its last lines, which may have no end, unless it is behind."""
        changed = self._read(most, now, AT_THE_END, furthest)
        for number, log in enumerate(self._logs if not self.is_behind else ()):
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
        if progress != self._progress_told[0]:
            self._progress_told = (progress, max(log.written for log in self._logs) or time.time())
        results = self.series.results(self.attempt, progress, self._note(), self._progress_told[1])
        return self._pauses.over(results)

    def _progress(self) -> float | None:
        """Whoever counts epochs tells of the whole job; otherwise the file that was written last knows best."""
        reported = [
            (log.newest.tells_whole, log.written, log.newest.progress)
            for log in self._logs
            if log.newest.progress is not None
        ]
        return max(reported)[2] if reported else None

    def _note(self) -> str:
        return next((log.newest.note for log in reversed(self._logs) if log.newest.note), "")

    @property
    def series(self) -> AttemptSeries:
        """What was read so far, and the end of what was printed."""
        if not self.is_behind:
            return self._series
        series = msgspec.msgpack.decode(msgspec.msgpack.encode(self._series), type=AttemptSeries)
        for number, log in enumerate(self._logs):
            for reading, at in log.ahead.readings if log.ahead is not None else ():
                self._take(series, [reading], at, number)
        return series

    def row(self, *, is_over: bool) -> ResultRow:
        self.is_dirty, self.kept_at = False, time.monotonic()
        state = b"" if is_over else msgspec.msgpack.encode([log.state() for log in self._logs])
        return ResultRow(
            self.job, self.attempt, msgspec.msgpack.encode(self.results), msgspec.msgpack.encode(self._series), state
        )


def wanted_by(job: Job) -> WantedMetric | None:
    """What the job's own setting names; one that is none says nothing."""
    try:
        return wanted_of(job.spec.metric) if job.spec.metric else None
    except ValueError:
        return None


def _reader(state: _LogState | None, wanted: WantedMetric | None) -> MetricReader:
    if state is None or not state.reader:
        return MetricReader(wanted)
    try:
        return MetricReader.resume(state.reader)
    except ValueError:  # another version wrote it: what it had under way is lost, what it had read is not
        reader = MetricReader(wanted)
        reader.gap()
        return reader


def _results_of(stored: ResultRow | None) -> JobResults | None:
    try:
        return msgspec.msgpack.decode(stored.results, type=JobResults) if stored is not None else None
    except msgspec.MsgspecError:
        return None


def _state_of(stored: ResultRow | None) -> _State | None:
    if stored is None:
        return None
    try:
        series = msgspec.msgpack.decode(stored.series, type=AttemptSeries)
        return _State(msgspec.msgpack.decode(stored.state, type=list[_LogState]) if stored.state else [], series)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


# ---- The thread that reads results ----


EVERY = 1.0
"""Seconds between two looks at a log."""
GATHER = 0.1
"""Seconds in which ends gather: many short jobs wake the thread once."""
SHARE = 0.03
"""Of one processor."""
MOST_LINES, FEWEST_LINES = 200, 6
"""Of one file in one pass."""
AT_THE_END = 4
"""Pieces of the log of an attempt that has ended that are read in one pass."""
CLOSING_TIME = 3.0
"""Seconds for all logs that are far behind when their owner leaves."""
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

    def curves(self, job: JobId, attempt: int) -> tuple[Curve, ...] | None:
        """Of an attempt that is being read; None: it is not."""
        with self._wake:
            ended = (reading for reading in self._ended if (reading.job, reading.attempt) == (job, attempt))
            reading = self._readings.get((job, attempt)) or next(ended, None)
        if reading is None:
            return None
        with self._at_work:  # what is read meanwhile would change them under the hands of whoever draws them
            return reading.series.curves()

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
            with self._at_work:
                self._pass(time.time(), final=False)
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
        deadline = time.monotonic() + CLOSING_TIME
        for reading in ended:
            with self._guarded(reading, rows):
                self._finish(reading, now, news, rows, deadline if final else None)
        if past is not None:
            reading = AttemptReading(*past, self._folders)
            reading.is_dirty = True  # even if it printed nothing, nobody has to look again
            with self._guarded(reading, rows):
                self._finish(reading, now, news, rows, None)
        for reading in going:
            with self._guarded(reading):
                self._go_on(reading, now, news, rows, final=final)
        if news or rows:
            self._read.append(ReadResults(news, rows))
            self._on_read()

    @contextmanager
    def _guarded(self, reading: AttemptReading, rows: list[ResultRow] | None = None) -> Iterator[None]:
        """A log that cannot be read costs its results, not the others'. `rows`: of one that is read no more here; the
        next owner tries again."""
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
        reading: AttemptReading,
        now: float,
        news: dict[JobId, JobResults],
        rows: list[ResultRow],
        deadline: float | None,
    ) -> None:
        """Where much is left to read, the next pass goes on with it; the last one has until the deadline."""
        heard = reading.finish(MOST_LINES, now)
        while reading.is_behind and deadline is not None:
            late = time.monotonic() > deadline
            reading.finish(MOST_LINES, now, LAST_BEHIND if late else FURTHEST_BEHIND)
        if heard:
            news[reading.job] = reading.results
        if reading.is_behind:
            with self._wake:
                self._ended.append(reading)
        elif heard:
            rows.append(reading.row(is_over=True))

    def _go_on(
        self, reading: AttemptReading, now: float, news: dict[JobId, JobResults], rows: list[ResultRow], *, final: bool
    ) -> None:
        if not final and reading.read(self._lines, now):
            news[reading.job] = reading.results
        if reading.is_dirty and (final or time.monotonic() - reading.kept_at > KEEP_EVERY):
            rows.append(reading.row(is_over=False))
