"""The devices at one moment as viewers see them, in words too."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from gputui.core.amounts import duration_words, memory
from gputui.core.job import JobId
from gputui.core.lanes import DeviceKind, Lane

from .history import EMPTY, DeviceHistories, DeviceShare, DeviceWarning
from .sample import DeviceSample, HostSample, Sample
from .strangers import Free, HeldByStrangers, Resting, Stranger, Unusable, Verdict

# ---- What is to be seen of the devices at one moment, by whoever looks ----


class LaneState(StrEnum):
    """What the session makes of a device."""

    FREE = "free"
    BUSY = "busy"
    DRAINING = "draining"
    """No longer wanted; its job goes on to its end."""
    OFF = "off"


class Leftover(Struct, frozen=True):
    """A process of an attempt that is over."""

    pid: int
    job: JobId
    attempt: int


class DevicePicture(Struct, frozen=True, kw_only=True):
    """One device: what it shows of itself, and who has it."""

    sample: DeviceSample
    state: LaneState | None = None
    """None: there is no session to make anything of it."""
    jobs: tuple[JobId, ...] = ()
    """Those that hold a lane over it, whether anything of them is on it yet or not."""
    lanes: tuple[Lane, ...] = ()
    """The session's lanes over it, also those that leave when their job has ended."""
    taken_off: tuple[Lane, ...] = ()
    """The lanes it had before it was drained."""
    elsewhere: bool = False
    """On a node of a cluster, which decides by itself what runs there."""
    blocked: str | None = None
    """Why it takes no job of ours, in one sentence."""
    strangers: tuple[Stranger, ...] = ()
    free_at: float | None = None
    """When its stranger has been away for long enough; Unix seconds."""
    leftovers: tuple[Leftover, ...] = ()
    share: DeviceShare = DeviceShare()
    """Whose its load and memory are."""
    warnings: tuple[DeviceWarning, ...] = ()

    @property
    def drained(self) -> bool:
        return self.state is LaneState.OFF and bool(self.taken_off)


class DevicesPicture(Struct, frozen=True, kw_only=True):
    """The whole machine. Equal pictures look the same."""

    kind: DeviceKind
    sample: Sample | None
    """None: nobody measures, or nothing was heard yet."""
    devices: tuple[DevicePicture, ...] = ()
    pids: Mapping[int, JobId] = {}
    """Which processes are our jobs'."""
    idle_since: Mapping[JobId, float] = {}
    """Jobs that hold memory and have long done nothing, with the time since when."""
    looking: bool = False
    """A sampler is at work, so figures will come."""
    history: DeviceHistories = EMPTY

    @property
    def host(self) -> HostSample | None:
        return self.sample.host if self.sample is not None else None

    def device(self, key: str) -> DevicePicture | None:
        return next((device for device in self.devices if device.sample.key == key), None)


# ---- Devices and verdicts on them in words ----


def why_not(verdict: Verdict, now: float) -> str | None:
    """Why a device takes no job of ours, in words that follow its name; None: it may."""
    match verdict:
        case Free():
            return None
        case HeldByStrangers(by=by):
            more = f" and {len(by) - 1} more" if len(by) > 1 else ""
            return f"used by {_person(by[0], now)}{more}"
        case Resting(until=until, after=after):
            who = printable(after.user or f"pid {after.pid}")
            return f"just left by {who}, free in {duration_words(until - now)}"
        case Unusable(why=why):
            return f"unavailable: {why}"


def label(device: DeviceSample) -> str:
    if device.mig is not None:
        return f"GPU {device.index} MIG {device.mig.gpu_instance}/{device.mig.compute_instance}"
    return f"GPU {device.index}"


def _person(stranger: Stranger, now: float) -> str:
    who = printable(stranger.user) if stranger.user else "somebody"
    return f"{who} (pid {stranger.pid}, {memory(stranger.memory)}, {duration_words(now - stranger.since)})"


def printable(text: str) -> str:
    """Without anything a terminal would act on: a process may be called what it likes."""
    return "".join(char if char.isprintable() else "�" for char in text)
