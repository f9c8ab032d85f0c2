"""The machine's own memory and processors, for samplers that must start quickly. Knows nothing of lanes or GPUs."""

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
