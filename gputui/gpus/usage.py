"""What attempts make of their devices: means, peaks, GPU-seconds, and idling. Pure: samples and the time in."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from gputui.core.job import JobId

from .sample import DeviceSample, Sample, Status

IDLE_UTILIZATION = 1
"""Percent up to which a device counts as doing nothing."""
BUSY_UTILIZATION = 2
"""Percent from which on a device's work is a sign of life."""
HOLDING_MEMORY = 256 * 1024**2
_LONGEST_GAP = 10.0
"""Seconds between two samples that still count as seen; a sampler that was away saw nothing."""


class DeviceHolding(Struct, frozen=True):
    """An attempt under way, and the keys of the devices it was given."""

    job: JobId
    attempt: int
    devices: tuple[str, ...]
    since: float = 0.0
    """When it was given them."""


class MeasuredUsage(Struct, frozen=True):
    """Of one attempt so far; stored at its end, or given to the next owner."""

    gpu_seconds: float = 0.0
    """Devices held, times seconds."""
    measured_seconds: float = 0.0
    """The part of them in which the driver told the utilization."""
    busy_seconds: float = 0.0
    """The part of those in which the devices worked."""
    peak_utilization: int | None = None
    peak_memory: int | None = None
    """Bytes, over all its devices at one moment."""
    peak_memory_each: int | None = None
    """On the one of its devices where it was most."""
    busy_at: float | None = None
    """When the driver last told of work on one of its devices."""
    measured_since: float | None = None
    """From when on the driver told the utilization without a gap."""
    measured_at: float | None = None
    idle_since: float | None = None
    """Since when it holds memory and does nothing."""

    @property
    def mean_utilization(self) -> float | None:
        return 100 * self.busy_seconds / self.measured_seconds if self.measured_seconds else None

    def idle_for(self, now: float) -> float:
        """Seconds; 0 for an attempt that works."""
        return 0.0 if self.idle_since is None else max(0.0, now - self.idle_since)


class UsageMeter:
    """Adds up what the samples show. `now` is one clock throughout; Unix time if usages outlive the process."""

    def __init__(self, earlier: Mapping[tuple[JobId, int], MeasuredUsage] | None = None) -> None:
        self._usages = dict(earlier or {})
        self._seen_at: float | None = None

    def observe(self, sample: Sample, holdings: list[DeviceHolding], pids: Mapping[int, JobId], now: float) -> None:
        """`pids` tells our processes in the sample, as for strangers."""
        seconds = 0.0 if self._seen_at is None else min(max(0.0, now - self._seen_at), _LONGEST_GAP)
        self._seen_at = now
        shared = _shared_devices(holdings)
        for holding in holdings:
            look = _look(sample, holding, pids, shared)
            before = self._usages.get((holding.job, holding.attempt), MeasuredUsage())
            its_part = min(seconds, max(0.0, now - holding.since))
            self._usages[holding.job, holding.attempt] = _added(before, look, len(holding.devices), its_part, now)

    def usage(self, job: JobId, attempt: int) -> MeasuredUsage:
        return self._usages.get((job, attempt), MeasuredUsage())

    def end(self, job: JobId, attempt: int) -> MeasuredUsage:
        """The last word on an attempt; it is forgotten here."""
        return self._usages.pop((job, attempt), MeasuredUsage())


class _Look(Struct):
    """An attempt's devices in one sample."""

    utilizations: list[int] = field(default_factory=list)
    memory: int | None = None
    memory_each: int | None = None


def _look(sample: Sample, holding: DeviceHolding, pids: Mapping[int, JobId], shared: set[str]) -> _Look:
    look = _Look()
    for key in holding.devices:
        device = sample.device(key)
        if device is not None and device.status is Status.OK:
            alone = key not in shared
            utilization = _utilization(device, holding.job, pids, alone)
            if utilization is not None:
                look.utilizations.append(utilization)
            memory = _memory(device, holding.job, pids, alone)
            if memory is not None:
                look.memory = (look.memory or 0) + memory
                look.memory_each = max(look.memory_each or 0, memory)
    return look


def _utilization(device: DeviceSample, job: JobId, pids: Mapping[int, JobId], alone: bool) -> int | None:
    """The whole device's, unless lanes share it."""
    if alone:
        return device.utilization
    mine = [p.utilization for p in device.processes if pids.get(p.pid) == job and p.utilization is not None]
    return min(100, sum(mine)) if mine else None


def _memory(device: DeviceSample, job: JobId, pids: Mapping[int, JobId], alone: bool) -> int | None:
    """By process where the driver tells, else what is used on a device of its own."""
    mine = [p.memory for p in device.processes if pids.get(p.pid) == job and p.memory is not None]
    if mine:
        return sum(mine)
    return device.memory_used if alone and not device.memory_shared else None


def _added(usage: MeasuredUsage, look: _Look, devices: int, seconds: float, now: float) -> MeasuredUsage:
    measured, peaks = len(look.utilizations), [usage.peak_utilization, *look.utilizations]
    return MeasuredUsage(
        gpu_seconds=usage.gpu_seconds + devices * seconds,
        measured_seconds=usage.measured_seconds + measured * seconds,
        busy_seconds=usage.busy_seconds + sum(look.utilizations) / 100 * seconds,
        peak_utilization=_highest(peaks),
        peak_memory=_highest([usage.peak_memory, look.memory]),
        peak_memory_each=_highest([usage.peak_memory_each, look.memory_each]),
        busy_at=now if any(each >= BUSY_UTILIZATION for each in look.utilizations) else usage.busy_at,
        measured_since=_measured_since(usage, now) if measured else usage.measured_since,
        measured_at=now if measured else usage.measured_at,
        idle_since=_idle_since(usage, look, now),
    )


def _measured_since(usage: MeasuredUsage, now: float) -> float:
    unbroken = usage.measured_at is not None and now - usage.measured_at <= _LONGEST_GAP
    return usage.measured_since if unbroken and usage.measured_since is not None else now


def _idle_since(usage: MeasuredUsage, look: _Look, now: float) -> float | None:
    """A look that shows nothing changes nothing: not knowing is neither idling nor working."""
    if not look.utilizations:
        return usage.idle_since
    holds = look.memory is not None and look.memory >= HOLDING_MEMORY
    if holds and max(look.utilizations) <= IDLE_UTILIZATION:
        return now if usage.idle_since is None else usage.idle_since
    return None


def _highest(values: list[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _shared_devices(holdings: list[DeviceHolding]) -> set[str]:
    held: set[str] = set()
    shared: set[str] = set()
    for key in (key for holding in holdings for key in holding.devices):
        (shared if key in held else held).add(key)
    return shared
