"""Recording of samples: the usage of attempts and the history of devices. Also samples the machine for its viewers.

The series of each attempt are in a small file of their own, `usage/JOB.ATTEMPT`.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

import msgspec

from gputui.core.amounts import GIB
from gputui.core.job import Job, JobId, Usage
from gputui.core.results import Curve
from gputui.core.scheduler import Scheduler
from gputui.core.spans import DeviceUse, SpanRecord
from gputui.gpus.external_processes import HeldByExternalProcesses, Unusable, Verdict
from gputui.gpus.hardware import find
from gputui.gpus.history import (
    EMPTY,
    DeviceHistories,
    DeviceShare,
    DeviceWarning,
    HistoryRecorder,
    find_warnings,
    read_history,
    share,
    write_history,
)
from gputui.gpus.machine import MachineFacts, MachineReader
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample
from gputui.gpus.usage import DeviceHolding, UsageMeter, UsageSeries
from gputui.process.directories import atomic_write
from gputui.process.processes import TreeUse, use_of_trees
from gputui.process.watch import NoThread, start_thread
from gputui.session.event_loop import Loop

IDLE_AFTER = 600.0
"""Seconds without work on its GPU after which a job is reported as idle."""
WRITE_EVERY = 60.0
AWAY_FROM = 150.0
"""If the history file is older than this many seconds, the session is assumed to have had no owner for a while."""
LOOK_EVERY = 2.0
FORGOTTEN_AFTER = 10.0
"""Seconds after the last viewer's request until the machine is no longer sampled."""
HOST_FIRST, HOST_EVERY = 2.0, 15.0
"""Seconds between two readings of the CPU time and memory of attempts: while one of them has not been measured yet, and
otherwise. Each reading looks at all processes of the machine.
"""
MOST_SERIES = 5000
"""Number of attempts whose series are kept. The oldest are removed."""
LEAST_BUCKETS = 2
"""Number of buckets below which the series of an ended attempt are not worth a file."""
TAKEN_OVER_AFTER = 5.0
"""If an attempt has been running for more than this many seconds, an earlier owner may have recorded its series."""

Attempt = tuple[JobId, int]


