"""What a machine reports about itself."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

import msgspec
from msgspec import Struct

from gputui import __version__
from gputui.core.job import ACTIVE, BAD_ENDS, WAITING
from gputui.gpus.hardware import driver_present
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample, Sampler, Status
from gputui.gpus.sampler_process import ProcessSampler, sample_once
from gputui.gpus.strangers import Rules
from gputui.session.control.connection import ClientError, Connection, NoOwner
from gputui.session.messages import Lanes, LaneShown, StatusQuestion
from gputui.session.registry import known_here

# ---- What one machine tells of itself ----


VERSION = 1


class CardLook(Struct, frozen=True, kw_only=True):
    """One GPU, or CPU stand-in."""

    index: int
    name: str
    trouble: str = ""
    """Why it cannot be used; empty: it can."""
    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    holders: tuple[str, ...] = ()
    """Who is on it: `#12 sweep` for jobs of ours, else the user's name."""
    taken: bool = False
    """A job of ours was given it, whether or not it uses it yet."""

    @property
    def free(self) -> bool:
        return not (self.trouble or self.holders or self.taken)

    @property
    def memory_free(self) -> int:
        """Without figures: nothing is known to be free."""
        return 0 if self.memory_total is None else self.memory_total - (self.memory_used or 0)


class SessionLook(Struct, frozen=True, kw_only=True):
    folder: str
    standing: str = ""
    """Its scheduler in a word; empty: nobody owns it, and it was not opened."""
    counts: dict[str, int] = {}

    @property
    def told(self) -> str:
        """`4 run · 12 wait · 37 ok · 3 ✗`; empty where nothing is known."""
        figures = (
            (sum(self.counts.get(state, 0) for state in ACTIVE), "run"),
            (sum(self.counts.get(state, 0) for state in WAITING), "wait"),
            (self.counts.get("succeeded", 0), "ok"),
            (sum(self.counts.get(state, 0) for state in BAD_ENDS), "✗"),
        )
        return " · ".join(f"{count} {word}" for count, word in figures if count)

    @property
    def name(self) -> str:
        folder, last = os.path.split(self.folder)
        return os.path.basename(folder) if last in ("gputui_run", "hog_run") else last


class MachineLook(Struct, frozen=True, kw_only=True):
    host: str
    gputui: str
    gpus: bool
    """False: there is no GPU, and the cards are its processors."""
    cards: tuple[CardLook, ...] = ()
    sessions: tuple[SessionLook, ...] = ()
    load: float = 0.0
    """Per processor."""
    version: int = VERSION

    @property
    def free_cards(self) -> int:
        return sum(card.free for card in self.cards)


# ---- This machine's own answer to whoever asks several ----


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
