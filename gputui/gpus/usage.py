"""What attempts use: means, peaks, GPU-seconds, idle times and series, computed from samples and the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from gputui.core.amounts import GIB
from gputui.core.job import JobId
from gputui.core.results import Curve, Point

from .sample import DeviceSample, Sample, Status

IDLE_UTILIZATION = 1
"""Maximum utilization in percent at which a device counts as idle."""
BUSY_UTILIZATION = 2
"""Minimum utilization in percent at which a device counts as working, so that its job is not considered hung."""
HOLDING_MEMORY = 256 * 1024**2
_LONGEST_GAP = 10.0
"""Maximum seconds that are counted between two samples. A longer time without a known utilization is a gap."""


class DeviceHolding(Struct, frozen=True):
    """A running attempt and the keys of the devices that it holds."""

    job: JobId
    attempt: int
    devices: tuple[str, ...]
    since: float = 0.0
    """Time when the attempt got its devices."""


class MeasuredUsage(Struct, frozen=True):
    """The usage of one attempt so far. It is stored when the attempt ends, or passed on to the next owner."""

    gpu_seconds: float = 0.0
    """Number of devices that the attempt held, multiplied by the seconds."""
    measured_seconds: float = 0.0
    """The part of `gpu_seconds` for which the utilization is known."""
    busy_seconds: float = 0.0
    """`measured_seconds` multiplied by the utilization."""
    peak_memory: int | None = None
    """Peak memory in bytes on all devices of the attempt together."""
    peak_memory_each: int | None = None
    """Peak memory in bytes on a single device."""
    busy_at: float | None = None
    """Time when one of the devices last worked."""
    measured_since: float | None = None
    """Time since which the utilization has been known without a gap."""
    measured_at: float | None = None
    idle_since: float | None = None
    """Time since which the attempt has held memory without working."""
    energy: float = 0.0
    """Energy in joules that the attempt's devices used. Attempts on the same device get equal shares of its energy."""
    energy_seconds: float = 0.0
    """The part of `gpu_seconds` for which the energy is known."""
    is_energy_estimated: bool = False
    """Whether a part of the energy was calculated from power samples, because a device does not count its energy."""

    @property
    def mean_utilization(self) -> float | None:
        return 100 * self.busy_seconds / self.measured_seconds if self.measured_seconds else None

    def idle_for(self, now: float) -> float:
        """Return how many seconds the attempt has been idle."""
        return 0.0 if self.idle_since is None else max(0.0, now - self.idle_since)


# Series over the time of an attempt


GPU_LOAD, GPU_MEMORY, POWER, CPU, RAM = "GPU load %", "GPU memory G", "power W", "CPU %", "RAM G"
FIGURES = (GPU_LOAD, GPU_MEMORY, POWER, CPU, RAM)
"""The names of the series. A metric never has a blank in its name."""
FIRST_SECONDS = 2.0
MOST_BUCKETS = 240


