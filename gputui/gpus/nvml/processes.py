"""The processes on a device, from the driver's lists and the kernel's information about each process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from ctypes import Structure, addressof, byref, c_uint, c_ulonglong, string_at
from functools import partial
from struct import Struct as Layout
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gputui.gpus.sample import ProcessSample
from gputui.process.processes import TICKS, TOKEN_VARIABLE, parse_stat, read_bytes, user_name
from gputui.process.watch import WorkerThread

from . import driver as troubles
from .driver import Driver, Handle

# The driver's lists


_NOT_AVAILABLE = 2**64 - 1
_NO_PIDS = frozenset({0, 2**32 - 1})
_ENTRIES = 64
_UTILIZATION_ENTRIES = 128

_LAYOUTS = {1: Layout("=I4xQ"), 2: Layout("=I4xQII"), 3: Layout("=I4xQII"), "3 of 535.54": Layout("=I4xQIIQ")}
_KINDS = {"Compute": True, "MPSCompute": True, "Graphics": False}
"""The driver's process lists, and whether each lists computing processes. MPS is the multi-process service."""


class Entry(Struct, frozen=True):
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
    """Reads the process lists of one device handle. Not thread-safe because it reuses its buffers."""

    KINDS = tuple(_KINDS)

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._calls = {kind: _newest(driver, kind) for kind in _KINDS}
        self._buffer = (c_ulonglong * (_ENTRIES * 4))()
        self._samples = (_UtilizationSample * _UTILIZATION_ENTRIES)()

    def utilization(self, handle: Handle, since: int) -> dict[int, int]:
        """Return the utilization in percent by pid, since a Unix time in microseconds. Idle processes are omitted."""
        count = c_uint(_UTILIZATION_ENTRIES)
        function = self._driver.symbol("nvmlDeviceGetProcessUtilization")
        code = function(handle, self._samples, byref(count), c_ulonglong(since))
        if code == troubles.NOT_FOUND:
            return {}
        self._driver.check(code)
        entries = self._samples[: min(count.value, _UTILIZATION_ENTRIES)]
        # The driver also returns stale entries of other processes, with random percentages.
        return {e.pid: e.smUtil for e in entries if e.pid not in _NO_PIDS and e.smUtil <= 100 and e.timeStamp > since}

    def entries(self, kind: str, handle: Handle) -> list[Entry]:
        function, layout = self._calls[kind]
        count = c_uint(len(self._buffer) * 8 // layout.size)
        code = function(handle, byref(count), self._buffer)
        if code == troubles.INSUFFICIENT_SIZE:
            self._buffer = (c_ulonglong * ((count.value * 2 + _ENTRIES) * 4))()
            count = c_uint(len(self._buffer) * 8 // layout.size)
            code = function(handle, byref(count), self._buffer)
        self._driver.check(code)
        lines = layout.iter_unpack(string_at(addressof(self._buffer), count.value * layout.size))
        return [
            Entry(pid, None if memory == _NOT_AVAILABLE else memory, _KINDS[kind])
            for pid, memory, *_ in lines
            if pid not in _NO_PIDS
        ]


def _newest(driver: Driver, kind: str) -> tuple[Any, Layout]:
    base = f"nvmlDeviceGet{kind}RunningProcesses"
    for version, suffix in ((3, "_v3"), (2, "_v2"), (1, "")):
        if driver.has(base + suffix):
            wide = version == 3 and _has_wide_entries(driver)
            return driver.symbol(base + suffix), _LAYOUTS["3 of 535.54" if wide else version]
    return lambda *_: troubles.FUNCTION_NOT_FOUND, _LAYOUTS[1]


def _has_wide_entries(driver: Driver) -> bool:
    """Return whether the driver writes 32 instead of 24 bytes per process, as versions 535.54 to 535.86 do."""
    return driver.has("nvmlDeviceGetConfComputeMemSizeInfo") and not driver.has("nvmlDeviceGetRunningProcessDetailList")


def merged(entries: list[Entry]) -> list[Entry]:
    """Merge entries with the same pid, and sort by pid. A process counts as computing if any list says so."""
    by_pid: dict[int, Entry] = {}
    for entry in entries:
        earlier = by_pid.get(entry.pid, entry)
        sizes = [size for size in (earlier.memory, entry.memory) if size is not None]
        by_pid[entry.pid] = Entry(entry.pid, max(sizes, default=None), earlier.compute or entry.compute)
    return [by_pid[pid] for pid in sorted(by_pid)]


# The kernel's facts about processes


_LOOKUP_PATIENCE = 0.1
_LARGEST_CACHE = 4096
_LONGEST_COMMAND = 4096
_HOST_PID_NAMESPACE = "pid:[4026531836]"
_RUN_VARIABLE = f"{TOKEN_VARIABLE}=".encode()


class UserNames:
    """Looks up user names in a thread, because a hanging directory server must not stop the sampling."""

    def __init__(self, lookup: Callable[[int], str] = user_name) -> None:
        self._lookup = lookup
        self._names: dict[int, str] = {}
        self._asked: dict[int, threading.Event] = {}
        self._thread = WorkerThread("user-names")

    def name(self, uid: int) -> str:
        """Return the user's name, or the uid as text as long as the name is unknown."""
        if uid not in self._names:
            self._ask(uid).wait(_LOOKUP_PATIENCE)
        return self._names.get(uid, str(uid))

    def known(self, uid: int) -> bool:
        return uid in self._names

    def _ask(self, uid: int) -> threading.Event:
        event = self._asked.get(uid)
        if event is None:
            event = self._asked.setdefault(uid, threading.Event())
            self._thread.add(partial(self._look_up, uid))
        return event

    def _look_up(self, uid: int) -> None:
        try:
            self._names[uid] = self._lookup(uid)
        except OSError:
            self._names[uid] = str(uid)
        self._asked[uid].set()


class ProcessTable:
    """Caches facts about processes, because they do not change and command lines can be slow to read. Thread-safe.

    psutil is not used, because it would double the sampler's start-up time and take fifteen times as long for a read.
    """

    def __init__(self, users: UserNames | None = None, *, foreign: bool = False) -> None:
        self._foreign = foreign
        self._users = users or UserNames()
        self._boot_time = float(_line("/proc/stat", b"btime ") or 0)
        self._cache: dict[tuple[int, int], ProcessSample] = {}

    def facts(self, pid: int) -> ProcessSample:
        """Return the facts about a process. They are empty for a pid of another pid namespace."""
        stat = None if self._foreign else parse_stat(read_bytes(f"/proc/{pid}/stat"))
        if stat is None or not stat.alive:
            alive = stat is None and not self._foreign and _exists(pid)
            return ProcessSample(pid=pid, compute=False, alive=alive)
        facts = self._cache.get((pid, stat.started)) or self._read(pid, stat.started, stat.session)
        return replace(facts, host_memory=stat.resident)

    def _read(self, pid: int, born: int, session: int) -> ProcessSample:
        # The owner of /proc/PID is not used, because it is root for processes that forbid core dumps.
        uid = _line(f"/proc/{pid}/status", b"Uid:")
        environment = read_bytes(f"/proc/{pid}/environ").split(b"\0")
        run = next((entry for entry in environment if entry.startswith(_RUN_VARIABLE)), None)
        facts = ProcessSample(
            pid=pid,
            compute=False,
            born=born,
            started=self._boot_time + born / TICKS,
            user=None if uid is None else self._users.name(int(uid)),
            command=_command(pid),
            session=session,
            run=run.removeprefix(_RUN_VARIABLE).decode("utf-8", "replace") if run is not None else None,
        )
        if uid is None or self._users.known(int(uid)):
            if len(self._cache) >= _LARGEST_CACHE:
                self._cache.clear()
            self._cache[pid, born] = facts
        return facts


def _line(path: str, beginning: bytes) -> bytes | None:
    """Return the first word that follows `beginning` in the line that starts with it."""
    for line in read_bytes(path).splitlines():
        if line.startswith(beginning):
            return line.removeprefix(beginning).split()[0]
    return None


def _command(pid: int) -> str | None:
    content = read_bytes(f"/proc/{pid}/cmdline", _LONGEST_COMMAND)
    if content:
        return content.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    name = read_bytes(f"/proc/{pid}/comm")
    return f"[{name.decode('utf-8', 'replace').strip()}]" if name else None


def _exists(pid: int) -> bool:
    """Return whether a process exists. This works even if /proc is mounted with hidepid."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def foreign_pids() -> bool:
    """Return whether this process runs in its own pid namespace, in which the driver's pids are not valid."""
    try:
        return os.readlink("/proc/self/ns/pid") != _HOST_PID_NAMESPACE
    except OSError:
        return False
