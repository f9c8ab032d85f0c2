"""This machine's own answer to whoever asks several: a look that changes nothing, and opens no session that sleeps."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

import msgspec

from gputui import __version__
from gputui.gpus.hardware import driver_present
from gputui.gpus.process import ProcessSampler
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample, Sampler, Status
from gputui.gpus.strangers import Rules
from gputui.gpus.watch import sample_once
from gputui.session.control.client import ClientError, Connection, NoOwner
from gputui.session.messages.replies import LaneShown
from gputui.session.messages.socket_requests import Lanes, StatusQuestion
from gputui.session.registry import known_here

from .look import CardLook, MachineLook, SessionLook

PATIENCE = 0.9
"""A driver that hangs delays nobody: what has answered by then is told."""
SMALLEST = Rules().smallest


class LiveSession(msgspec.Struct, frozen=True):
    """A session with an owner, and what that says of its lanes."""

    look: SessionLook
    lanes: list[LaneShown]
    pids: dict[int, int]
    sample: Sample | None


def look_here() -> MachineLook:
    roots = known_here()
    live = {root: session for root in roots if (session := _asked(root)) is not None}
    gpus = driver_present()
    sample = _sample(gpus, live.values())
    sessions = tuple(live[root].look if root in live else SessionLook(folder=root) for root in roots)
    return MachineLook(
        host=os.uname().nodename.partition(".")[0],
        gputui=__version__,
        gpus=gpus,
        cards=tuple(_card(device, live.values(), gpus) for device in sample.devices) if sample is not None else (),
        sessions=sessions,
        load=os.getloadavg()[0] / (os.cpu_count() or 1),
    )


def _asked(root: str) -> LiveSession | None:
    try:
        connection = Connection(os.path.join(root, ".gputui"))
        try:
            status, lanes = connection.ask(StatusQuestion()), connection.ask(Lanes())
        finally:
            connection.close()
    except (NoOwner, ClientError, OSError):
        return None
    counts = {str(state): count for state, count in status.counts.items()}
    look = SessionLook(folder=root, standing=status.scheduler.word, counts=counts)
    sample = msgspec.convert(lanes.sample, Sample) if lanes.sample is not None else None
    return LiveSession(look, lanes.lanes, lanes.pids, sample)


def _sample(gpus: bool, live: Iterable[LiveSession]) -> Sample | None:
    """An owner's newest where one samples the GPUs, else one of our own."""
    if gpus:
        samples = [session.sample for session in live if session.sample is not None and session.sample.devices]
        shown = next((sample for sample in samples if all(device.uuid for device in sample.devices)), None)
        if shown is not None:
            return shown
    sampler: Sampler = ProcessSampler() if gpus else _processors()
    try:
        return sample_once(sampler, PATIENCE)
    finally:
        sampler.close()


def _processors() -> Sampler:
    from gputui.gpus.cpu import CpuSampler

    return CpuSampler(max(1, min(4, (os.cpu_count() or 2) // 2)))


def _card(device: DeviceSample, live: Collection[LiveSession], gpus: bool) -> CardLook:
    busy = [lane for session in live for lane in session.lanes if lane.job is not None]
    names = {str(device.index), device.uuid}
    return CardLook(
        index=device.index,
        name=device.name,
        trouble=_trouble(device),
        utilization=device.utilization,
        memory_used=device.memory_used,
        memory_total=device.memory_total,
        holders=tuple(dict.fromkeys(_holder(process, live) for process in device.processes if _counts(process, live))),
        taken=any(names.intersection(lane.devices) for lane in busy) if gpus else device.index < len(busy),
    )


def _trouble(device: DeviceSample) -> str:
    if device.status is not Status.OK:
        return f"{device.status.value}: {device.message}" if device.message else device.status.value
    return "" if device.visible else "not in CUDA_VISIBLE_DEVICES"


def _counts(process: ProcessSample, live: Iterable[LiveSession]) -> bool:
    """Jobs of ours always do; others as a session counts strangers."""
    ours = any(process.pid in session.pids for session in live)
    return ours or (process.compute and process.alive and (process.memory is None or process.memory >= SMALLEST))


def _holder(process: ProcessSample, live: Iterable[LiveSession]) -> str:
    for session in live:
        if process.pid in session.pids:
            return f"#{session.pids[process.pid]} {session.look.name}"
    return process.user or f"pid {process.pid}"
