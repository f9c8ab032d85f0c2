"""An attempt's log as it is read: wherever it moved, and whatever somebody put in its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gputui.core.job import Job
from gputui.session.files.folders import Folders

__all__ = ["opened", "streams"]

FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def streams(folders: Folders, job: Job, attempt: int) -> list[tuple[str, ...]]:
    """For each file of the attempt: the places where it may be; a first attempt's move when a second begins."""
    named = folders.files(job, attempt)
    paths = [named.out] if named.err is None else [named.out, named.err]
    if attempt > 1 or job.spec.outfile is not None:
        return [(folders.reached(path),) for path in paths]
    moved = folders.moved(job)
    # The name comes last again: between the two looks it may have become a link to another attempt's file.
    return [
        (folders.reached(own), folders.reached(path), folders.reached(own))
        for path, own in zip(paths, (moved.out, moved.err or ""), strict=False)
    ]


@contextmanager
def opened(places: tuple[str, ...]) -> Iterator[tuple[int, os.stat_result] | None]:
    """None: it is not there, or is no file. Never waits for anybody, as a FIFO would."""
    descriptor = _open(places)
    if descriptor is None:
        yield None
        return
    try:
        facts = os.fstat(descriptor)
        yield (descriptor, facts) if stat.S_ISREG(facts.st_mode) else None
    finally:
        os.close(descriptor)


def _open(places: tuple[str, ...]) -> int | None:
    for place in places:
        with suppress(OSError, ValueError):
            return os.open(place, FLAGS)
    return None
