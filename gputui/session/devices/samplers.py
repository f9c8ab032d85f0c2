"""Which sampler shows the devices of a set of lanes. Owns that choice; what the samples mean is for others."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from functools import partial

from msgspec import Struct

from gputui.core.job import Job, JobId, Running, Stopping, Suspended
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.scheduler import Scheduler
from gputui.gpus.hardware import driver_present
from gputui.gpus.process import ProcessSampler
from gputui.gpus.sample import Sampler

from .gpu_use import FILE


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
        return Wanted(kind) if driver_present() else None
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
        from .cluster_sampler import ClusterSampler

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
