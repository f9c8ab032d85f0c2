"""Trouble of GPUs and of collectives that libraries word differently, in one wording, so that like crashes meet."""

from __future__ import annotations

import re

from gputui.core.crash_kind import CrashKind

from .cleaning import CleanLine
from .complaints import Found
from .kinds import kind_in

__all__ = ["common_words", "watchdog"]

_CUDA_ERROR = re.compile(r"(?:CUDA|HIP) error: ([^.(]+?)(?= when calling|[.(]|: Assertion|$)")
_ASSERTION = re.compile(r"Assertion (.{1,300}?) failed")
_NCCL_ERROR = re.compile(r"NCCL error\b(?:[^,]*+,\s*+([a-z][a-z ]*+))?")
_NCCL_WATCHDOG = re.compile(r"[Ww]atchdog caught collective operation timeout")


def common_words(message: str) -> str | None:
    """None if it is something else."""
    if _NCCL_WATCHDOG.search(message):
        return "NCCL error: collective operation timeout"
    if kind_in(message) is CrashKind.OOM_GPU:
        return "CUDA out of memory"
    if match := _CUDA_ERROR.search(message):
        asserted = _ASSERTION.search(message)
        return f"CUDA error: {match[1].strip()}" + (f": {asserted[1]}" if asserted else "")
    if match := _NCCL_ERROR.search(message):
        return f"NCCL error: {match[1].strip()}" if match[1] else "NCCL error"
    return None


def watchdog(lines: list[CleanLine]) -> Found | None:
    """The first rank that waited in vain for the others."""
    for line in lines:
        if "atchdog" in line.text and _NCCL_WATCHDOG.search(line.text):
            return Found(line.text, None, CrashKind.NCCL)
    return None
