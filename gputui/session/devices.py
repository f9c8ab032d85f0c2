"""The owner's eyes on the devices: samples in, facts for the scheduler and figures for each attempt out.

Courtesy lives here: what strangers hold is blocked, and so is what another gputui has leased. The owner never loads
the driver's library; a process of its own samples, and may hang or die as it likes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gputui.core.cards import DeviceFacts
from gputui.core.events import DevicesSeen
from gputui.core.job import Job, JobId, Running, Stopping, Suspended, Usage
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.scheduler import Scheduler
from gputui.gpus.hardware import find_hardware
from gputui.gpus.identity import find
from gputui.gpus.leases import Leases
from gputui.gpus.process import ProcessSampler
from gputui.gpus.sample import DeviceSample, Sample
from gputui.gpus.strangers import Ours, Rules, Strangers, Verdict, ours_in
from gputui.gpus.usage import Holding, UsageMeter
from gputui.gpus.watch import Watch
from gputui.gpus.words import why_not

from .loop import Loop

NOT_SEEN = DeviceFacts(blocked="the GPUs are being looked at")
LIBRARY = "libnvidia-ml.so.1"
IDLE_AFTER = 600.0
"""Seconds of doing nothing on a card after which a job is remarked upon."""


def driver_present() -> bool:
    """NVIDIA hardware is there, or at least its library where the user said to look."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return bool(find_hardware().gpus) or any(os.path.exists(os.path.join(each, LIBRARY)) for each in folders if each)


