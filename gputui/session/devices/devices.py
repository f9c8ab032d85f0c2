"""The owner's eyes on the devices: samples in, facts for the scheduler and figures for each attempt out.

Courtesy lives here: what strangers hold is blocked, and so is what another gputui has leased. The owner never loads
the driver's library; a process of its own samples, and may hang or die as it likes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gputui.core.events import DevicesSeen
from gputui.core.job import Job, JobId, Usage
from gputui.core.lanes import DeviceFacts, DeviceKind, Lane
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.gpus.hardware import find, kernel_hardware
from gputui.gpus.leases import Leases
from gputui.gpus.picture import DevicesPicture, Leftover
from gputui.gpus.sample import Sample
from gputui.gpus.sampler_process import SamplerWatch
from gputui.gpus.strangers import Ours, Rules, Strangers, Verdict
from gputui.session.event_loop import Loop

from .picture import (
    Known,
    SessionLanes,
    cluster_pictured,
    device_fact,
    holdings,
    left_behind,
    ours,
    pictured,
    user_name,
)
from .recording import Recording
from .samplers import Wanted, held_by, kind_of, sampler_for, wanted_for

WATCHED_FOR = 10.0
"""Seconds after which somebody who did not ask again is not looking any more."""
NOT_SEEN = DeviceFacts(blocked="not checked yet")


class Devices:
    """Works in the owner's thread. Only NVIDIA hardware is shared with others; nothing else is ever blocked.

    `looked_at`: somebody wants to see pictures of all devices, also of those that the scheduler need not know.
    """

    def __init__(
        self,
        loop: Loop,
        session: str,
        token: Callable[[JobId, int], str],
        news: Callable[[], None],
        recording: Recording,
        folder: Callable[[Job], str],
        *,
        looked_at: bool = False,
    ) -> None:
        self.recording = recording
        self.sample: Sample | None = None
        self.picture = DevicesPicture(kind=DeviceKind.GPU, sample=None)
        """Any thread may look at it; replaced when something changed, if somebody looks."""
        self.pids: dict[int, JobId] = {}
        """Which processes in the sample are ours."""
        self.left_behind: tuple[Leftover, ...] = ()
        """Which of them are left over from a job that has ended."""
        self.taken_off: tuple[Lane, ...] = ()
        """Lanes that the user took off and may want back."""
        self._is_app = looked_at
        self._watched_until = 0.0
        """Monotonic; so long somebody looks on from another process."""
        self._begun_for: tuple[tuple[Lane, ...], bool] | None = None
        self._folder = folder
        self._session = session
        self._loop = loop
        self._token = token
        self._news = news
        self._leases = Leases(session[:12])
        self._held: dict[JobId, int] = {}
        """Descriptors of leases that no wrapper holds yet."""
        self._watch: SamplerWatch | None = None
        self._wanted: Wanted | None = None
        self._strangers = Strangers()
        self._unread = False
        self._verdicts: dict[str, Verdict] = {}
        self._blocked: dict[str, str] = {}
        self._drawn: tuple[Sample | None, SessionLanes, dict[str, str]] | None = None
        """What the picture was made from."""

    @property
    def leftovers(self) -> dict[int, JobId]:
        return {each.pid: each.job for each in self.left_behind}

    @property
    def cluster_name(self) -> str:
        """Of the one that the session's jobs run on, where it told."""
        return self.sample.cluster.name if self.sample is not None and self.sample.cluster is not None else ""

    @property
    def _shared(self) -> bool:
        """The devices are cards that other people use too."""
        return self._wanted is not None and self._wanted.kind is DeviceKind.GPU

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        for fd in self._held.values():
            os.close(fd)
        self.recording.close()

    # Before jobs are placed

    @contextmanager
    def choosing(self, scheduler: Scheduler) -> Iterator[None]:
        """Tells the scheduler what is on the devices, and keeps other gputui users from choosing meanwhile."""
        lanes, looked_at = scheduler.board.lanes, self._looked_at
        if self._begun_for is None or lanes is not self._begun_for[0] or looked_at is not self._begun_for[1]:
            self._begun_for = (lanes, looked_at)
            self._begin(scheduler)
        if not self._shared:
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
        board = scheduler.board
        self.taken_off = _still_off(self.taken_off, board.lanes)
        lanes = (*board.lanes, *board.leaving(), *self.taken_off)
        wanted = wanted_for(lanes, scheduler.settings.partition, looked_at=self._looked_at)
        if wanted == self._wanted:
            return
        if self._watch is not None:
            self._watch.close()
        self._wanted, self._watch, self.sample = wanted, None, None
        if wanted is not None:
            self._watch = SamplerWatch(
                self._loop, sampler_for(wanted, scheduler, self._session, self._folder), self._deliver
            )

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
        self._blocked = {word: fact.blocked for word, fact in facts.items() if fact.blocked is not None}
        scheduler.handle(DevicesSeen(facts), now)

    def _facts(
        self, scheduler: Scheduler, sample: Sample, words: set[str], leased: dict[str, str], now: float
    ) -> dict[str, DeviceFacts]:
        pids = self.pids = ours(scheduler, sample, self._token)
        self.left_behind = left_behind(sample, self._session, pids)
        held = holdings(scheduler, sample)
        busy = frozenset(key for holding in held for key in holding.devices)
        self._strangers.rules = Rules(
            ignored=frozenset(scheduler.settings.ignored), ignore_all=scheduler.settings.ignore_strangers
        )
        verdicts = self._verdicts = self._strangers.observe(sample, Ours(pids, busy), now)
        if self._unread:
            self._unread = False
            self.recording.observe(sample, held, busy, pids, now)
            self.recording.see_others(sample, words, verdicts, now)
        return {word: device_fact(sample, word, verdicts, pids, leased.get(word), now) for word in words}

    # Leases

    def _keys(self, lanes: Iterator[Lane]) -> dict[str, str]:
        """The devices of these lanes, by word, as other sessions know them."""
        words = {word for lane in lanes for word in lane.devices}
        devices = self.sample.devices if self.sample is not None else ()
        return {word: device.key for word in words if (device := find(devices, word)) is not None}

    def uuid_of(self, word: str) -> str | None:
        """None: neither the driver nor the kernel tells."""
        device = find(self.sample.devices, word) if self.sample is not None else None
        if device is not None:
            return device.uuid or None
        return next((gpu.uuid for gpu in kernel_hardware().gpus if str(gpu.index) == word), None)

    def _leased(self, keys: dict[str, str]) -> dict[str, str]:
        now = time.monotonic()
        taken: dict[str, str] = {}
        for word, key in keys.items():
            device = self.sample.device(key) if self.sample is not None else None
            idle = device is not None and not device.processes
            others = [each for each in self._leases.others(key) if not (idle and each.may_be_overridden(now))]
            if others:
                taken[word] = f"just taken by another gputui session (user {user_name(others[0].uid)})"
        return taken

    def lease(self, job: JobId, gpus: tuple[str, ...]) -> None:
        """Called while choosing: from now on other sessions see that we take these."""
        if not self._shared or self.sample is None:
            return
        devices = (find(self.sample.devices, word) for word in gpus)
        fd = self._leases.take(device.key for device in devices if device is not None)
        if fd is not None:
            self._held[job] = fd

    def lease_of(self, job: JobId) -> int | None:
        return self._held.get(job)

    def hand_on(self, job: JobId) -> None:
        """The wrapper holds the lease now, or nobody needs it."""
        fd = self._held.pop(job, None)
        if fd is not None:
            os.close(fd)

    # For whoever looks

    @property
    def _looked_at(self) -> bool:
        return self._is_app or time.monotonic() < self._watched_until

    def be_watched(self) -> None:
        """Somebody looks on from another process, and asks again soon or has left."""
        if not self._looked_at:
            self._news()
        self._watched_until = time.monotonic() + WATCHED_FOR

    def look(self, scheduler: Scheduler, snapshot: Snapshot, now: float) -> None:
        """Makes a new picture if what it would show has changed; nothing if nobody looks."""
        if not self._looked_at:
            return
        if self._wanted is not None and not self._shared:
            self._measure_own(scheduler, now)
        session = SessionLanes.of(snapshot, self.taken_off)
        drawn = (self.sample, session, self._blocked)
        if self._drawn is not None and drawn[0] is self._drawn[0] and drawn[1:] == self._drawn[1:]:
            return
        self._drawn = drawn
        facts = Known(
            verdicts=self._verdicts if self._shared else {},
            blocked=self._blocked if self._shared else {},
            pids=self.pids,
            leftovers=self.left_behind,
            idle_since=self.recording.idle(scheduler, now),
            shares=self.recording.shares,
            warnings=self.recording.warnings,
            history=self.recording.history(),
        )
        kind = self._wanted.kind if self._wanted is not None else kind_of(session.all_lanes())
        if kind is DeviceKind.SLURM:
            self.picture = cluster_pictured(self.sample, held_by(scheduler), facts)
            return
        self.picture = pictured(kind or DeviceKind.GPU, self.sample, session, facts, looking=self._watch is not None)

    def _measure_own(self, scheduler: Scheduler, now: float) -> None:
        """Devices that nobody else has."""
        if self.sample is not None and self._unread:
            self._unread = False
            held = holdings(scheduler, self.sample)
            busy = {key for holding in held for key in holding.devices} | _busy_lanes(scheduler)
            self.recording.observe(self.sample, held, busy, {}, now)

    # At an attempt's end

    def usage(self, job: JobId, attempt: int) -> Usage | None:
        if self._wanted is None or self._wanted.kind is DeviceKind.CPU:
            return None
        return self.recording.usage(job, attempt)

    def remark(self, job: Job) -> str | None:
        """What is odd about a running job."""
        return self.recording.remark(job)


def _busy_lanes(scheduler: Scheduler) -> set[str]:
    """Keys of the CPU lanes that run a job."""
    return {f"CPU-{lane}" for lane in scheduler.board.holders}


def _still_off(taken_off: tuple[Lane, ...], lanes: tuple[Lane, ...]) -> tuple[Lane, ...]:
    """Without those whose devices, or whose numbers, are all on again."""
    back = {slot for lane in lanes for slot in lane.slots}
    return tuple(lane for lane in taken_off if not back.issuperset(lane.slots))
