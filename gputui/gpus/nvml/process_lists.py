"""Who is on a device: the driver's process lists, read with layouts of our own.

Owns what went wrong with these calls over the years: versions, the size of an entry, entries that are garbage.
The bindings ask twice, once for the size; a buffer that is kept makes it one call.
"""

from __future__ import annotations

from ctypes import Structure, addressof, byref, c_uint, c_ulonglong, string_at
from struct import Struct as Layout
from typing import Any

from msgspec import Struct

from . import troubles
from .driver import Driver, Handle

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
