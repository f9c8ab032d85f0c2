"""The machine's memory, processors, load and disk. They are read from /proc because importing psutil is slow."""

from __future__ import annotations

import os

from msgspec import Struct

from gputui.process.processes import read_bytes


class MachineFacts(Struct, frozen=True, kw_only=True):
    """Figures about the machine. None means unknown."""

    cores: int
    busy: float | None = None
    """CPU use of all cores since the last reading, in percent."""
    memory_used: int | None = None
    memory_total: int | None = None
    swap_used: int | None = None
    load: float | None = None
    """Load average over the last minute."""
    up: float | None = None
    """Uptime in seconds."""
    disk_used: int | None = None
    disk_total: int | None = None
    disk_directory: str = ""
    """The mount point of the disk."""


class MachineReader:
    """Reads the machine's figures, including the CPU use since the last reading."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._before: tuple[int, int] | None = None

    def read(self) -> MachineFacts:
        sizes = _meminfo()
        used, total = _disk(self._directory)
        return MachineFacts(
            cores=os.cpu_count() or 1,
            busy=self.busy(),
            memory_used=_difference(sizes, b"MemTotal", b"MemAvailable"),
            memory_total=sizes.get(b"MemTotal"),
            swap_used=_difference(sizes, b"SwapTotal", b"SwapFree"),
            load=_first_number("/proc/loadavg"),
            up=_first_number("/proc/uptime"),
            disk_used=used,
            disk_total=total,
            disk_directory=_mount_point(self._directory),
        )

    def busy(self) -> float | None:
        """Return the CPU use since the last call in percent.

        Guest time is not added because the kernel's user time includes it.
        """
        fields = read_bytes("/proc/stat", 4096).partition(b"\n")[0].split()[1:9]
        if len(fields) < 8:
            return None
        ticks = [int(field) for field in fields]
        now = (sum(ticks), ticks[3] + ticks[4])
        before, self._before = self._before, now
        if before is None or now[0] <= before[0]:
            return None
        return 100 * (1 - (now[1] - before[1]) / (now[0] - before[0]))


def memory() -> tuple[int | None, int | None]:
    """Return used and total memory in bytes. Caches do not count as used."""
    sizes = _meminfo()
    return _difference(sizes, b"MemTotal", b"MemAvailable"), sizes.get(b"MemTotal")


def _meminfo() -> dict[bytes, int]:
    lines = (line.partition(b":") for line in read_bytes("/proc/meminfo").splitlines())
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in lines if rest.split()}


def _difference(sizes: dict[bytes, int], whole: bytes, part: bytes) -> int | None:
    return sizes[whole] - sizes[part] if whole in sizes and part in sizes else None


def _first_number(path: str) -> float | None:
    words = read_bytes(path, 256).split()
    return float(words[0]) if words else None


def _disk(directory: str) -> tuple[int | None, int | None]:
    """Return used and total bytes of a disk. As in `df`, space reserved for root counts as used."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return None, None
    total = status.f_blocks * status.f_frsize
    return total - status.f_bavail * status.f_frsize, total


def _mount_point(directory: str) -> str:
    path = os.path.abspath(directory)
    while path != "/" and not os.path.ismount(path):
        path = os.path.dirname(path)
    return path
