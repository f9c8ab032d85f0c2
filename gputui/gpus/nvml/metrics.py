"""Queries to one device handle: figures and processes, each answered or None."""

from __future__ import annotations

import time
from collections.abc import Callable
from ctypes import Structure, addressof, byref, c_uint, c_ulonglong, string_at
from struct import Struct as Layout
from typing import Any, TypeVar

from msgspec import Struct

from gputui.gpus.machine import memory as host_memory
from gputui.gpus.process_facts import ProcessTable
from gputui.gpus.sample import ProcessSample, Slowdown

from . import driver as troubles
from .driver import Driver, DriverError, Handle

# ---- Who is on a device ----


_NOT_AVAILABLE = 2**64 - 1
_NO_PIDS = frozenset({0, 2**32 - 1})
_ENTRIES = 64
_UTILIZATION_ENTRIES = 128

_LAYOUTS = {1: Layout("=I4xQ"), 2: Layout("=I4xQII"), 3: Layout("=I4xQII"), "3 of 535.54": Layout("=I4xQIIQ")}
_COMPUTE, _GRAPHICS, _MPS = "Compute", "Graphics", "MPSCompute"


class Entry(Struct, frozen=True):
    """One line of a driver's list."""

    pid: int
    memory: int | None
    compute: bool


class _UtilizationSample(Structure):
    _fields_ = (
        ("pid", c_uint),
        ("timeStamp", c_ulonglong),
        ("smUtil", c_uint),
        ("memUtil", c_uint),
        ("encUtil", c_uint),
        ("decUtil", c_uint),
    )


