"""The record of samples: usage of attempts and history of devices."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from gputui.core.job import Job, JobId, Usage
from gputui.core.scheduler import Scheduler
from gputui.core.spans import DeviceUse, SpanRecord
from gputui.gpus.hardware import find
from gputui.gpus.history import (
    EMPTY,
    DeviceHistories,
    DeviceShare,
    DeviceWarning,
    HistoryRecorder,
    noted,
    read_history,
    share,
    write_history,
)
from gputui.gpus.machine import MachineFacts, MachineReader
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample
from gputui.gpus.strangers import HeldByStrangers, Unusable, Verdict
from gputui.gpus.usage import DeviceHolding, UsageMeter
from gputui.process.watch import NoThread, begin
from gputui.session.event_loop import Loop

# ---- What is remembered of the samples ----


IDLE_AFTER = 600.0
"""Seconds of doing nothing on a card after which a job is remarked upon."""
WRITE_EVERY = 60.0
AWAY_FROM = 150.0
"""Seconds without a sign of an owner from which on there was none."""


class Recording:
    def __init__(self, spans: SpanRecord, path: str) -> None:
        self.shares: Mapping[str, DeviceShare] = {}
        """Of the newest sample, by device key."""
        self.warnings: Mapping[str, tuple[DeviceWarning, ...]] = {}
        self._spans = spans
        self._path = path
        self._meter = UsageMeter()
        self._history: HistoryRecorder | None = None
        self._writes = False

    # What samples show

    def observe(
        self, sample: Sample, held: list[DeviceHolding], busy: Collection[str], pids: Mapping[int, JobId], now: float
    ) -> None:
        """`busy`: keys of the devices that run a job of ours."""
        self._meter.observe(sample, held, pids, now)
        self.shares = {each.key: _shared(each, sample, pids, held=each.key in busy) for each in sample.devices}
        recorder = self._recorder()
        recorder.observe(sample, self.shares)
        self.warnings = noted(sample, recorder.warned)

    def see_others(self, sample: Sample, words: Collection[str], verdicts: Mapping[str, Verdict], now: float) -> None:
        """Who or what keeps us off the devices that lanes name."""
        devices = {word: find(sample.devices, word) for word in words}
        uses = {word: _use(verdicts.get(device.key)) for word, device in devices.items() if device is not None}
        self._spans.devices(uses, now)

    def history(self) -> DeviceHistories:
        return self._history.frozen() if self._history is not None else EMPTY

    def _recorder(self) -> HistoryRecorder:
        """Read when it is first needed: whoever takes a session over has other things to do first."""
        if self._history is None:
            self._history = HistoryRecorder(read_history(self._path))
        return self._history

    # What attempts used

    def usage(self, job: JobId, attempt: int) -> Usage:
        """The last word on an attempt."""
        used = self._meter.end(job, attempt)
        return Usage(
            used.mean_utilization, used.peak_utilization, used.peak_memory, used.gpu_seconds, used.peak_memory_each
        )

    def work_seen(self, job: JobId, attempt: int) -> tuple[float | None, float | None]:
        """When the driver last told of an attempt's devices, and when it last told of work there."""
        used = self._meter.usage(job, attempt)
        return used.measured_at, used.busy_at

    def idle(self, scheduler: Scheduler, now: float) -> dict[JobId, float]:
        """Jobs that have long done nothing, with the time since when."""
        idle = {}
        for job_id in scheduler.book.active:
            placed = scheduler.book[job_id].active
            since = self._meter.usage(job_id, placed.attempt).idle_since if placed is not None else None
            if since is not None and now - since >= IDLE_AFTER:
                idle[job_id] = since
        return idle

    def remark(self, job: Job) -> str | None:
        """What is odd about what a running job does on its GPU."""
        if job.active is None:
            return None
        idle = self._meter.usage(job.id, job.active.attempt).idle_for(time.time())
        return f"holds GPU memory and has done nothing for {idle / 60:.0f} min" if idle >= IDLE_AFTER else None

    # On disk

    def keep_written(self, loop: Loop, now: float) -> None:
        """From now on; only an owner that starts jobs does."""
        last_written = _written_at(self._path)
        if last_written is not None and now - last_written > AWAY_FROM:
            self._spans.away(last_written, now)
        self._writes = True
        self._write_soon(loop)

    def _write_soon(self, loop: Loop) -> None:
        loop.call_later(WRITE_EVERY, lambda: self._write_soon(loop))
        history = self._history.frozen() if self._history is not None else None
        loop.run_in_thread(lambda: self._write(history), lambda _: None)

    def _write(self, history: DeviceHistories | None) -> None:
        """A disk that is full or gone costs the history, and nothing else."""
        with suppress(OSError):
            if history is not None:
                write_history(self._path, history)
            elif os.path.exists(self._path):
                os.utime(self._path)
            else:
                write_history(self._path, EMPTY)

    def close(self) -> None:
        if self._writes:
            self._write(self._history.frozen() if self._history is not None else None)


def _shared(device: DeviceSample, sample: Sample, pids: Mapping[int, JobId], *, held: bool) -> DeviceShare:
    """Where pids mean nothing, all that is on a device with a job of ours counts as ours."""

    def is_ours(process: ProcessSample) -> bool:
        return process.pid in pids or (sample.foreign_pids and held)

    return share(device, is_ours, held=held)


def _use(verdict: Verdict | None) -> DeviceUse | None:
    match verdict:
        case HeldByStrangers(by=by) if by:
            first = min(by, key=lambda each: each.since)  # stays the same while it is there
            total = sum(each.memory or 0 for each in by)
            return DeviceUse(first.user or "?", os.path.basename((first.command or "").partition(" ")[0]),
                             first.pid, total)  # fmt: skip
        case Unusable(why=why):
            return DeviceUse(text=why, trouble=True)
    return None


def _written_at(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


# ---- Looks at the machine itself while somebody wants to see it, in a thread that nobody waits for ----


LOOK_EVERY = 2.0
FORGOTTEN_AFTER = 10.0
"""Seconds after which nobody looks any more, and the thread ends."""


class MachineWatch:
    """`facts` may be asked as often as one likes; the first answers are None."""

    def __init__(self, folder: Callable[[], str]) -> None:
        self._folder = folder
        self._newest: MachineFacts | None = None
        self._asked = 0.0
        self._thread: threading.Thread | None = None

    def facts(self) -> MachineFacts | None:
        self._asked = time.monotonic()
        if self._thread is None or not self._thread.is_alive():
            with suppress(NoThread):
                self._thread = begin(self._watch, "gputui-machine")
        return self._newest

    def _watch(self) -> None:
        look = MachineReader(self._folder())
        while time.monotonic() - self._asked < FORGOTTEN_AFTER:
            self._newest = look.look()
            time.sleep(LOOK_EVERY if self._newest.busy is not None else LOOK_EVERY / 10)
