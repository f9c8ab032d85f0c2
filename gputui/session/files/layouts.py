"""How a session names its jobs' folders, now and before, and whether the names a user wants can be given."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby

import msgspec

from gputui.core.book import Book

LONGEST_NUMBER = 9


class Layout(msgspec.Struct, frozen=True):
    """How a job's folder is called: a prefix and its number, or a pattern."""

    prefix: str = "job_"
    job_dir: str = ""


class Former(msgspec.Struct, frozen=True):
    """How folders were called before; jobs that had begun by then keep theirs."""

    layout: Layout
    jobs: tuple[tuple[int, int], ...]
    """Their ids, as ranges from the first to the last."""

    def covers(self, job: int) -> bool:
        return any(first <= job <= last for first, last in self.jobs)


def ranges(ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Of ids in ascending order."""
    runs = (list(run) for _, run in groupby(enumerate(ids), lambda numbered: numbered[1] - numbered[0]))
    return tuple((run[0][1], run[-1][1]) for run in runs)


def in_the_way(root: str, layout: Layout, book: Book) -> str | None:
    """A folder that a job would get which has not begun, but which is there already."""
    begun = {job.id for job in book if job.issued}
    return next((f"{layout.prefix}{number}" for number in taken_numbers(root, layout) if number not in begun), None)


def taken_numbers(root: str, layout: Layout) -> list[int]:
    """The numbers of folders that are there already."""
    if layout.job_dir:
        return []
    names = (name.removeprefix(layout.prefix) for name in os.listdir(root) if name.startswith(layout.prefix))
    # What is longer is no number that a job ever had.
    return [int(name) for name in names if name.isdecimal() and len(name) <= LONGEST_NUMBER]


def trouble(layout: Layout) -> str | None:
    """The sentence why not; None: they can."""
    if os.sep in layout.prefix or layout.prefix in (".", ".."):
        return f"--prefix {layout.prefix!r} must be a plain name; --job-dir makes folders within folders"
    return _pattern_trouble(layout.job_dir) if layout.job_dir else None


def _pattern_trouble(pattern: str) -> str | None:
    try:
        example = pattern.format(id=0, name="name", project="project")
    except (KeyError, ValueError, IndexError) as error:
        return f"--job-dir {pattern!r}: {error}; it may hold {{project}}, {{name}} and {{id}}"
    if "{id}" not in pattern:
        return f"--job-dir {pattern!r} must hold {{id}}, or two jobs would share a folder"
    if "}{id" in pattern or "{id}{" in pattern:
        return f"--job-dir {pattern!r} needs something between {{id}} and its neighbour: a1 and 0, or a and 10?"
    if os.path.isabs(example) or ".." in example.split(os.sep):
        return f"--job-dir {pattern!r} must stay within the session's folder"
    return None
