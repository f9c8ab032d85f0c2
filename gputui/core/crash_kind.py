"""The kinds of crashes: what went wrong, whichever library or launcher put it into words."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["CrashKind"]


class CrashKind(StrEnum):
    EXCEPTION = "exception"
    """The program itself raised or printed an error, and nothing narrower fits."""
    OOM_GPU = "oom-gpu"
    OOM_HOST = "oom-host"
    CUDA = "cuda"
    """The driver, its libraries, assertions on the device."""
    NCCL = "nccl"
    """Collectives between processes."""
    SIGNAL = "signal"
    NOT_FOUND = "not-found"
    NOT_EXECUTABLE = "not-executable"
    SYNTAX = "syntax"
    USAGE = "usage"
    DISK = "disk"
    PERMISSION = "permission"
    LIMIT = "limit"
    """Files, processes, threads, shared memory, file size, CPU seconds."""
    NETWORK = "network"
    INTERRUPTED = "interrupted"
    TIME_LIMIT = "time-limit"
    EXIT_ONLY = "exit-only"
    """A code, and at most some last words without the form of an error."""
    NONE = "none"
    """It ended well, whatever the log says."""
