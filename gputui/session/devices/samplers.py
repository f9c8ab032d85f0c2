"""Which sampler shows the devices, also where there is no session."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable, Collection, Iterable
from functools import partial

from msgspec import Struct

from gputui.core.job import Job, JobId, Running, Stopping, Suspended
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.scheduler import Scheduler
from gputui.gpus.hardware import driver_may_answer, driver_present
from gputui.gpus.history import HistoryRecorder, noted, share
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample, Sampler
from gputui.gpus.sampler_process import ProcessSampler, SamplerWatch
from gputui.process.watch import begin
from gputui.session.event_loop import Loop

from .picture import FILE, Known, without_session

# ---- Which sampler shows the devices of a set of lanes ----


def kind_of(lanes: Iterable[Lane]) -> DeviceKind | None:
    """What is to be measured for these lanes; GPUs before all, then what is simulated. None: there are no lanes."""
    kinds = {lane.kind for lane in lanes}
    return next((kind for kind in _FIRST if kind in kinds), None)


_FIRST = (DeviceKind.SLURM, DeviceKind.GPU, DeviceKind.SIMULATED, DeviceKind.CPU)


class Wanted(Struct, frozen=True):
    """What is to be measured; a sampler serves as long as this stays the same."""

    kind: DeviceKind
    numbers: tuple[int, ...] = ()
    """Of the simulated devices, or of the CPU lanes."""
    partition: str | None = None
    """Of a cluster: the one whose nodes are shown; None: all."""
    nodes: bool = False
    """Of a cluster: somebody looks at its nodes."""


def wanted_for(lanes: Collection[Lane], partition: str | None, *, looked_at: bool) -> Wanted | None:
    """`lanes`: with those that were taken off. What only the eye wants is measured if somebody looks."""
    kind = kind_of(lanes)
    if kind is DeviceKind.GPU:
        return Wanted(kind) if driver_may_answer() else None
    if kind is DeviceKind.SLURM:
        return Wanted(kind, partition=partition, nodes=looked_at)
    if kind is None or not looked_at:
        return None
    mine = [lane for lane in lanes if lane.kind is kind]
    if kind is DeviceKind.CPU:
        return Wanted(kind, tuple(sorted({lane.id for lane in mine})))
    return Wanted(kind, tuple(sorted({int(word) for lane in mine for word in lane.devices if word.isdecimal()})))


def sampler_for(wanted: Wanted, scheduler: Scheduler, session: str, folder: Callable[[Job], str]) -> Sampler:
    """Imports what it needs when it is needed: a keeper that nobody looks at stays small."""
    if wanted.kind is DeviceKind.GPU:
        return ProcessSampler()
    if wanted.kind is DeviceKind.SLURM:
        from .cluster import ClusterSampler

        held = partial(_figures, scheduler, folder)
        return ClusterSampler(held, session, partition=wanted.partition, asks=wanted.nodes)
    if wanted.kind is DeviceKind.CPU:
        from gputui.gpus.cpu import CpuSampler

        return CpuSampler(wanted.numbers, roots=lambda: _roots(scheduler))
    from gputui.gpus.simulated import SimulatedSampler

    return SimulatedSampler(max(wanted.numbers, default=-1) + 1, busy=lambda: _busy(scheduler))


def held_by(scheduler: Scheduler) -> dict[str, JobId]:
    """Which job of ours has which GPU of a cluster, by the words that its start was reported with."""
    jobs = ((job, scheduler.book[job].active) for job in scheduler.book.active)
    return {word: job for job, placed in jobs if placed is not None for word in placed.gpus if ":" in word}


def _figures(scheduler: Scheduler, folder: Callable[[Job], str]) -> dict[str, str]:
    return {word: os.path.join(folder(scheduler.book[job]), FILE) for word, job in held_by(scheduler).items()}


def _busy(scheduler: Scheduler) -> set[str]:
    """The keys of the simulated devices that run a job."""
    from gputui.gpus.simulated import device_key

    jobs = (scheduler.book[job].active for job in scheduler.book.active)
    words = (word for placed in jobs if placed is not None for word in placed.gpus)
    return {device_key(int(word)) for word in words if word.isdecimal()}


def _roots(scheduler: Scheduler) -> dict[int, int]:
    """The wrapper's pid for every lane that runs a job."""
    roots = {}
    for lane, job in scheduler.board.holders.items():
        state = scheduler.book[job].state
        if isinstance(state, Running | Suspended | Stopping) and state.pid is not None:
            roots[lane] = state.pid
    return roots


# ---- The devices where there is no session ----


class Monitor:
    """From `start` to `close`; `close` never waits for a driver that hangs."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._kind = DeviceKind.GPU if driver_present() else DeviceKind.CPU
        self.picture: DevicesPicture = without_session(None, self._kind)
        """Any thread may look at it."""
        self._history = HistoryRecorder()
        self._user = _own_name()
        self._loop = Loop()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Raises NoThread."""
        self._thread = begin(self._run, "gputui-monitor")

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        watch = SamplerWatch(self._loop, self._sampler(), self._deliver)
        try:
            self._loop.run()
        finally:
            watch.close()
            self._loop.close()

    def _sampler(self) -> Sampler:
        if self._kind is DeviceKind.GPU:
            return ProcessSampler()
        from gputui.gpus.cpu import CpuSampler

        return CpuSampler(())

    def _deliver(self, sample: Sample) -> None:
        """Where there is no session, ours is what this user runs."""
        shares = {device.key: share(device, self._is_mine, held=_is_lane(device)) for device in sample.devices}
        self._history.observe(sample, shares)
        warnings = noted(sample, self._history.warned)
        facts = Known(shares=shares, warnings=warnings, history=self._history.frozen())
        self.picture = without_session(sample, self._kind, facts)
        self._on_change()

    def _is_mine(self, process: ProcessSample) -> bool:
        return process.user == self._user


def _is_lane(device: DeviceSample) -> bool:
    return device.uuid.startswith("CPU-")


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