class Devices:
    """Works in the owner's thread. Without NVIDIA hardware it does nothing and blocks nothing."""

    def __init__(self, loop: Loop, session: str, token: Callable[[JobId, int], str], news: Callable[[], None]) -> None:
        self.sample: Sample | None = None
        self.pids: dict[int, JobId] = {}
        """Which processes in the sample are ours."""
        self.leftovers: dict[int, JobId] = {}
        """Which of them are left over from a job that has ended."""
        self._session = session
        self._loop = loop
        self._token = token
        self._news = news
        self._leases = Leases(session[:12])
        self._held: dict[JobId, list[int]] = {}
        """Descriptors of leases that no wrapper holds yet."""
        self._lanes: tuple[Lane, ...] | None = None
        self._watch: Watch | None = None
        self._strangers = Strangers()
        self._meter = UsageMeter()
        self._unread = False

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        for fds in self._held.values():
            for fd in fds:
                os.close(fd)

    # Before jobs are placed

    @contextmanager
    def choosing(self, scheduler: Scheduler) -> Iterator[None]:
        """Tells the scheduler what is on the devices, and keeps other gputui users from choosing meanwhile."""
        if scheduler.board.lanes is not self._lanes:
            self._lanes = scheduler.board.lanes
            self._begin(scheduler)
        if self._watch is None:
            yield
            return
        free = self._keys(lane for lane in scheduler.board.lanes if scheduler.board.is_free(lane))
        if not free or not scheduler.book.ready:
            self._tell(scheduler, {})
            yield
            return
        with self._leases.gate(free.values()):
            self._tell(scheduler, self._leased(free))
            yield

    def _begin(self, scheduler: Scheduler) -> None:
        wanted = any(lane.kind is DeviceKind.GPU for lane in scheduler.board.lanes) and driver_present()
        if wanted and self._watch is None:
            self._watch = Watch(self._loop, ProcessSampler(), self._deliver)
        elif not wanted and self._watch is not None:
            self._watch.close()
            self._watch = None

    def _deliver(self, sample: Sample) -> None:
        self.sample = sample
        self._unread = True
        self._news()

    def _tell(self, scheduler: Scheduler, leased: dict[str, str]) -> None:
        sample, now = self.sample, time.time()
        words = {word for lane in scheduler.board.lanes for word in lane.devices}
        if sample is None or not sample.complete:
            facts = dict.fromkeys(words, NOT_SEEN)
        else:
            facts = self._facts(scheduler, sample, words, leased, now)
        scheduler.handle(DevicesSeen(facts), now)

    def _facts(
        self, scheduler: Scheduler, sample: Sample, words: set[str], leased: dict[str, str], now: float
    ) -> dict[str, DeviceFacts]:
        pids = self.pids = self._ours(scheduler, sample)
        holdings = self._holdings(scheduler, sample)
        busy = frozenset(key for holding in holdings for key in holding.devices)
        self._strangers.rules = Rules(
            ignored=frozenset(scheduler.settings.ignored), ignore_all=scheduler.settings.ignore_strangers
        )
        verdicts = self._strangers.observe(sample, Ours(pids, busy), now)
        if self._unread:
            self._unread = False
            self._meter.observe(sample, holdings, pids, now)
        return {word: _fact(sample, word, verdicts, pids, leased.get(word), now) for word in words}

    def _ours(self, scheduler: Scheduler, sample: Sample) -> dict[int, JobId]:
        runs: dict[str, JobId] = {}
        wrappers: dict[int, JobId] = {}
        for job_id in scheduler.book.active:
            job = scheduler.book[job_id]
            assert job.active is not None
            runs[self._token(job_id, job.active.attempt)] = job_id
            if isinstance(job.state, Running | Suspended | Stopping) and job.state.pid is not None:
                wrappers[job.state.pid] = job_id
        found = ours_in(sample, runs, wrappers)
        self.leftovers = self._left_behind(sample, found)
        return found

    def _left_behind(self, sample: Sample, ours: dict[int, JobId]) -> dict[int, JobId]:
        """Processes on a device that carry the token of an attempt that is over."""
        left: dict[int, JobId] = {}
        for process in (process for device in sample.devices for process in device.processes):
            session, _, attempt = (process.run or "").partition(".")
            if session == self._session and process.alive and process.pid not in ours:
                left[process.pid] = int(attempt.partition(".")[0])
        return left

    def _holdings(self, scheduler: Scheduler, sample: Sample) -> list[Holding]:
        holdings = []
        for job_id in scheduler.book.active:
            placed = scheduler.book[job_id].active
            assert placed is not None
            keys = tuple(device.key for word in placed.gpus if (device := find(sample.devices, word)) is not None)
            holdings.append(Holding(job_id, placed.attempt, keys, placed.since))
        return holdings

    # Leases

    def _keys(self, lanes: Iterator[Lane]) -> dict[str, str]:
        """The devices of these lanes, by word, as other sessions know them."""
        words = {word for lane in lanes for word in lane.devices}
        devices = self.sample.devices if self.sample is not None else ()
        return {word: device.key for word in words if (device := find(devices, word)) is not None}

    def _leased(self, keys: dict[str, str]) -> dict[str, str]:
        now = time.time()
        found: dict[str, str] = {}
        for word, key in keys.items():
            device = self.sample.device(key) if self.sample is not None else None
            idle = device is not None and not device.processes
            others = [each for each in self._leases.others(key) if not (idle and each.may_be_overridden(now))]
            if others:
                found[word] = f"GPU {word} was just taken by another gputui session (user {_user(others[0].uid)})"
        return found

    def lease(self, job: JobId, gpus: tuple[str, ...]) -> None:
        """Called while choosing: from now on other sessions see that we take these."""
        if self._watch is None or self.sample is None:
            return
        devices = (find(self.sample.devices, word) for word in gpus)
        taken = (self._leases.take(device.key) for device in devices if device is not None)
        self._held[job] = [fd for fd in taken if fd is not None]

    def leases_of(self, job: JobId) -> tuple[int, ...]:
        return tuple(self._held.get(job, ()))

    def hand_on(self, job: JobId) -> None:
        """The wrapper holds the leases now, or nobody needs them."""
        for fd in self._held.pop(job, ()):
            os.close(fd)

    # At an attempt's end

    def usage(self, job: JobId, attempt: int) -> Usage | None:
        if self._watch is None:
            return None
        seen = self._meter.end(job, attempt)
        return Usage(seen.mean_utilization, seen.peak_utilization, seen.peak_memory, seen.gpu_seconds)

    def remark(self, job: Job) -> str | None:
        """What is odd about a running job: a hung one holds its card and does nothing."""
        if job.active is None:
            return None
        idle = self._meter.usage(job.id, job.active.attempt).idle_for(time.time())
        return f"holds GPU memory and has done nothing for {idle / 60:.0f} min" if idle >= IDLE_AFTER else None


def _fact(
    sample: Sample, word: str, verdicts: dict[str, Verdict], pids: dict[int, JobId], leased: str | None, now: float
) -> DeviceFacts:
    if sample.trouble is not None:
        return DeviceFacts(blocked=f"{sample.trouble.message}; {sample.trouble.advice}")
    device = find(sample.devices, word)
    if device is None:
        return DeviceFacts(blocked=f"GPU {word} is not there")
    return DeviceFacts(
        blocked=why_not(device, verdicts[device.key], now) or leased,
        memory_total=device.memory_total,
        memory_used=device.memory_used,
        ours=_memory_of_ours(device, pids),
    )


def _memory_of_ours(device: DeviceSample, pids: dict[int, JobId]) -> dict[JobId, int]:
    used: dict[JobId, int] = {}
    for process in device.processes:
        job = pids.get(process.pid)
        if job is not None:
            used[job] = used.get(job, 0) + (process.memory or 0)
    return used


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
