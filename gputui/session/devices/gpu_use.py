"""The figures of a job's GPUs on its node, which its supervisor writes every two seconds into the job's folder."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from msgspec import Struct

FILE = "gpu_use.csv"
FRESH = 15.0
"""Seconds after which figures are too old to be shown: clocks of nodes and the cache of a shared disk differ."""
_MOST = 64 * 1024
"""Bytes; a job may write whatever it likes into its own folder."""


class UsedGpu(Struct, frozen=True, kw_only=True):
    """None: nvidia-smi cannot say."""

    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    temperature: int | None = None
    power: float | None = None


def gpu_use(held: Mapping[str, str]) -> dict[str, UsedGpu]:
    """By the words of the GPUs that jobs hold; files that are not there, old or damaged tell nothing."""
    now = time.time()
    read = {path: _read(path, now) for path in set(held.values())}
    return {word: used for word, path in held.items() if (used := read[path].get(word.rpartition(":")[2])) is not None}


def _read(path: str, now: float) -> dict[str, UsedGpu]:
    try:
        with open(path, encoding="ascii", errors="replace", opener=_opener) as file:
            if now - os.fstat(file.fileno()).st_mtime > FRESH:
                return {}
            lines = file.read(_MOST).splitlines()
    except OSError:
        return {}
    fields = (line.split(",") for line in lines)
    return {each[0].strip(): _used(each) for each in fields if len(each) == 6}


def _opener(path: str, flags: int) -> int:
    """A job could put a pipe there."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _used(fields: list[str]) -> UsedGpu:
    _, load, used, total, heat, power = (_number(field) for field in fields)
    return UsedGpu(
        utilization=None if load is None else round(load),
        memory_used=None if used is None else round(used * 1024**2),
        memory_total=None if total is None else round(total * 1024**2),
        temperature=None if heat is None else round(heat),
        power=power,
    )


def _number(text: str) -> float | None:
    """`[N/A]`, `[Not Supported]` and the like are no numbers; neither is infinity."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None
