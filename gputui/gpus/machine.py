"""The machine's own memory, processors and load."""

from __future__ import annotations

import os

from msgspec import Struct

from .process_facts import read_bytes
from .sample import HostSample

# ---- The machine's own memory and processors, for samplers that must start quickly ----


class Memory(Struct, frozen=True):
    """In bytes; None where the kernel does not tell."""

    used: int | None
    total: int | None


def memory(proc: str = "/proc") -> Memory:
    """Used is what programs could not get, so caches do not count."""
    sizes = {}
    for line in (read_bytes(f"{proc}/meminfo") or b"").splitlines():
        name, _, rest = line.partition(b":")
        if name in (b"MemTotal", b"MemAvailable"):
            sizes[name] = int(rest.split()[0]) * 1024
    total, available = sizes.get(b"MemTotal"), sizes.get(b"MemAvailable")
    used = None if total is None or available is None else total - available
    return Memory(used, total)


def usable_cores() -> int:
    """The processors this process may run on: fewer than the machine's in a Slurm job or a container."""
    return len(os.sched_getaffinity(0))


# ---- The machine itself in a few figures ----


class MachineFacts(Struct, frozen=True, kw_only=True):
    """None: the kernel does not tell."""

    cores: int
    busy: float | None = None
    """Percent of all cores since the look before."""
    memory_used: int | None = None
    memory_total: int | None = None
    swap_used: int | None = None
    load: float | None = None
    """Processes that want to run, over the last minute."""
    up: float | None = None
    """Seconds since it was started."""
    disk_used: int | None = None
    disk_total: int | None = None
    disk_folder: str = ""
    """The mount point that the folder is on."""


class MachineReader:
    """Keeps what a share needs: the counters of the look before."""

    def __init__(self, folder: str, proc: str = "/proc") -> None:
        self._folder, self._proc = folder, proc
        self._mount = _mount_point(folder)
        self._before: tuple[int, int] | None = None

    def look(self) -> MachineFacts:
        sizes = _meminfo(self._proc)
        total, available = sizes.get(b"MemTotal"), sizes.get(b"MemAvailable")
        swap, free_swap = sizes.get(b"SwapTotal"), sizes.get(b"SwapFree")
        used, whole = _disk(self._folder)
        return MachineFacts(
            cores=os.cpu_count() or 1,
            busy=self._busy(),
            memory_used=None if total is None or available is None else total - available,
            memory_total=total,
            swap_used=None if swap is None or free_swap is None else swap - free_swap,
            load=_first_number(f"{self._proc}/loadavg"),
            up=_first_number(f"{self._proc}/uptime"),
            disk_used=used,
            disk_total=whole,
            disk_folder=self._mount,
        )

    def _busy(self) -> float | None:
        fields = (read_bytes(f"{self._proc}/stat", 4096) or b"").partition(b"\n")[0].split()[1:9]
        if len(fields) < 8:
            return None
        ticks = [int(field) for field in fields]
        now = (sum(ticks), ticks[3] + ticks[4])
        before, self._before = self._before, now
        if before is None or now[0] <= before[0]:
            return None
        return 100 * (1 - (now[1] - before[1]) / (now[0] - before[0]))


def _meminfo(proc: str) -> dict[bytes, int]:
    lines = (line.partition(b":") for line in (read_bytes(f"{proc}/meminfo") or b"").splitlines())
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in lines if rest.split()}


def _first_number(path: str) -> float | None:
    words = (read_bytes(path, 256) or b"").split()
    return float(words[0]) if words else None


def _disk(folder: str) -> tuple[int | None, int | None]:
    """Used and all, as `df` has it: what is kept for root counts as used."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None, None
    total = status.f_blocks * status.f_frsize
    return total - status.f_bavail * status.f_frsize, total


def _mount_point(folder: str) -> str:
    path = os.path.abspath(folder)
    while path != "/" and not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


# ---- The machine's own figures, by psutil ----


class MachineMeter:
    """Memory as it is, and the share of all processors' time that was not idle since the last look."""

    def __init__(self, cores: int, name: str) -> None:
        self._cores, self._name = cores, name
        self._before = _busy_and_all()

    def look(self) -> HostSample:
        import psutil

        memory = psutil.virtual_memory()
        used = memory.total - memory.available
        return HostSample(self._cores, self._utilization(), used, memory.total, self._name)

    def _utilization(self) -> float | None:
        now = _busy_and_all()
        busy, total = now[0] - self._before[0], now[1] - self._before[1]
        if total <= 0:
            return None
        self._before = now
        return round(100.0 * busy / total, 1)


def _busy_and_all() -> tuple[float, float]:
    """In seconds; guest time is left out, the kernel counts it in user time already."""
    import psutil  # it takes longer than Python to start

    times = psutil.cpu_times()
    busy = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    return busy, busy + times.idle + times.iowait
