"""The machine's own figures, by psutil. Imported only when somebody looks: it takes longer than Python to start."""

from __future__ import annotations

import psutil

from .sample import HostSample


class MachineMeter:
    """Memory as it is, and the share of all processors' time that was not idle since the last look."""

    def __init__(self, cores: int, name: str) -> None:
        self._cores, self._name = cores, name
        self._before = _busy_and_all()

    def look(self) -> HostSample:
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
    times = psutil.cpu_times()
    busy = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    return busy, busy + times.idle + times.iowait
