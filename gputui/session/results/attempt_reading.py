"""One attempt's results while its log grows: how far each file was read, and what the readings add up to."""

from __future__ import annotations

import os
import time

import msgspec
from msgspec import Struct

from gputui.core.job import Job
from gputui.core.results import JobResults, Point
from gputui.core.results.series import AttemptSeries
from gputui.core.results.wanted import UNNAMED, WantedMetric, wanted_of
from gputui.logs.metrics import MetricReader, MetricReading
from gputui.session.files.folders import Folders
from gputui.session.store.result_rows import ResultRow

from .log_files import opened, streams

__all__ = ["AttemptReading", "wanted_by"]

AT_ONCE = 1 << 18
"""Bytes of a file that are looked at in one pass."""
FURTHEST_BEHIND = 1 << 22
"""Bytes; what is further back in a log that grows faster than it is read is passed over."""
HEAD = 1 << 16
"""Of a log that is met late: its beginning says what it is about."""


class _LogState(Struct):
    offset: int = 0
    reader: bytes = b""


class _State(Struct):
    """All that the next owner needs to go on, without reading anything twice."""

    logs: list[_LogState]
    series: AttemptSeries


class _LogReading:
    """One file of an attempt."""

    def __init__(self, places: tuple[str, ...], state: _LogState | None, wanted: WantedMetric | None) -> None:
        self.places = places
        self.offset = state.offset if state is not None else 0
        self.reader = _reader(state, wanted)
        self.written = 0.0
        self.is_behind = False

    def read(self, most: int) -> list[MetricReading]:
        with opened(self.places) as log:
            if log is None:
                return []
            descriptor, facts = log
            self.is_behind, self.written = False, facts.st_mtime
            if facts.st_size == self.offset:
                return []
            self._keep_up(facts.st_size)
            data = os.pread(descriptor, AT_ONCE if self.offset else min(AT_ONCE, HEAD), self.offset)
            self.offset += len(data)
            self.is_behind = self.offset < facts.st_size and bool(data)
            return self.reader.feed(data, most)

    def _keep_up(self, size: int) -> None:
        if size < self.offset:  # somebody emptied it
            self.offset = 0
            self.reader.gap()
        elif self.offset and size - self.offset > FURTHEST_BEHIND:
            self.offset = size - FURTHEST_BEHIND
            self.reader.gap()

    def state(self) -> _LogState:
        return _LogState(self.offset, self.reader.state())


class AttemptReading:
    """Used by one thread at a time."""

    def __init__(self, job: Job, attempt: int, folders: Folders, stored: ResultRow | None = None) -> None:
        self.job, self.attempt = job.id, attempt
        self.is_dirty = False
        """Something was read that is not stored yet."""
        self.kept_at = time.monotonic()
        wanted = wanted_by(job)
        state = _state_of(stored)
        self._direction = (wanted.name or UNNAMED, wanted.direction) if wanted is not None else (None, None)
        self._progress_told: tuple[float | None, float | None] = (None, None)
        self._series = state.series if state is not None else AttemptSeries()
        logs = state.logs if state is not None else []
        self._logs = [
            _LogReading(places, logs[number] if number < len(logs) else None, wanted)
            for number, places in enumerate(streams(folders, job, attempt))
        ]

    def read(self, most: int, now: float) -> bool:
        """Takes what was written since; whether there was anything."""
        before = [log.offset for log in self._logs]
        for number, log in enumerate(self._logs):
            self._take(log.read(most), min(now, log.written) if log.written else now, number)
        changed = [log.offset for log in self._logs] != before
        self.is_dirty = self.is_dirty or changed
        return changed

    @property
    def is_behind(self) -> bool:
        return any(log.is_behind for log in self._logs)

    def finish(self, most: int, now: float) -> bool:
        """The attempt has ended: the rest, and its last lines, which may have no end."""
        changed = self.read(most, now)
        for _ in range(FURTHEST_BEHIND // AT_ONCE):
            if not self.is_behind:
                break
            self.read(most, now)
        for number, log in enumerate(self._logs):
            self._take(log.reader.finish(), min(now, log.written) if log.written else now, number)
        return changed or self.is_dirty or bool(self._series.series)

    def _take(self, readings: list[MetricReading], at: float, log: int) -> None:
        name, direction = self._direction
        for reading in readings:
            wanted = direction if reading.name == name else None
            self._series.take(reading.name, Point(reading.step, at, reading.value), wanted, unit=reading.unit, log=log)

    @property
    def results(self) -> JobResults:
        progress = self._progress()
        if progress != self._progress_told[0]:
            self._progress_told = (progress, max(log.written for log in self._logs) or time.time())
        return self._series.results(self.attempt, progress, self._note(), self._progress_told[1])

    def _progress(self) -> float | None:
        """Whoever counts epochs tells of the whole job; otherwise the file that was written last knows best."""
        reported = [
            (log.reader.tells_whole, log.written, log.reader.progress)
            for log in self._logs
            if log.reader.progress is not None
        ]
        return max(reported)[2] if reported else None

    def _note(self) -> str:
        return next((log.reader.note for log in reversed(self._logs) if log.reader.note), "")

    @property
    def series(self) -> AttemptSeries:
        return self._series

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


def _state_of(stored: ResultRow | None) -> _State | None:
    if stored is None:
        return None
    try:
        series = msgspec.msgpack.decode(stored.series, type=AttemptSeries)
        return _State(msgspec.msgpack.decode(stored.state, type=list[_LogState]) if stored.state else [], series)
    except msgspec.MsgspecError:
        return None
