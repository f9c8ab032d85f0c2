"""The state of all devices as shown to viewers, and descriptions of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from gputui.core.amounts import duration_words, memory
from gputui.core.job import JobId
from gputui.core.slots import DeviceKind, Slot

from .external_processes import ExternalProcess, Free, HeldByExternalProcesses, Resting, Unusable, Verdict
from .history import EMPTY, DeviceHistories, DeviceShare, DeviceWarning
from .sample import ClusterSample, DeviceSample, HostSample, Sample


class SlotState(StrEnum):
    """How the session uses a device."""

    FREE = "free"
    BUSY = "busy"
    DRAINING = "draining"
    """No new jobs are started on the device. Its current job runs to its end."""
    OFF = "off"


class Leftover(Struct, frozen=True):
    """A remaining process of an attempt that has ended."""

    pid: int
    job: JobId
    attempt: int


class DevicePicture(Struct, frozen=True, kw_only=True):
    """A device with its sample, and who uses it."""

    sample: DeviceSample
    state: SlotState | None = None
    """How the session uses the device, or None if there is no session."""
    jobs: tuple[JobId, ...] = ()
    """Jobs that hold a slot of the device, even if none of their processes uses it yet."""
    slots: tuple[Slot, ...] = ()
    """The session's slots on the device, including those that will be removed when their job ends."""
    taken_off: tuple[Slot, ...] = ()
    """The slots that the device had before the user drained it."""
    elsewhere: bool = False
    """Whether the device is on a node of a cluster, where the cluster decides what runs."""
    blocked: str | None = None
    """Reason why the session starts no job on the device, or None if it may."""
    external_processes: tuple[ExternalProcess, ...] = ()
    free_at: float | None = None
    """Unix time until which the device stays blocked after external processes have left it."""
    leftovers: tuple[Leftover, ...] = ()
    share: DeviceShare = DeviceShare()
    warnings: tuple[DeviceWarning, ...] = ()

    @property
    def drained(self) -> bool:
        return self.state is SlotState.OFF and bool(self.taken_off)


class DevicesPicture(Struct, frozen=True, kw_only=True):
    """All devices of the machine."""

    kind: DeviceKind
    sample: Sample | None
    """The newest sample, or None if there is none yet."""
    devices: tuple[DevicePicture, ...] = ()
    pids: Mapping[int, JobId] = {}
    """Pids of the processes of the session's jobs."""
    idle_since: Mapping[JobId, float] = {}
    """Jobs that hold memory but have been idle for a long time, each with the time since which it has been idle."""
    looking: bool = False
    """Whether a sampler is running, so that samples can be expected."""
    history: DeviceHistories = EMPTY

    @property
    def host(self) -> HostSample | None:
        return self.sample.host if self.sample is not None else None

    @property
    def cluster(self) -> ClusterSample | None:
        return self.sample.cluster if self.sample is not None else None

    def device(self, key: str) -> DevicePicture | None:
        return next((device for device in self.devices if device.sample.key == key), None)


def why_blocked(verdict: Verdict, now: float) -> str | None:
    """Describe why no job of the session is started on a device. Return None if jobs can be started on it."""
    match verdict:
        case Free():
            return None
        case HeldByExternalProcesses(by=by):
            process = by[0]
            who = printable(process.user) if process.user else "another user"
            more = f" and {len(by) - 1} more" if len(by) > 1 else ""
            since = duration_words(now - process.since)
            return f"used by {who} (pid {process.pid}, {memory(process.memory)}, {since}){more}"
        case Resting(until=until, after=after):
            who = printable(after.user or f"pid {after.pid}")
            return f"just left by {who}, free in {duration_words(until - now)}"
        case Unusable(why=why):
            return f"unavailable: {why}"


def printable(text: str) -> str:
    """Replace control characters, because the name of a process can contain any characters."""
    return "".join(char if char.isprintable() else "�" for char in text)
