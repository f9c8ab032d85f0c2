"""Lanes without a GPU: what the job in each one uses of the machine, in the shape of a device sample.

A lane's share of the machine is its cores, so 100 % means that its job keeps as many cores busy as it may.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from gputui.core.amounts import counted
from gputui.core.lanes import DeviceKind

from .machine import usable_cores
from .process_facts import read_bytes
from .sample import DeviceSample, HostSample, Sample

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def device_key(lane: int) -> str:
    """The UUID of the CPU lane of this number."""
    return f"CPU-{lane}"


class _Tree(Struct, frozen=True):
    """What a job's processes have used so far."""

    seconds: float
    resident: int


class CpuSampler:
    """In-process: /proc answers at once. `roots` tells the wrapper's pid for every lane that runs a job.

    The machine's own figures are psutil's. Trees are read here: psutil finds a job's children by looking at every
    process of the machine, which costs 65 times as much as asking the kernel for them.
    """

    def __init__(
        self,
        lanes: int | Sequence[int],
        interval: float = 1.0,
        *,
        roots: Callable[[], Mapping[int, int]] = dict,
        proc: str = "/proc",
    ) -> None:
        from .machine import MachineMeter

        self._lanes = range(lanes) if isinstance(lanes, int) else lanes
        self._interval, self._roots, self._proc = interval, roots, proc
        self._cores = usable_cores()
        self._share_of_cores = max(1, self._cores // max(1, len(self._lanes)))
        model = _model(proc)
        self._name = f"{model}, {counted(self._share_of_cores, 'core', 'cores')}"
        self._machine = MachineMeter(self._cores, model)
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
        roots = self._roots()
        host = self._machine.look()
        devices = tuple(self._lane(lane, roots.get(lane), now, host) for lane in self._lanes)
        return Sample(kind=DeviceKind.CPU, taken=time.time(), devices=devices, host=host)

    def _lane(self, lane: int, root: int | None, now: float, host: HostSample) -> DeviceSample:
        tree = _Tree(0.0, 0) if root is None else self._tree(root)
        share = 0 if root is None else self._share(root, tree.seconds, now)
        return DeviceSample(
            index=lane,
            uuid=device_key(lane),
            name=self._name,
            utilization=share,
            memory_used=tree.resident,
            memory_total=host.memory_total,
            memory_shared=True,
        )

    def _share(self, root: int, seconds: float, now: float) -> int | None:
        """None at the first look: a share needs two."""
        before = self._before.get(root)
        self._before = {pid: look for pid, look in self._before.items() if now - look[1] < 10 * self._interval}
        self._before[root] = (seconds, now)
        if before is None or now <= before[1]:
            return None
        busy = (seconds - before[0]) / ((now - before[1]) * self._share_of_cores)
        return min(100, max(0, round(100 * busy)))

    def _tree(self, root: int) -> _Tree:
        usages = [_usage(self._proc, pid) for pid in _descendants(self._proc, root)]
        return _Tree(sum(usage.seconds for usage in usages), sum(usage.resident for usage in usages))


def _descendants(proc: str, root: int) -> list[int]:
    """By the kernel's own lists of children, many times cheaper than looking at every process."""
    pids, index = [root], 0
    while index < len(pids):
        pid = pids[index]
        index += 1
        try:
            threads = os.listdir(f"{proc}/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            pids += [int(word) for word in (read_bytes(f"{proc}/{pid}/task/{thread}/children") or b"").split()]
    return pids


def _usage(proc: str, pid: int) -> _Tree:
    """Its own time and that of its children that have ended."""
    content = read_bytes(f"{proc}/{pid}/stat") or b""
    fields = content[content.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return _Tree(0.0, 0)
    return _Tree(sum(int(field) for field in fields[11:15]) / _TICKS_PER_SECOND, int(fields[21]) * _PAGE)


def _model(proc: str) -> str:
    for line in (read_bytes(f"{proc}/cpuinfo", 4096) or b"").splitlines():
        if line.startswith(b"model name"):
            return line.partition(b":")[2].strip().decode("utf-8", "replace")
    return "CPU"
