"""Who else is on a device, and when it is free again. Pure: samples and the time in, verdicts out.

A stranger is a live process in a compute list that is not this session's. Telling ours from theirs is the caller's
part (`ours_in` helps); the clock, the driver and the leases of other gputui users are not known here.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping

from msgspec import Struct, field

from gputui.core.job import JobId

from .sample import DeviceSample, ProcessSample, Sample, Status


class Rules(Struct, frozen=True, kw_only=True):
    """When a process counts, and how long a device rests after it."""

    smallest: int = 256 * 1024**2
    rest: float = 5.0
    long_hold: float = 300.0
    long_rest: float = 60.0
    ignored: frozenset[str] = frozenset()
    """Users, program names or pids that never count."""
    ignore_all: bool = False


class Ours(Struct, frozen=True):
    """What is this session's, as the caller knows it at the moment of a sample."""

    pids: Mapping[int, JobId] = {}
    busy: frozenset[str] = frozenset()
    """Keys of the devices that run a job of ours."""


class Stranger(Struct, frozen=True):
    """A process that keeps us off a device."""

    pid: int
    user: str | None
    command: str | None
    memory: int | None
    since: float


class Free(Struct, frozen=True, tag="free"):
    """Nobody else is on it."""


class HeldByStrangers(Struct, frozen=True, tag="held"):
    """Strangers are on it, the largest first."""

    by: tuple[Stranger, ...]
    since: float


class Resting(Struct, frozen=True, tag="resting"):
    """Its stranger has left; ours may have it at `until`, should nobody come back."""

    until: float
    after: Stranger


class Unusable(Struct, frozen=True, tag="unusable"):
    """It does not answer as a device should."""

    why: str


Verdict = Free | HeldByStrangers | Resting | Unusable

_Identity = tuple[int, int | None]


class _Device(Struct):
    """What is remembered of one device between samples."""

    strangers: dict[_Identity, Stranger] = field(default_factory=dict)
    held_since: float | None = None
    rests_until: float | None = None
    last: Stranger | None = None
    looked: bool = False


class Strangers:
    """Feed it every sample; it remembers what the rules need, and nothing of devices that are gone."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self._devices: dict[str, _Device] = {}
        self._once_ours: set[_Identity] = set()

    def observe(self, sample: Sample, ours: Ours, now: float) -> dict[str, Verdict]:
        """Verdicts by device key. `now` is Unix time, like the start of processes."""
        self._remember_ours(sample, ours)
        before, self._devices = self._devices, {}
        return {
            device.key: self._judge(device, before.get(device.key) or _Device(), sample, now)
            for device in sample.devices
        }

    def _judge(self, device: DeviceSample, state: _Device, sample: Sample, now: float) -> Verdict:
        self._devices[device.key] = state
        if device.status is not Status.OK:
            return Unusable(device.message or device.status.value)
        before = state.strangers
        state.strangers = {
            _identity(process): _stranger(process, _since(process, state, before, now))
            for process in device.processes
            if self._is_stranger(process, device, sample)
        }
        state.looked = True
        return self._hold(state) if state.strangers else self._release(state, before, now)

    def _hold(self, state: _Device) -> HeldByStrangers:
        by = tuple(sorted(state.strangers.values(), key=lambda stranger: -(stranger.memory or 0)))
        first = min(stranger.since for stranger in by)
        state.held_since = first if state.held_since is None else min(state.held_since, first)
        state.rests_until, state.last = None, by[0]
        return HeldByStrangers(by, state.held_since)

    def _release(self, state: _Device, before: dict[_Identity, Stranger], now: float) -> Free | Resting:
        if before and state.held_since is not None:
            held_for = now - state.held_since
            rest = self.rules.long_rest if held_for >= self.rules.long_hold else self.rules.rest
            state.rests_until = now + rest
        if state.rests_until is None or state.last is None or now >= state.rests_until:
            state.held_since = state.rests_until = state.last = None
            return Free()
        return Resting(state.rests_until, state.last)

    def _is_stranger(self, process: ProcessSample, device: DeviceSample, sample: Sample) -> bool:
        if self.rules.ignore_all or not process.compute or self._is_ignored(process):
            return False
        if not (process.alive or sample.foreign_pids) or _identity(process) in self._once_ours:
            return False
        return self._is_large(process, device)

    def _is_large(self, process: ProcessSample, device: DeviceSample) -> bool:
        """Where the driver tells no size, the whole device's use decides."""
        size = process.memory if process.memory is not None else device.memory_used
        return size is None or size >= self.rules.smallest

    def _is_ignored(self, process: ProcessSample) -> bool:
        program = os.path.basename((process.command or "").partition(" ")[0])
        return not self.rules.ignored.isdisjoint({process.user or "", program, str(process.pid)} - {""})

    def _remember_ours(self, sample: Sample, ours: Ours) -> None:
        """A process once ours stays ours until the driver lists it no more, also after its job has ended."""
        listed = set()
        for device in sample.devices:
            all_ours = sample.foreign_pids and device.key in ours.busy
            for process in device.processes:
                listed.add(_identity(process))
                if all_ours or (process.pid in ours.pids and not sample.foreign_pids):
                    self._once_ours.add(_identity(process))
        if all(device.status is Status.OK for device in sample.devices):
            self._once_ours &= listed


def _identity(process: ProcessSample) -> _Identity:
    return process.pid, process.born


def _since(process: ProcessSample, state: _Device, before: dict[_Identity, Stranger], now: float) -> float:
    """Who was there when we first looked has been there for as long as it lives, for all we know."""
    earlier = before.get(_identity(process))
    if earlier is not None:
        return earlier.since
    return now if state.looked or process.started is None else min(now, process.started)


def _stranger(process: ProcessSample, since: float) -> Stranger:
    return Stranger(process.pid, process.user, process.command, process.memory, since)


def ours_in(sample: Sample, runs: Mapping[str, JobId], wrappers: Mapping[int, JobId]) -> dict[int, JobId]:
    """Our processes in a sample, by their run token or by the wrapper that leads their kernel session."""
    own_pids = {}
    for process in (process for device in sample.devices for process in device.processes):
        job = runs.get(process.run) if process.run is not None else None
        if job is None and process.session is not None:
            job = wrappers.get(process.session)
        if job is not None:
            own_pids[process.pid] = job
    return own_pids
