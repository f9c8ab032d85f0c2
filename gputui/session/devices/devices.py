"""The session's view of the devices: takes samples, tells the scheduler which devices are blocked, and measures
attempts.

A device is blocked if external processes use it or another gputui session has leased it. GPUs are sampled in a separate
process, because a driver can hang or crash any process that loads its library.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gputui.core.events import DevicesSeen
from gputui.core.job import Job, JobId, Usage
from gputui.core.scheduler import Scheduler
from gputui.core.slots import DeviceFacts, DeviceKind, Slot
from gputui.core.snapshot import Snapshot
from gputui.gpus.external_processes import ExternalProcesses, Ours, Rules, Verdict
from gputui.gpus.hardware import find, kernel_hardware
from gputui.gpus.leases import Leases
from gputui.gpus.picture import DevicesPicture, Leftover
from gputui.gpus.sample import Sample
from gputui.gpus.sampler_process import SamplerWatch
from gputui.process.processes import user_name
from gputui.session.event_loop import Loop

from .picture import (
    DeviceKnowledge,
    SessionSlots,
    describe_device,
    find_leftovers,
    find_our_processes,
    list_holdings,
    list_wrappers,
    make_cluster_picture,
    make_picture,
)
from .recording import Recording
from .samplers import SamplerOptions, held_cluster_gpus, kind_of, make_sampler, sampler_options

WATCHED_FOR = 10.0
"""Seconds for which a viewer in another process counts as watching after its last request."""
NOT_SEEN = DeviceFacts(blocked="not checked yet")


class Devices:
    """The devices of a session, for use in the owner's thread. Only real GPUs are shared with others, so other devices
    are never blocked.
    """

    def __init__(
        self,
        loop: Loop,
        session: str,
        token: Callable[[JobId, int], str],
        wake: Callable[[], None],
        recording: Recording,
        directory: Callable[[Job], str],
        *,
        is_app: bool = False,
    ) -> None:
        """Set up the devices; sampling starts later. If `is_app` is set, a user is always watching, so all devices are
        sampled, including those that the scheduler does not need to know about.
        """
        self.recording = recording
        self.sample: Sample | None = None
        self.picture = DevicesPicture(kind=DeviceKind.GPU, sample=None)
        """The picture of the devices for viewers, which any thread may read. While somebody watches, it is replaced
        whenever something has changed.
        """
        self.pids: dict[int, JobId] = {}
        """Processes in the sample that belong to our jobs."""
        self.left_behind: tuple[Leftover, ...] = ()
        """Processes that are still on devices although their attempts have ended."""
        self.taken_off: tuple[Slot, ...] = ()
        """Slots that the user drained and may enable again."""
        self._is_app = is_app
        self._watched_until = 0.0
        """Monotonic time until which a viewer in another process counts as watching."""
        self._sampled_for: tuple[tuple[Slot, ...], bool] | None = None
        self._directory = directory
        self._session = session
        self._loop = loop
        self._token = token
        self._wake = wake
        self._leases = Leases(session[:12])
        self._held: dict[JobId, int] = {}
        """Descriptors of leases that no wrapper holds yet, by job."""
        self._watch: SamplerWatch | None = None
        self._options: SamplerOptions | None = None
        self._external_processes = ExternalProcesses()
        self._unread = False
        self._verdicts: dict[str, Verdict] = {}
        self._blocked: dict[str, str] = {}
        self._drawn: tuple[Sample | None, SessionSlots, dict[str, str]] | None = None
        """The inputs from which the current picture was made."""

    @property
    def leftovers(self) -> dict[int, JobId]:
        return {each.pid: each.job for each in self.left_behind}

    @property
    def cluster_name(self) -> str:
        return self.sample.cluster.name if self.sample is not None and self.sample.cluster is not None else ""

    @property
    def _shared(self) -> bool:
        """Whether the devices are GPUs that other people may use too."""
        return self._options is not None and self._options.kind is DeviceKind.GPU

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        for fd in self._held.values():
            os.close(fd)
        self.recording.close()

    # Before jobs are placed

    @contextmanager
    def choosing(self, scheduler: Scheduler) -> Iterator[None]:
        """Tell the scheduler the current facts about the devices. Until the block ends, keep other gputui sessions from
        choosing the same devices.
        """
        slots, watched = scheduler.board.slots, self._is_watched
        if self._sampled_for is None or slots is not self._sampled_for[0] or watched is not self._sampled_for[1]:
            self._sampled_for = (slots, watched)
            self._start_sampling(scheduler)
            if any(slot.kind is DeviceKind.SIMULATED for slot in slots) and not self._shared:
                self._describe_simulated(scheduler)
        if scheduler.book.active:
            self.recording.keep_host_use(self._loop, lambda: list_wrappers(scheduler))
        if not self._shared:
            yield
            return
        free = self._keys(slot for slot in scheduler.board.slots if scheduler.board.is_free(slot))
        if not free or not scheduler.book.ready:
            self._update_facts(scheduler, {})
            yield
            return
        with self._leases.gate(free.values()):
            self._update_facts(scheduler, self._leased(free))
            yield

    def _describe_simulated(self, scheduler: Scheduler) -> None:
        """Tell the scheduler the memory of simulated devices, which is known without sampling them."""
        from gputui.gpus.simulated import card

        simulated = (slot for slot in scheduler.board.slots if slot.kind is DeviceKind.SIMULATED)
        facts = {
            word: DeviceFacts(memory_total=card.memory, memory_used=0) for slot in simulated for word in slot.devices
        }
        scheduler.handle(DevicesSeen(facts), time.time())

    def _start_sampling(self, scheduler: Scheduler) -> None:
        board = scheduler.board
        enabled = {device_key for slot in board.slots for device_key in slot.device_keys}
        self.taken_off = tuple(slot for slot in self.taken_off if not enabled.issuperset(slot.device_keys))
        slots = (*board.slots, *board.leaving(), *self.taken_off)
        options = sampler_options(slots, scheduler.settings.partition, watched=self._is_watched)
        if options == self._options:
            return
        if self._watch is not None:
            self._watch.close()
        self._options, self._watch, self.sample = options, None, None
        if options is not None:
            sampler = make_sampler(options, scheduler, self._session, self._directory)
            self._watch = SamplerWatch(self._loop, sampler, self._deliver)

    def _deliver(self, sample: Sample) -> None:
        self.sample = sample
        self._unread = True
        self._wake()

    def _update_facts(self, scheduler: Scheduler, leased: dict[str, str]) -> None:
        sample, now = self.sample, time.time()
        words = {word for slot in scheduler.board.slots for word in slot.devices}
        if sample is None or not sample.complete:
            facts = dict.fromkeys(words, NOT_SEEN)
        else:
            pids = self.pids = find_our_processes(scheduler, sample, self._token)
            self.left_behind = find_leftovers(sample, self._session, pids)
            held = list_holdings(scheduler, sample)
            busy = frozenset(key for holding in held for key in holding.devices)
            self._external_processes.rules = Rules(
                ignored=frozenset(scheduler.settings.ignored), ignore_all=scheduler.settings.share_gpus
            )
            verdicts = self._verdicts = self._external_processes.observe(sample, Ours(pids, busy), now)
            if self._unread:
                self._unread = False
                self.recording.observe(sample, held, busy, pids, now)
                self.recording.record_external_use(sample, words, verdicts, now)
            facts = {word: describe_device(sample, word, verdicts, pids, leased.get(word), now) for word in words}
        self._blocked = {word: fact.blocked for word, fact in facts.items() if fact.blocked is not None}
        scheduler.handle(DevicesSeen(facts), now)

    # Leases

    def _keys(self, slots: Iterator[Slot]) -> dict[str, str]:
        """Map each device name in these slots to its device key, which is the same in all sessions."""
        words = {word for slot in slots for word in slot.devices}
        devices = self.sample.devices if self.sample is not None else ()
        return {word: device.key for word in words if (device := find(devices, word)) is not None}

    def uuid_of(self, word: str) -> str | None:
        """Return the UUID of this device, or None if neither the driver nor the kernel knows it."""
        device = find(self.sample.devices, word) if self.sample is not None else None
        device = device or find(kernel_hardware().gpus, word)
        return (device.uuid or None) if device is not None else None

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
        """Announce to other sessions that this job takes these GPUs. Called inside `choosing`."""
        if not self._shared or self.sample is None:
            return
        devices = (find(self.sample.devices, word) for word in gpus)
        fd = self._leases.take(device.key for device in devices if device is not None)
        if fd is not None:
            self._held[job] = fd

    def lease_of(self, job: JobId) -> int | None:
        return self._held.get(job)

    def release_lease(self, job: JobId) -> None:
        """Close this process's descriptor of the job's lease, because the wrapper holds the lease now or the job was
        not started.
        """
        fd = self._held.pop(job, None)
        if fd is not None:
            os.close(fd)

    # Pictures

    @property
    def _is_watched(self) -> bool:
        return self._is_app or time.monotonic() < self._watched_until

    def keep_watched(self) -> None:
        """Note that a viewer in another process is watching. It is expected to ask again soon."""
        if not self._is_watched:
            self._wake()
        self._watched_until = time.monotonic() + WATCHED_FOR

    def update_picture(self, scheduler: Scheduler, snapshot: Snapshot, now: float) -> None:
        """Make a new picture if somebody is watching and something that it shows has changed."""
        if not self._is_watched:
            return
        if self._options is not None and not self._shared and self.sample is not None and self._unread:
            self._unread = False
            held = list_holdings(scheduler, self.sample)
            busy = {key for holding in held for key in holding.devices}
            busy |= {f"CPU-{slot}" for slot in scheduler.board.holders}
            self.recording.observe(self.sample, held, busy, {}, now)
        session = SessionSlots(snapshot.slots, snapshot.leaving, snapshot.holders, self.taken_off)
        drawn = (self.sample, session, self._blocked)
        if self._drawn is not None and drawn[0] is self._drawn[0] and drawn[1:] == self._drawn[1:]:
            return
        self._drawn = drawn
        facts = DeviceKnowledge(
            verdicts=self._verdicts if self._shared else {},
            blocked=self._blocked if self._shared else {},
            pids=self.pids,
            leftovers=self.left_behind,
            idle_since=self.recording.idle(scheduler, now),
            shares=self.recording.shares,
            warnings=self.recording.warnings,
            history=self.recording.history(),
        )
        kind = self._options.kind if self._options is not None else kind_of(session.all_slots())
        if kind is DeviceKind.SLURM:
            self.picture = make_cluster_picture(self.sample, held_cluster_gpus(scheduler), facts)
        else:
            looking = self._watch is not None
            self.picture = make_picture(kind or DeviceKind.GPU, self.sample, session, facts, looking=looking)

    def usage(self, job: JobId, attempt: int) -> Usage | None:
        """End the measurement of an attempt and return what it used, or None if its devices are not measured."""
        self.recording.end_series(self._loop, job, attempt)
        if self._options is None or self._options.kind is DeviceKind.CPU:
            return None
        return self.recording.usage(job, attempt)

    def remark(self, job: Job) -> str | None:
        return self.recording.remark(job)
