"""The choice of a sampler for the session's devices, and the monitoring of devices without a session."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from gputui.core.job import Job, JobId, Running, Stopping, Suspended
from gputui.core.scheduler import Scheduler
from gputui.core.slots import DeviceKind, Slot
from gputui.gpus.hardware import driver_may_answer, driver_present
from gputui.gpus.history import HistoryRecorder, find_warnings, share
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import Sample, Sampler
from gputui.gpus.sampler_process import ProcessSampler, SamplerWatch
from gputui.process.processes import user_name
from gputui.process.watch import start_thread
from gputui.session.event_loop import Loop

from .picture import DeviceKnowledge, without_session


def kind_of(slots: Iterable[Slot]) -> DeviceKind | None:
    """Return the kind of devices to sample for these slots, or None if there are no slots."""
    kinds = {slot.kind for slot in slots}
    order = (DeviceKind.SLURM, DeviceKind.GPU, DeviceKind.SIMULATED, DeviceKind.CPU)
    return next((kind for kind in order if kind in kinds), None)


class SamplerOptions(Struct, frozen=True):
    """What to sample. If this changes, the sampler is replaced."""

    kind: DeviceKind
    numbers: tuple[int, ...] = ()
    """Numbers of the simulated devices or of the CPU slots."""
    partition: str | None = None
    """For a cluster: the partitions whose nodes are shown, separated by commas; None for all."""
    nodes: bool = False
    """For a cluster: whether somebody watches its nodes."""


def sampler_options(slots: Collection[Slot], partition: str | None, *, watched: bool) -> SamplerOptions | None:
    """Return what to sample, or None if nothing needs to be sampled. If nobody watches, only what the scheduler needs
    is sampled.

    `slots` includes drained slots.
    """
    kind = kind_of(slots)
    if kind is DeviceKind.GPU:
        return SamplerOptions(kind) if driver_may_answer() else None
    if kind is DeviceKind.SLURM:
        return SamplerOptions(kind, partition=partition, nodes=watched)
    if kind is None or not watched:
        return None
    mine = [slot for slot in slots if slot.kind is kind]
    if kind is DeviceKind.CPU:
        return SamplerOptions(kind, tuple(sorted({slot.id for slot in mine})))
    words = {word for slot in mine for word in slot.devices}
    return SamplerOptions(kind, tuple(sorted(int(word) for word in words if word.isdecimal())))


def make_sampler(
    options: SamplerOptions, scheduler: Scheduler, session: str, directory: Callable[[Job], str]
) -> Sampler:
    # Imports are local so that a daemon that nobody watches needs little memory.
    if options.kind is DeviceKind.GPU:
        return ProcessSampler()
    if options.kind is DeviceKind.SLURM:
        from .cluster import GPU_USE_FILE, ClusterSampler

        def gpu_use_files() -> dict[str, str]:
            held = held_cluster_gpus(scheduler)
            return {word: os.path.join(directory(scheduler.book[job]), GPU_USE_FILE) for word, job in held.items()}

        return ClusterSampler(gpu_use_files, session, partition=options.partition, asks=options.nodes)
    if options.kind is DeviceKind.CPU:
        from gputui.gpus.machine import CpuSampler

        return CpuSampler(options.numbers, roots=lambda: _roots(scheduler))
    from gputui.gpus.simulated import SimulatedSampler

    return SimulatedSampler(max(options.numbers, default=-1) + 1, busy=lambda: _busy(scheduler))


def held_cluster_gpus(scheduler: Scheduler) -> dict[str, JobId]:
    """Return the cluster GPUs that our jobs hold, as a mapping from GPU name (`node:index`) to job."""
    jobs = ((job, scheduler.book[job].active) for job in scheduler.book.active)
    return {word: job for job, placed in jobs if placed is not None for word in placed.gpus if ":" in word}


def _busy(scheduler: Scheduler) -> set[str]:
    from gputui.gpus.simulated import device_key

    jobs = (scheduler.book[job].active for job in scheduler.book.active)
    words = (word for placed in jobs if placed is not None for word in placed.gpus)
    return {device_key(int(word)) for word in words if word.isdecimal()}


def _roots(scheduler: Scheduler) -> dict[int, int]:
    """Return the wrapper's pid for every slot that runs a job."""
    roots = {}
    for slot, job in scheduler.board.holders.items():
        state = scheduler.book[job].state
        if isinstance(state, Running | Suspended | Stopping) and state.pid is not None:
            roots[slot] = state.pid
    return roots


class Monitor:
    """A monitor of devices without a session. `close` never waits for a driver that hangs."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._kind = DeviceKind.GPU if driver_present() else DeviceKind.CPU
        self.picture: DevicesPicture = without_session(None, self._kind)
        """The current picture of the devices. Any thread may read it."""
        self._history = HistoryRecorder()
        self._user = user_name(os.getuid())
        self._loop = Loop()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the monitor's thread. Raise NoThread if it cannot be started."""
        self._thread = start_thread(self._run, "gputui-monitor")

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        if self._kind is DeviceKind.GPU:
            sampler: Sampler = ProcessSampler()
        else:
            from gputui.gpus.machine import CpuSampler

            sampler = CpuSampler(())
        watch = SamplerWatch(self._loop, sampler, self._deliver)
        try:
            self._loop.run()
        finally:
            watch.close()
            self._loop.close()

    def _deliver(self, sample: Sample) -> None:
        """Make a new picture from a sample. Without a session, all processes of this user count as ours."""
        shares = {
            device.key: share(device, lambda process: process.user == self._user, held=device.uuid.startswith("CPU-"))
            for device in sample.devices
        }
        self._history.observe(sample, shares)
        warnings = find_warnings(sample, self._history.warned)
        facts = DeviceKnowledge(shares=shares, warnings=warnings, history=self._history.frozen())
        self.picture = without_session(sample, self._kind, facts)
        self._on_change()
