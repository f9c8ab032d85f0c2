"""Determine which devices other processes use and when they become free.

Pure functions and classes: they take samples and the time, and return verdicts.

An external process is a live process that the driver lists as computing and that does not belong to this session.
`ours_in` finds the session's own processes.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping

from msgspec import Struct, field

from gputui.core.job import JobId

from .sample import DeviceSample, ProcessSample, Sample, Status


class Rules(Struct, frozen=True, kw_only=True):
    """Rules: which processes count as external, and how long a device stays blocked after they have left it."""

    smallest: int = 256 * 1024**2
    rest: float = 5.0
    long_hold: float = 300.0
    long_rest: float = 60.0
    ignored: frozenset[str] = frozenset()
    """User names, program names and pids of processes that do not count as external."""
    ignore_all: bool = False


class Ours(Struct, frozen=True):
    """The session's processes, and the devices that run its jobs, at the time of a sample."""

    pids: Mapping[int, JobId] = {}
    busy: frozenset[str] = frozenset()
    """Keys of the devices that run one of the session's jobs."""


class ExternalProcess(Struct, frozen=True):
    """A process that keeps the session from using a device."""

    pid: int
    user: str | None
    command: str | None
    memory: int | None
    since: float


class Free(Struct, frozen=True, tag="free"):
    """No external process uses the device."""


class HeldByExternalProcesses(Struct, frozen=True, tag="held"):
    """External processes use the device. They are listed by memory, largest first."""

    by: tuple[ExternalProcess, ...]
    since: float


class Resting(Struct, frozen=True, tag="resting"):
    """The external processes have left the device. It becomes free at `until` unless one of them comes back."""

    until: float
    after: ExternalProcess


class Unusable(Struct, frozen=True, tag="unusable"):
    """The device does not answer, or answers with an error."""

    why: str


Verdict = Free | HeldByExternalProcesses | Resting | Unusable

_Identity = tuple[int, int | None]


class _Device(Struct):
    """The state of one device between samples."""

    external_processes: dict[_Identity, ExternalProcess] = field(default_factory=dict)
    held_since: float | None = None
    rests_until: float | None = None
    last: ExternalProcess | None = None
    looked: bool = False


class ExternalProcesses:
    """Determines the verdict for each device from one sample after another."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self._devices: dict[str, _Device] = {}
        self._once_ours: set[_Identity] = set()

    def observe(self, sample: Sample, ours: Ours, now: float) -> dict[str, Verdict]:
        """Return the verdict for each device key. `now` is Unix time, like the start times of processes."""
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
        before = state.external_processes
        state.external_processes = {
            _identity(process): ExternalProcess(
                process.pid, process.user, process.command, process.memory, _since(process, state, before, now)
            )
            for process in device.processes
            if self._is_external_process(process, device, sample)
        }
        state.looked = True
        return self._hold(state) if state.external_processes else self._release(state, before, now)

    def _hold(self, state: _Device) -> HeldByExternalProcesses:
        by = tuple(sorted(state.external_processes.values(), key=lambda process: -(process.memory or 0)))
        first = min(process.since for process in by)
        state.held_since = first if state.held_since is None else min(state.held_since, first)
        state.rests_until, state.last = None, by[0]
        return HeldByExternalProcesses(by, state.held_since)

    def _release(self, state: _Device, before: dict[_Identity, ExternalProcess], now: float) -> Free | Resting:
        if before and state.held_since is not None:
            held_for = now - state.held_since
            rest = self.rules.long_rest if held_for >= self.rules.long_hold else self.rules.rest
            state.rests_until = now + rest
        if state.rests_until is None or state.last is None or now >= state.rests_until:
            state.held_since = state.rests_until = state.last = None
            return Free()
        return Resting(state.rests_until, state.last)

    def _is_external_process(self, process: ProcessSample, device: DeviceSample, sample: Sample) -> bool:
        if self.rules.ignore_all or not process.compute or self._is_ignored(process):
            return False
        if not (process.alive or sample.foreign_pids) or _identity(process) in self._once_ours:
            return False
        # If the driver does not report the memory of the process, the memory use of the whole device decides.
        size = process.memory if process.memory is not None else device.memory_used
        return size is None or size >= self.rules.smallest

    def _is_ignored(self, process: ProcessSample) -> bool:
        program = os.path.basename((process.command or "").partition(" ")[0])
        return not self.rules.ignored.isdisjoint({process.user or "", program, str(process.pid)} - {""})

    def _remember_ours(self, sample: Sample, ours: Ours) -> None:
        """Remember the session's processes. While listed, they never count as external, even after their job's end."""
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


def _since(process: ProcessSample, state: _Device, before: dict[_Identity, ExternalProcess], now: float) -> float:
    """Return since when a process has used the device. In the first sample, this is the start time of the process."""
    earlier = before.get(_identity(process))
    if earlier is not None:
        return earlier.since
    return now if state.looked or process.started is None else min(now, process.started)


def ours_in(sample: Sample, runs: Mapping[str, JobId], wrappers: Mapping[int, JobId]) -> dict[int, JobId]:
    """Return the session's processes in a sample. They have a job's token or are in its wrapper's kernel session."""
    own_pids = {}
    for process in (process for device in sample.devices for process in device.processes):
        job = runs.get(process.run) if process.run is not None else None
        if job is None and process.session is not None:
            job = wrappers.get(process.session)
        if job is not None:
            own_pids[process.pid] = job
    return own_pids