class UsageSeries(Struct):
    """The figures of an attempt over time, in a limited number of buckets of equal length.

    When all buckets are full, their length is doubled.
    """

    since: float
    """Unix time when the attempt started."""
    seconds: float = FIRST_SECONDS
    """Length of a bucket."""
    series: list[list[float | None]] = field(default_factory=lambda: [[] for _ in FIGURES])
    """For each of `FIGURES`, the mean of each bucket, or None if nothing was measured in the bucket."""
    count: int = 0
    """Number of samples in the newest bucket."""

    def add(self, at: float, figures: Sequence[float | None]) -> None:
        bucket = int((at - self.since) // self.seconds)
        if bucket < 0:  # the clock was set back
            return
        while bucket >= MOST_BUCKETS:
            self.series = [list(_halved(values)) for values in self.series]
            self.seconds, self.count = 2 * self.seconds, 1
            bucket //= 2
        self.count = self.count + 1 if len(self.series[0]) == bucket + 1 else 1
        for values, figure in zip(self.series, figures, strict=True):
            values += [None] * (bucket + 1 - len(values))
            mean = values[bucket]
            if figure is not None:
                values[bucket] = round(figure if mean is None else mean + (figure - mean) / self.count, 2)

    def curves(self) -> tuple[Curve, ...]:
        """Return the figures that were measured as curves over time."""
        times = [self.since + (number + 0.5) * self.seconds for number in range(len(self.series[0]))]
        curves = (
            Curve(name, tuple(Point(None, at, value) for at, value in zip(times, values, strict=True)
                              if value is not None))
            for name, values in zip(FIGURES, self.series, strict=True)
        )  # fmt: skip
        return tuple(curve for curve in curves if curve.points)


def _halved(values: Sequence[float | None]) -> Iterator[float | None]:
    for start in range(0, len(values), 2):
        known = [value for value in values[start : start + 2] if value is not None]
        yield round(sum(known) / len(known), 2) if known else None


# Means and sums


class UsageMeter:
    """Adds up usage from samples. All times must be from one clock: Unix time if the usages outlive the process."""

    def __init__(self, earlier: Mapping[tuple[JobId, int], MeasuredUsage] | None = None) -> None:
        self._usages = dict(earlier or {})
        self.newest: dict[tuple[JobId, int], tuple[float | None, float | None, float | None]] = {}
        """For each attempt, the load, memory and power of its devices in the newest sample, as in `FIGURES`."""
        self._seen_at: float | None = None
        self._counted: dict[str, float] = {}
        """The last energy in joules that each device reported."""

    def observe(self, sample: Sample, holdings: list[DeviceHolding], pids: Mapping[int, JobId], now: float) -> None:
        """Add a sample. `pids` are the pids in the sample that belong to the session."""
        elapsed = 0.0 if self._seen_at is None else max(0.0, now - self._seen_at)
        seconds = min(elapsed, _LONGEST_GAP)
        self._seen_at = now
        attempts_on = Counter(key for holding in holdings for key in set(holding.devices))
        shared = {key for key, attempts in attempts_on.items() if attempts > 1}
        energies = self._energies(sample, elapsed, seconds)
        self.newest = {}
        for holding in holdings:
            reading = _reading(sample, holding, pids, shared)
            before = self._usages.get((holding.job, holding.attempt), MeasuredUsage())
            self.newest[holding.job, holding.attempt] = reading.figures()
            its_part = min(seconds, max(0.0, now - holding.since))
            usage = _added(before, reading, len(holding.devices), its_part, now)
            for key in holding.devices:
                if (used := energies.get(key)) is not None:
                    its_seconds = min(used.seconds, max(0.0, now - holding.since))
                    usage = _with_energy(usage, used, its_seconds, attempts_on[key])
            self._usages[holding.job, holding.attempt] = usage

    def _energies(self, sample: Sample, elapsed: float, seconds: float) -> dict[str, _Energy]:
        """Return the energy that each device has used since the last sample."""
        energies = {}
        for device in sample.devices:
            if device.status is not Status.OK:
                continue
            if device.energy is not None:
                before = self._counted.get(device.key)
                self._counted[device.key] = device.energy
                if before is not None and device.energy >= before:
                    energies[device.key] = _Energy(device.energy - before, elapsed)
            elif device.power is not None:
                energies[device.key] = _Energy(device.power * seconds, seconds, is_estimated=True)
        return energies

    def usage(self, job: JobId, attempt: int) -> MeasuredUsage:
        return self._usages.get((job, attempt), MeasuredUsage())

    def end(self, job: JobId, attempt: int) -> MeasuredUsage:
        """Return the usage of an attempt that has ended, and forget the attempt."""
        return self._usages.pop((job, attempt), MeasuredUsage())


class _Energy(NamedTuple):
    """The energy that a device used in a number of seconds."""

    joules: float
    seconds: float
    is_estimated: bool = False


class _Reading(NamedTuple):
    """What one sample says about an attempt's devices. Each list has a value for each device that reports one."""

    utilizations: list[int]
    memory: list[int]
    power: list[float]

    def figures(self) -> tuple[float | None, float | None, float | None]:
        load = sum(self.utilizations) / len(self.utilizations) if self.utilizations else None
        memory = sum(self.memory) / GIB if self.memory else None
        return load, memory, sum(self.power) if self.power else None


def _reading(sample: Sample, holding: DeviceHolding, pids: Mapping[int, JobId], shared: set[str]) -> _Reading:
    found = ((key not in shared, sample.device(key)) for key in holding.devices)
    devices = [(alone, device) for alone, device in found if device is not None and device.status is Status.OK]
    utilizations = [_utilization(device, holding.job, pids, alone) for alone, device in devices]
    memory = [_memory(device, holding.job, pids, alone) for alone, device in devices]
    return _Reading(
        [each for each in utilizations if each is not None],
        [each for each in memory if each is not None],
        [device.power for alone, device in devices if alone and device.power is not None],
    )


def _utilization(device: DeviceSample, job: JobId, pids: Mapping[int, JobId], alone: bool) -> int | None:
    """Return the device's utilization, or that of the job's processes if other jobs use the device, too."""
    if alone:
        return device.utilization
    mine = [p.utilization for p in device.processes if pids.get(p.pid) == job and p.utilization is not None]
    return min(100, sum(mine)) if mine else None


def _memory(device: DeviceSample, job: JobId, pids: Mapping[int, JobId], alone: bool) -> int | None:
    """Return the memory of the job's processes.

    Return the memory of the whole device instead if the driver reports none per process, no other slot uses the device,
    and the device does not share the machine's memory.
    """
    mine = [p.memory for p in device.processes if pids.get(p.pid) == job and p.memory is not None]
    if mine:
        return sum(mine)
    return device.memory_used if alone and not device.memory_shared else None


def _added(usage: MeasuredUsage, reading: _Reading, devices: int, seconds: float, now: float) -> MeasuredUsage:
    measured = len(reading.utilizations)
    return replace(
        usage,
        gpu_seconds=usage.gpu_seconds + devices * seconds,
        measured_seconds=usage.measured_seconds + measured * seconds,
        busy_seconds=usage.busy_seconds + sum(reading.utilizations) / 100 * seconds,
        peak_memory=_highest(usage.peak_memory, [sum(reading.memory)] if reading.memory else []),
        peak_memory_each=_highest(usage.peak_memory_each, reading.memory),
        busy_at=now if any(each >= BUSY_UTILIZATION for each in reading.utilizations) else usage.busy_at,
        measured_since=_measured_since(usage, now) if measured else usage.measured_since,
        measured_at=now if measured else usage.measured_at,
        idle_since=_idle_since(usage, reading, now),
    )


def _measured_since(usage: MeasuredUsage, now: float) -> float:
    unbroken = usage.measured_at is not None and now - usage.measured_at <= _LONGEST_GAP
    return usage.measured_since if unbroken and usage.measured_since is not None else now


def _idle_since(usage: MeasuredUsage, reading: _Reading, now: float) -> float | None:
    """Return since when the attempt has been idle, or None. A reading without utilizations does not change this."""
    if not reading.utilizations:
        return usage.idle_since
    if sum(reading.memory) >= HOLDING_MEMORY and max(reading.utilizations) <= IDLE_UTILIZATION:
        return now if usage.idle_since is None else usage.idle_since
    return None


def _highest(before: int | None, now: list[int]) -> int | None:
    return max(now if before is None else [before, *now], default=None)


def _with_energy(usage: MeasuredUsage, used: _Energy, seconds: float, attempts: int) -> MeasuredUsage:
    """Add an attempt's part of a device's energy during `seconds`. All `attempts` on the device get equal parts."""
    if not used.seconds:
        return usage
    return replace(
        usage,
        energy=usage.energy + used.joules * seconds / used.seconds / attempts,
        energy_seconds=usage.energy_seconds + seconds,
        is_energy_estimated=usage.is_energy_estimated or used.is_estimated,
    )
