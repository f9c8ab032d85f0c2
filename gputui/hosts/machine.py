"""The status that a machine reports about itself."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from contextlib import closing

import msgspec
from msgspec import Struct

from gputui import __version__
from gputui.core.job import ACTIVE, BAD_ENDS, WAITING
from gputui.gpus.external_processes import ExternalProcesses, HeldByExternalProcesses, Ours, Verdict
from gputui.gpus.hardware import driver_present
from gputui.gpus.machine import CpuSampler
from gputui.gpus.sample import DeviceSample, Sample, Sampler, Status
from gputui.gpus.sampler_process import ProcessSampler, sample_once
from gputui.session.control.connection import ask_owner
from gputui.session.messages import Slots, SlotShown, StatusQuestion
from gputui.session.registry import PRIVATE, known_here

VERSION = 1


class CardStatus(Struct, frozen=True, kw_only=True):
    """One GPU, or one CPU stand-in."""

    index: int
    name: str
    trouble: str = ""
    """Why the GPU cannot be used, or "" if it can be used."""
    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    holders: tuple[str, ...] = ()
    """Users of the GPU: text such as `#12 sweep` for our jobs, otherwise the user's name."""
    taken: bool = False
    """Whether the GPU is assigned to one of our jobs, even if the job does not use it yet."""

    @property
    def free(self) -> bool:
        return not (self.trouble or self.holders or self.taken)

    @property
    def memory_free(self) -> int:
        """Free memory in bytes, or 0 if unknown."""
        return 0 if self.memory_total is None else self.memory_total - (self.memory_used or 0)


class SessionSummary(Struct, frozen=True, kw_only=True):
    directory: str
    status: str = ""
    """Status of the session's scheduler, or "" if the session has no owner."""
    counts: dict[str, int] = {}

    @property
    def counts_text(self) -> str:
        """Counts in the form `4 run · 12 wait · 37 ok · 3 ✗`, or "" if nothing is known."""
        figures = (
            (sum(self.counts.get(state, 0) for state in ACTIVE), "run"),
            (sum(self.counts.get(state, 0) for state in WAITING), "wait"),
            (self.counts.get("succeeded", 0), "ok"),
            (sum(self.counts.get(state, 0) for state in BAD_ENDS), "✗"),
        )
        return " · ".join(f"{count} {word}" for count, word in figures if count)

    @property
    def name(self) -> str:
        directory, last = os.path.split(self.directory)
        return os.path.basename(directory) if last in ("gputui_run", "hog_run") else last


class MachineStatus(Struct, frozen=True, kw_only=True):
    host: str
    gputui: str
    gpus: bool
    """Whether the machine has GPUs. If not, the cards stand for CPUs."""
    cards: tuple[CardStatus, ...] = ()
    sessions: tuple[SessionSummary, ...] = ()
    load: float = 0.0
    """Load average divided by the number of processors."""
    version: int = VERSION

    @property
    def free_cards(self) -> int:
        return sum(card.free for card in self.cards)


PATIENCE = 0.9
"""Seconds to wait for GPU figures, because a hanging driver never returns them."""


class LiveSession(msgspec.Struct, frozen=True):
    """A session with an owner, and what the owner reports about its slots."""

    summary: SessionSummary
    slots: list[SlotShown]
    pids: dict[int, int]
    sample: Sample | None


def collect_status() -> MachineStatus:
    """Return the status of this machine and of the user's sessions on it."""
    roots = known_here()
    live = {root: session for root in roots if (session := _live_session(root)) is not None}
    gpus = driver_present()
    sample = _sample(gpus, live.values())
    sessions = tuple(live[root].summary if root in live else SessionSummary(directory=root) for root in roots)
    return MachineStatus(
        host=os.uname().nodename.partition(".")[0],
        gputui=__version__,
        gpus=gpus,
        cards=_cards(sample, live.values(), gpus) if sample is not None else (),
        sessions=sessions,
        load=os.getloadavg()[0] / (os.cpu_count() or 1),
    )


def _live_session(root: str) -> LiveSession | None:
    private = os.path.join(root, PRIVATE)
    status, slots = ask_owner(private, StatusQuestion()), ask_owner(private, Slots())
    if status is None or slots is None:
        return None
    counts = {str(state): count for state, count in status.counts.items()}
    summary = SessionSummary(directory=root, status=status.scheduler.word, counts=counts)
    sample = msgspec.convert(slots.sample, Sample) if slots.sample is not None else None
    return LiveSession(summary, slots.slots, slots.pids, sample)


def _sample(gpus: bool, live: Iterable[LiveSession]) -> Sample | None:
    """Return the newest sample from an owner that already samples the GPUs. If there is none, take a sample."""
    if gpus:
        samples = [session.sample for session in live if session.sample is not None and session.sample.devices]
        real = next((sample for sample in samples if all(device.uuid for device in sample.devices)), None)
        if real is not None:
            return real
    own: Sampler = ProcessSampler() if gpus else CpuSampler(max(1, min(4, (os.cpu_count() or 2) // 2)))
    with closing(own) as sampler:
        return sample_once(sampler, PATIENCE)


def _cards(sample: Sample, live: Collection[LiveSession], gpus: bool) -> tuple[CardStatus, ...]:
    names = {pid: f"#{job} {session.summary.name}" for session in live for pid, job in session.pids.items()}
    ours = {pid: job for session in live for pid, job in session.pids.items()}
    verdicts = ExternalProcesses().observe(sample, Ours(ours), time.time())
    busy = [slot for session in live for slot in session.slots if slot.job is not None]
    return tuple(_card(device, verdicts[device.key], names, busy, gpus) for device in sample.devices)


def _card(
    device: DeviceSample, verdict: Verdict, ours: dict[int, str], busy: list[SlotShown], gpus: bool
) -> CardStatus:
    words = {str(device.index), device.uuid}
    holders = [ours[process.pid] for process in device.processes if process.pid in ours]
    if isinstance(verdict, HeldByExternalProcesses):
        holders += [process.user or f"pid {process.pid}" for process in verdict.by]
    return CardStatus(
        index=device.index,
        name=device.name,
        trouble=_trouble(device),
        utilization=device.utilization,
        memory_used=device.memory_used,
        memory_total=device.memory_total,
        holders=tuple(dict.fromkeys(holders)),
        taken=any(words.intersection(slot.devices) for slot in busy) if gpus else device.index < len(busy),
    )


def _trouble(device: DeviceSample) -> str:
    if device.status is not Status.OK:
        return f"{device.status.value}: {device.message}" if device.message else device.status.value
    return "" if device.visible else "not in CUDA_VISIBLE_DEVICES"