class Recording:
    def __init__(self, spans: SpanRecord, path: str) -> None:
        self.shares: Mapping[str, DeviceShare] = {}
        """How each device is shared between our jobs and others in the newest sample, by device key."""
        self.warnings: Mapping[str, tuple[DeviceWarning, ...]] = {}
        self._spans = spans
        self._path = path
        self._meter = UsageMeter()
        self._history: HistoryRecorder | None = None
        self._writes = False
        self._series: dict[Attempt, UsageSeries] = {}
        """The series of the running attempts."""
        self._usage_directory = os.path.join(os.path.dirname(path), "usage")
        self._host_due = False
        """Whether the next reading of the attempts' CPU time and memory has been scheduled."""
        self._host_use: dict[Attempt, tuple[float, TreeUse]] = {}
        """The last reading of each attempt, and its time."""
        self._host_figures: dict[Attempt, tuple[float, float]] = {}
        """The CPU use in percent of a core, and the memory in GiB."""

    # What samples show

    def observe(
        self, sample: Sample, held: list[DeviceHolding], busy: Collection[str], pids: Mapping[int, JobId], now: float
    ) -> None:
        """Take in a sample. `busy` contains the keys of the devices that run our jobs."""
        self._meter.observe(sample, held, pids, now)
        self.shares = {each.key: _shared(each, sample, pids, held=each.key in busy) for each in sample.devices}
        if self._history is None:  # read late, because an owner that takes over has more urgent things to do
            self._history = HistoryRecorder(read_history(self._path))
        self._history.observe(sample, self.shares)
        self.warnings = find_warnings(sample, self._history.warned)
        for holding in held:
            attempt = (holding.job, holding.attempt)
            self._series_of(attempt, holding.since, now).add(now, self._figures(attempt))

    def record_external_use(
        self, sample: Sample, words: Collection[str], verdicts: Mapping[str, Verdict], now: float
    ) -> None:
        """Record what keeps our jobs off the devices that slots name."""
        devices = {word: find(sample.devices, word) for word in words}
        uses = {word: _use(verdicts.get(device.key)) for word, device in devices.items() if device is not None}
        self._spans.devices(uses, now)

    def history(self) -> DeviceHistories:
        return self._history.frozen() if self._history is not None else EMPTY

    # Series of attempts

    def _figures(self, attempt: Attempt) -> list[float | None]:
        devices = self._meter.newest.get(attempt, (None, None, None))
        return [*devices, *self._host_figures.get(attempt, (None, None))]

    def _series_of(self, attempt: Attempt, since: float, now: float) -> UsageSeries:
        if attempt not in self._series:
            earlier = self._read_series(attempt) if now - since > TAKEN_OVER_AFTER else None
            is_same = earlier is not None and abs(earlier.since - since) < 1  # ids are used again in a new queue
            self._series[attempt] = earlier if earlier is not None and is_same else UsageSeries(since)
        return self._series[attempt]

    def keep_host_use(self, loop: Loop, wrappers: Callable[[], Mapping[Attempt, tuple[int, float]]]) -> None:
        """Record the CPU time and memory of attempts from now on, until none is running. `wrappers` returns the pid of
        the wrapper and the start of each.
        """
        if not self._host_due:
            self._host_due = True
            loop.call_later(HOST_FIRST, lambda: self._read_host_use(loop, wrappers))

    def _read_host_use(self, loop: Loop, wrappers: Callable[[], Mapping[Attempt, tuple[int, float]]]) -> None:
        running = wrappers()
        pids = {attempt: pid for attempt, (pid, _) in running.items()}
        if not running:
            self._host_due = False
            return

        def read() -> dict[int, TreeUse]:
            with suppress(OSError):
                return use_of_trees(pids.values())
            return {}

        def done(used: dict[int, TreeUse]) -> None:
            now = time.time()
            for attempt, (_, since) in wrappers().items():
                self._series_of(attempt, since, now)
            self._take_host_use({attempt: used[pid] for attempt, pid in pids.items()
                                 if pid in used and attempt in self._series}, now)  # fmt: skip
            delay = HOST_EVERY if pids.keys() <= self._host_figures.keys() else HOST_FIRST
            loop.call_later(delay, lambda: self._read_host_use(loop, wrappers))

        loop.run_in_thread(read, done)

    def _take_host_use(self, used: dict[Attempt, TreeUse], now: float) -> None:
        before, self._host_use = self._host_use, {attempt: (now, use) for attempt, use in used.items()}
        self._host_figures = {}
        for attempt, use in used.items():
            at, last = before.get(attempt, (now, use))
            if now > at:
                cpu = 100 * max(0.0, use.cpu_seconds - last.cpu_seconds) / (now - at)
                self._host_figures[attempt] = (cpu, use.memory / GIB)
                self._series[attempt].add(now, self._figures(attempt))

    def curves(self, job: Job, attempt: int) -> tuple[Curve, ...]:
        """Return the series of an attempt, or none if it was not recorded."""
        series = self._series.get((job.id, attempt))
        if series is None:
            series = self._read_series((job.id, attempt))
            started = next((past.started for past in job.attempts if past.number == attempt), None)
            if series is None or started is None or abs(series.since - started) > TAKEN_OVER_AFTER:
                return ()
        return series.curves()

    def end_series(self, loop: Loop, job: JobId, attempt: int) -> None:
        """Store the series of an attempt that has ended."""
        series = self._series.pop((job, attempt), None)
        if series is not None and self._writes and len(series.series[0]) >= LEAST_BUCKETS:
            encoded = {(job, attempt): msgspec.msgpack.encode(series)}
            loop.run_in_thread(lambda: self._write_series(encoded), lambda _: None)

    def _read_series(self, attempt: Attempt) -> UsageSeries | None:
        damaged = (zlib.error, msgspec.MsgspecError)
        with suppress(OSError, *damaged), open(self._series_path(attempt), "rb") as file:
            return msgspec.msgpack.decode(zlib.decompress(file.read(1 << 20)), type=UsageSeries)
        return None

    def _series_path(self, attempt: Attempt) -> str:
        return os.path.join(self._usage_directory, "{}.{}".format(*attempt))

    def _write_series(self, encoded: Mapping[Attempt, bytes]) -> None:
        """Write the series. If the disk is full or missing, only they are lost."""
        with suppress(OSError):
            os.makedirs(self._usage_directory, mode=0o700, exist_ok=True)
            for attempt, series in encoded.items():
                atomic_write(self._series_path(attempt), zlib.compress(series, 1))
            if len(os.listdir(self._usage_directory)) > 1.1 * MOST_SERIES:
                oldest_first = sorted(os.scandir(self._usage_directory), key=lambda entry: entry.stat().st_mtime)
                for entry in oldest_first[:-MOST_SERIES]:
                    os.unlink(entry.path)

    def _running_series(self) -> dict[Attempt, bytes]:
        return {attempt: msgspec.msgpack.encode(series) for attempt, series in self._series.items()}

    # What attempts used

    def usage(self, job: JobId, attempt: int) -> Usage:
        """Return what an attempt used, and end its measurement."""
        used = self._meter.end(job, attempt)
        energy = (used.energy, used.energy_seconds, used.is_energy_estimated) if used.energy_seconds else ()
        return Usage(used.mean_utilization, used.peak_memory, used.gpu_seconds, used.peak_memory_each, *energy)

    def work_seen(self, job: JobId, attempt: int) -> tuple[float | None, float | None]:
        """Return two times: when the driver last reported the devices of an attempt, and when it last reported work on
        them.
        """
        used = self._meter.usage(job, attempt)
        return used.measured_at, used.busy_at

    def idle(self, scheduler: Scheduler, now: float) -> dict[JobId, float]:
        """Return the jobs that have been idle for a long time, each with the time when it became idle."""
        idle = {}
        for job_id in scheduler.book.active:
            placed = scheduler.book[job_id].active
            since = self._meter.usage(job_id, placed.attempt).idle_since if placed is not None else None
            if since is not None and now - since >= IDLE_AFTER:
                idle[job_id] = since
        return idle

    def remark(self, job: Job) -> str | None:
        """Return what is unusual about a running job, or None."""
        if job.active is None:
            return None
        idle = self._meter.usage(job.id, job.active.attempt).idle_for(time.time())
        return f"holds GPU memory but has been idle for {idle / 60:.0f} min" if idle >= IDLE_AFTER else None

    # On disk

    def keep_written(self, loop: Loop, now: float) -> None:
        """Write the history at regular intervals from now on. Only an owner that starts jobs does this."""
        with suppress(OSError):
            last_written = os.stat(self._path).st_mtime
            if now - last_written > AWAY_FROM:
                self._spans.away(last_written, now)
        self._writes = True
        self._write_soon(loop)

    def _write_soon(self, loop: Loop) -> None:
        loop.call_later(WRITE_EVERY, lambda: self._write_soon(loop))
        history = self._history.frozen() if self._history is not None else None
        series = self._running_series()
        loop.run_in_thread(lambda: self._write(history, series), lambda _: None)

    def _write(self, history: DeviceHistories | None, series: Mapping[Attempt, bytes]) -> None:
        """Write the history. If the disk is full or missing, only the history is lost."""
        with suppress(OSError):
            if history is not None:
                write_history(self._path, history)
            elif os.path.exists(self._path):
                os.utime(self._path)
            else:
                write_history(self._path, EMPTY)
        if series:
            self._write_series(series)

    def close(self) -> None:
        if self._writes:
            self._write(self._history.frozen() if self._history is not None else None, self._running_series())