class ProcessLists:
    """The lists of one handle; keeps its buffers, so it belongs to one thread."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._calls = {kind: _newest(driver, kind) for kind in (_COMPUTE, _GRAPHICS, _MPS)}
        self._buffer = (c_ulonglong * (_ENTRIES * 4))()
        self._samples = (_UtilizationSample * _UTILIZATION_ENTRIES)()

    def compute(self, handle: Handle) -> list[Entry]:
        return self._list(_COMPUTE, handle, compute=True)

    def mps(self, handle: Handle) -> list[Entry]:
        """Clients of NVIDIA's multi-process service: they compute, but have a list of their own."""
        return self._list(_MPS, handle, compute=True)

    def graphics(self, handle: Handle) -> list[Entry]:
        return self._list(_GRAPHICS, handle, compute=False)

    def utilization(self, handle: Handle, since: int) -> dict[int, int]:
        """Percent by pid since a Unix time in microseconds; who is missing did nothing."""
        count = c_uint(_UTILIZATION_ENTRIES)
        function = self._driver.symbol("nvmlDeviceGetProcessUtilization")
        code = function(handle, self._samples, byref(count), c_ulonglong(since))
        if code == troubles.NOT_FOUND:
            return {}
        self._driver.check(code)
        entries = self._samples[: min(count.value, _UTILIZATION_ENTRIES)]
        return {e.pid: e.smUtil for e in entries if _is_sane(e, since)}

    def _list(self, kind: str, handle: Handle, *, compute: bool) -> list[Entry]:
        function, layout = self._calls[kind]
        count = c_uint(len(self._buffer) * 8 // layout.size)
        code = function(handle, byref(count), self._buffer)
        if code == troubles.INSUFFICIENT_SIZE:
            self._buffer = (c_ulonglong * ((count.value * 2 + _ENTRIES) * 4))()
            count = c_uint(len(self._buffer) * 8 // layout.size)
            code = function(handle, byref(count), self._buffer)
        self._driver.check(code)
        return self._entries(layout, count.value, compute)

    def _entries(self, layout: Layout, count: int, compute: bool) -> list[Entry]:
        if not count:
            return []
        lines = layout.iter_unpack(string_at(addressof(self._buffer), count * layout.size))
        return [
            Entry(pid, None if memory == _NOT_AVAILABLE else memory, compute)
            for pid, memory, *_ in lines
            if pid not in _NO_PIDS
        ]


def _newest(driver: Driver, kind: str) -> tuple[Any, Layout]:
    base = f"nvmlDeviceGet{kind}RunningProcesses"
    for version, suffix in ((3, "_v3"), (2, "_v2"), (1, "")):
        if driver.has(base + suffix):
            wide = version == 3 and _has_wide_entries(driver)
            return driver.symbol(base + suffix), _LAYOUTS["3 of 535.54" if wide else version]
    return _absent, _LAYOUTS[1]


def _has_wide_entries(driver: Driver) -> bool:
    """Drivers of 535.54 to 535.86 wrote 32 bytes per process, those before and after them 24."""
    return driver.has("nvmlDeviceGetConfComputeMemSizeInfo") and not driver.has("nvmlDeviceGetRunningProcessDetailList")


def _absent(*_: Any) -> int:
    return troubles.FUNCTION_NOT_FOUND


def _is_sane(entry: Any, since: int) -> bool:
    """The driver also hands out rests of other processes, with any number for a percentage."""
    return entry.pid not in _NO_PIDS and entry.smUtil <= 100 and entry.timeStamp > since


def merged(lists: list[list[Entry]]) -> list[Entry]:
    """One entry per pid: who is in several lists computes if any of them says so."""
    by_pid: dict[int, Entry] = {}
    for entry in (entry for entries in lists for entry in entries):
        earlier = by_pid.get(entry.pid)
        if earlier is None:
            by_pid[entry.pid] = entry
        else:
            sizes = [size for size in (earlier.memory, entry.memory) if size is not None]
            by_pid[entry.pid] = Entry(entry.pid, max(sizes, default=None), earlier.compute or entry.compute)
    return list(by_pid.values())


# ---- Questions to one handle, each answered or None ----


T = TypeVar("T")

_MILLI = 1000
_CLOCK_OF_PROCESSORS = 1
_SINCE_LOADED = 0
ECC_CORRECTED, ECC_UNCORRECTED = 0, 1
_SLOWDOWNS = {Slowdown.HEAT: 0x20 | 0x40, Slowdown.POWER_CAP: 0x4, Slowdown.BRAKE: 0x80}
"""The driver's bits; that of the hardware at large (0x8) comes with one of them or tells nothing."""
_SHORTEST_WINDOW = 1_000_000
"""Microseconds; with less the driver loses what processes did."""


class MemoryAnswer(Struct, frozen=True):
    used: int | None = None
    total: int | None = None
    shared: bool = False


class Metrics:
    """Asks one handle. What the driver can never answer is not asked again until `ask_all_again`."""

    def __init__(self, driver: Driver, handle: Handle, lists: ProcessLists, table: ProcessTable) -> None:
        self._driver, self._handle = driver, handle
        self._lists, self._table = lists, table
        self._mute: set[str] = set()
        self.refusal: DriverError | None = None
        """The newest refusal that was not just "not supported"."""

    def ask_all_again(self) -> None:
        self._mute.clear()

    def ask(self, what: str, question: Callable[[], T]) -> T | None:
        """None where there is no answer; raises only when the device itself is gone."""
        if what in self._mute:
            return None
        try:
            return question()
        except DriverError as error:
            if error.code in troubles.DEVICE_GONE:
                raise
            if error.code in troubles.UNANSWERABLE:
                self._mute.add(what)
            elif error.code != troubles.NO_DATA:
                self.refusal = error
            return None

    def number(self, function: str) -> int | None:
        answer = self.ask(function, lambda: self._driver.call(function, self._handle))
        return None if answer is None else int(answer)

    def utilization(self) -> int | None:
        rates = self.ask("utilization", lambda: self._driver.call("nvmlDeviceGetUtilizationRates", self._handle))
        return None if rates is None else _within(int(rates.gpu), 0, 100)

    def temperature(self) -> int | None:
        degrees = self.ask("temperature", lambda: self._driver.temperature(self._handle))
        return None if degrees is None else _within(degrees, -50, 200)

    def power(self) -> float | None:
        milliwatts = self.number("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else _watts(milliwatts)

    def power_limit(self) -> float | None:
        milliwatts = self.number("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else _watts(milliwatts)

    def fan(self) -> int | None:
        """May be above 100: a fan can turn faster than its nominal speed."""
        percent = self.number("nvmlDeviceGetFanSpeed")
        return None if percent is None else _within(percent, 0, 300)

    def clock(self) -> int | None:
        return self._megahertz("nvmlDeviceGetClockInfo")

    def clock_limit(self) -> int | None:
        return self._megahertz("nvmlDeviceGetMaxClockInfo")

    def _megahertz(self, function: str) -> int | None:
        answer = self.ask(function, lambda: self._driver.call(function, self._handle, _CLOCK_OF_PROCESSORS))
        return None if answer is None else _within(int(answer), 1, 100_000)

    def slowed_by(self) -> tuple[Slowdown, ...]:
        """By the name that drivers of today have for the call, or that older ones had."""
        newer = "nvmlDeviceGetCurrentClocksEventReasons"
        function = newer if self._driver.has(newer) else "nvmlDeviceGetCurrentClocksThrottleReasons"
        bits = self.ask("slowdown", lambda: self._driver.reasons(function, self._handle)) or 0
        return tuple(reason for reason, mask in _SLOWDOWNS.items() if bits & mask)

    def ecc_errors(self, kind: int) -> int | None:
        """None where the memory has no such correction, or it is off."""
        function = "nvmlDeviceGetTotalEccErrors"
        count = self.ask(f"ecc {kind}", lambda: self._driver.call(function, self._handle, kind, _SINCE_LOADED))
        return None if count is None else _within(int(count), 0, 2**48)

    def pcie_replays(self) -> int | None:
        count = self.number("nvmlDeviceGetPcieReplayCounter")
        return None if count is None else _within(count, 0, 2**31)

    def memory(self) -> MemoryAnswer:
        """A chip that shares the machine's memory has none of its own to report."""
        answer = self.ask("memory", lambda: self._driver.memory(self._handle))
        if answer is not None and answer[1] > 0:
            return MemoryAnswer(*answer)
        if answer is not None or "memory" in self._mute:
            host = host_memory()
            return MemoryAnswer(host.used, host.total, shared=True)
        return MemoryAnswer()

    def processes(self, *, with_utilization: bool) -> tuple[ProcessSample, ...]:
        lists, handle = self._lists, self._handle
        entries = merged(
            [
                self.ask("compute", lambda: lists.compute(handle)) or [],
                self.ask("mps", lambda: lists.mps(handle)) or [],
                self.ask("graphics", lambda: lists.graphics(handle)) or [],
            ]
        )
        shares = self._shares() if entries and with_utilization else None
        return tuple(self._process(entry, shares) for entry in sorted(entries, key=lambda entry: entry.pid))

    def _shares(self) -> dict[int, int] | None:
        since = int(time.time() * 1e6) - _SHORTEST_WINDOW
        return self.ask("process utilization", lambda: self._lists.utilization(self._handle, since))

    def _process(self, entry: Entry, shares: dict[int, int] | None) -> ProcessSample:
        facts = self._table.facts(entry.pid)
        return ProcessSample(
            pid=entry.pid,
            compute=entry.compute,
            memory=entry.memory,
            utilization=None if shares is None else shares.get(entry.pid, 0),
            alive=facts.alive,
            born=facts.born,
            started=facts.started,
            user=facts.user,
            command=facts.command,
            session=facts.session,
            run=facts.run,
            host_memory=facts.host_memory,
        )


def _within(value: int, low: int, high: int) -> int | None:
    return value if low <= value <= high else None


def _watts(milliwatts: int) -> float | None:
    watts = milliwatts / _MILLI
    return watts if watts < 100_000 else None
