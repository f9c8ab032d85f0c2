"""Samples for slots without a GPU: the CPU and memory use of their jobs.

Each slot has an equal share of the cores. 100 % means that the slot's job uses its whole share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from gputui.core.amounts import counted
from gputui.core.slots import DeviceKind
from gputui.process.processes import TICKS, parse_stat, read_bytes

from .machine import MachineReader, memory
from .sample import DeviceSample, HostSample, Sample


def device_key(slot: int) -> str:
    """Return the UUID of a CPU slot."""
    return f"CPU-{slot}"


class CpuSampler:
    """Samples /proc in this process. `roots` returns the wrapper's pid for each slot that runs a job."""

    def __init__(
        self, slots: int | Sequence[int], interval: float = 1.0, *, roots: Callable[[], Mapping[int, int]] = dict
    ) -> None:
        self._slots = range(slots) if isinstance(slots, int) else slots
        self._interval, self._roots = interval, roots
        self._cores = len(os.sched_getaffinity(0))  # fewer than the machine's in a Slurm job or a container
        self._share_of_cores = max(1, self._cores // max(1, len(self._slots)))
        self._model = _model()
        self._machine = MachineReader("/")
        self._machine.busy()
        self._before: dict[int, tuple[float, float]] = {}
        self._due = time.monotonic()

    def fileno(self) -> None:
        return None

    def patience(self) -> float:
        return max(0.0, self._due - time.monotonic())

    def close(self) -> None:
        pass

    def read(self) -> Sample | None:
        now = time.monotonic()
        if now < self._due:
            return None
        self._due = now + self._interval
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
        """Return the slot's CPU use since the last sample in percent, or None in the first sample."""
        before = self._before.get(root)
        self._before = {pid: last for pid, last in self._before.items() if now - last[1] < 10 * self._interval}
        self._before[root] = (seconds, now)
        if before is None or now <= before[1]:
            return None
        busy = (seconds - before[0]) / ((now - before[1]) * self._share_of_cores)
        return min(100, max(0, round(100 * busy)))


def _descendants(root: int) -> list[int]:
    """Return the process and its descendants.

    They are read from the kernel's lists of children, which is 65 times faster than scanning /proc.
    """
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
