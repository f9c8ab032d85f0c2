"""This machine: its memory, processors, load and disk, and samples for slots without a GPU.

The figures are read from /proc because importing psutil is slow.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from gputui.core.amounts import counted
from gputui.core.slots import DeviceKind
from gputui.process.processes import TICKS, parse_stat, read_bytes

from .sample import DeviceSample, HostSample, Sample, TimedSampler


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
        """Return the CPU use since the last call in percent. Guest time is not added: user time already includes it."""
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


# Samples of CPU slots


def device_key(slot: int) -> str:
    """Return the UUID of a CPU slot."""
    return f"CPU-{slot}"


class CpuSampler(TimedSampler):
    """Samples the CPU and memory use of the jobs of slots without a GPU.

    Each slot has an equal share of the cores. 100 % means that the slot's job uses its whole share. `roots` returns the
    wrapper's pid for each slot that runs a job.
    """

    def __init__(
        self, slots: int | Sequence[int], interval: float = 1.0, *, roots: Callable[[], Mapping[int, int]] = dict
    ) -> None:
        super().__init__(interval)
        self._slots = range(slots) if isinstance(slots, int) else slots
        self._roots = roots
        self._cores = len(os.sched_getaffinity(0))  # in a Slurm job or container, fewer than the machine's
        self._share_of_cores = max(1, self._cores // max(1, len(self._slots)))
        self._model = _model()
        self._machine = MachineReader("/")
        self._machine.busy()
        self._before: dict[int, tuple[float, float]] = {}

    def take(self, now: float) -> Sample:
        roots, busy = self._roots(), self._machine.busy()
        host = HostSample(self._cores, None if busy is None else round(busy, 1), *memory(), self._model)
        devices = tuple(self._slot(slot, roots.get(slot), now, host) for slot in self._slots)
        return Sample(kind=DeviceKind.CPU, taken=time.time(), devices=devices, host=host)

    def _slot(self, slot: int, root: int | None, now: float, host: HostSample) -> DeviceSample:
        stats = [parse_stat(read_bytes(f"/proc/{pid}/stat")) for pid in _descendants(root)] if root is not None else []
        # The CPU time of a process includes that of ended children for which it has waited.
        seconds = sum(stat.worked for stat in stats if stat is not None) / TICKS
        return DeviceSample(
            index=slot,
            uuid=device_key(slot),
            name=f"{self._model}, {counted(self._share_of_cores, 'core', 'cores')}",
            utilization=0 if root is None else self._share(root, seconds, now),
            memory_used=sum(stat.resident for stat in stats if stat is not None),
            memory_total=host.memory_total,
            memory_shared=True,
        )

    def _share(self, root: int, seconds: float, now: float) -> int | None:
        """Return the slot's CPU use since the last sample in percent, or None if this is the job's first sample."""
        before = self._before.get(root)
        self._before = {pid: last for pid, last in self._before.items() if now - last[1] < 10 * self._interval}
        self._before[root] = (seconds, now)
        if before is None or now <= before[1]:
            return None
        busy = (seconds - before[0]) / ((now - before[1]) * self._share_of_cores)
        return min(100, max(0, round(100 * busy)))


def _descendants(root: int) -> list[int]:
    """Return a process and its descendants, from the kernel's lists of children. A scan would be 65 times slower."""
    pids = [root]
    for pid in pids:  # grows during the loop
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            pids += [int(word) for word in read_bytes(f"/proc/{pid}/task/{thread}/children").split()]
    return pids


def _model() -> str:
    for line in read_bytes("/proc/cpuinfo", 4096).splitlines():
        if line.startswith(b"model name"):
            return line.partition(b":")[2].strip().decode("utf-8", "replace")
    return "CPU"
