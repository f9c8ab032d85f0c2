"""What an attempt leaves of itself: what it made of its devices, and processes that could not be ended."""

from __future__ import annotations

from msgspec import Struct


class Usage(Struct, frozen=True, omit_defaults=True):
    """What an attempt made of its devices; None where the driver could not say."""

    gpu_mean: float | None = None
    """Percent."""
    gpu_peak: int | None = None
    gpu_peak_memory: int | None = None
    """Bytes, over all its devices at one moment."""
    gpu_seconds: float = 0.0
    gpu_peak_memory_each: int | None = None
    """Bytes, on the one of its devices where it was most."""


class Left(Struct, frozen=True, array_like=True):
    """A process of an attempt that could not be ended: the attempt was given up, and it lives on."""

    pid: int
    started: int
    """In clock ticks since boot; with the pid it names a process of this boot."""
    words: str
