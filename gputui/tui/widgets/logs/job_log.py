"""What the log pane is told of a job: its attempts and the files they write."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

__all__ = ["AttemptLog", "JobLog", "Stream", "stream_to_show"]

SAME_TIME = 5.0
"""Seconds within which two streams count as written together."""


class Stream(Enum):
    """In the order in which the key goes through them."""

    OUT = "OUT"
    ERR = "ERR"
    BOTH = "OUT and ERR"

    @property
    def next(self) -> Stream:
        order = list(Stream)
        return order[(order.index(self) + 1) % len(order)]


@dataclass(frozen=True)
class AttemptLog:
    """The files of one attempt."""

    number: int
    out: Path
    err: Path | None
    """None: both streams are in the one file."""
    live: bool
    failed: bool = False
    """It ended, and not well: what it said last on ERR is wanted first."""

    def files(self, stream: Stream) -> list[tuple[str, Path]]:
        if self.err is None or stream is Stream.OUT:
            return [(Stream.OUT.value, self.out)]
        err = (Stream.ERR.value, self.err)
        return [err] if stream is Stream.ERR else [(Stream.OUT.value, self.out), err]


@dataclass(frozen=True)
class JobLog:
    """A job under the cursor."""

    job: int
    title: str
    attempts: tuple[AttemptLog, ...]
    """Newest last; empty: it has not run yet."""


def stream_to_show(attempt: AttemptLog) -> Stream:
    """What a user who has not chosen wants to see: progress bars go to ERR, and so do last words."""
    if attempt.err is None:
        return Stream.OUT
    out_size, out_time = size_and_time(attempt.out)
    err_size, err_time = size_and_time(attempt.err)
    if not err_size or not out_size:
        return Stream.ERR if err_size else Stream.OUT
    if attempt.live:
        return Stream.ERR if err_time > out_time + SAME_TIME else Stream.OUT
    return Stream.ERR if attempt.failed else Stream.OUT


def size_and_time(path: Path) -> tuple[int, float]:
    """Of a file that is not there, nothing was written, ever."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return 0, 0.0
    return status.st_size, status.st_mtime