def _shared(device: DeviceSample, sample: Sample, pids: Mapping[int, JobId], *, held: bool) -> DeviceShare:
    """Return how the device is shared between our jobs and others. If the sample's pids belong to other machines, all
    processes on a device with one of our jobs count as ours.
    """

    def is_ours(process: ProcessSample) -> bool:
        return process.pid in pids or (sample.foreign_pids and held)

    return share(device, is_ours, held=held)


def _use(verdict: Verdict | None) -> DeviceUse | None:
    match verdict:
        case HeldByExternalProcesses(by=by) if by:
            first = min(by, key=lambda each: each.since)  # so that the choice is the same in each sample
            total = sum(each.memory or 0 for each in by)
            return DeviceUse(first.user or "?", os.path.basename((first.command or "").partition(" ")[0]),
                             first.pid, total)  # fmt: skip
        case Unusable(why=why):
            return DeviceUse(text=why, trouble=True)
    return None


class MachineWatch:
    """A sampler of the machine that runs in a thread of its own for as long as `facts` is called. The first calls of
    `facts` return None.
    """

    def __init__(self, directory: Callable[[], str]) -> None:
        self._directory = directory
        self._newest: MachineFacts | None = None
        self._asked = 0.0
        self._thread: threading.Thread | None = None

    def facts(self) -> MachineFacts | None:
        self._asked = time.monotonic()
        if self._thread is None or not self._thread.is_alive():
            with suppress(NoThread):
                self._thread = start_thread(self._watch, "gputui-machine")
        return self._newest

    def _watch(self) -> None:
        reader = MachineReader(self._directory())
        while time.monotonic() - self._asked < FORGOTTEN_AFTER:
            self._newest = reader.read()
            time.sleep(LOOK_EVERY if self._newest.busy is not None else LOOK_EVERY / 10)
