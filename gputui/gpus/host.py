"""The machine's own memory and processors, from /proc. Owns these figures; knows nothing of lanes or GPUs."""

from __future__ import annotations

import os

from msgspec import Struct

from .facts import read_bytes


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


class ProcessorMeter:
    """Share of all processors' time that was not idle since the last look, in percent."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._before = self._ticks()

    def utilization(self) -> float | None:
        now = self._ticks()
        busy, total = now[0] - self._before[0], now[1] - self._before[1]
        if total <= 0:
            return None
        self._before = now
        return round(100.0 * busy / total, 1)

    def _ticks(self) -> tuple[int, int]:
        """Busy and all; guest time is left out, the kernel counts it in user time already."""
        lines = (read_bytes(f"{self._proc}/stat") or b"").splitlines()
        if not lines or not lines[0].startswith(b"cpu "):
            return 0, 0
        user, nice, system, idle, wait, *rest = (int(word) for word in lines[0].split()[1:9])
        busy = user + nice + system + sum(rest)
        return busy, busy + idle + wait
