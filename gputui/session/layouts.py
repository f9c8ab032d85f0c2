"""How jobs' folders are named, outfiles, and attachments of jobs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby

import msgspec

from gputui.core.book import Book
from gputui.core.events import Refusal
from gputui.core.job import Job, JobSpec
from gputui.python.user_code.modules import keepsake

from .errors import SessionError

# ---- layouts ----


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


# ---- Outfiles of new jobs ----


def check_outfiles(present: Iterable[Job], new: Iterable[JobSpec]) -> None:
    """Refuses before anything is added: nothing of the user's is overwritten."""
    wanted = [path for spec in new if (path := _path(spec)) is not None]
    if not wanted:
        return
    taken_by = {path: f"#{job.id}" for job in present if (path := _path(job.spec)) is not None}
    for path in wanted:
        if path in taken_by:
            raise Refusal(f"the outfile {path} is that of {taken_by[path]} already; nothing was added")
        if os.path.lexists(path):
            raise Refusal(f"the outfile {path} exists already; nothing was added")
        if not os.path.isdir(os.path.dirname(path)):
            raise Refusal(f"the outfile {path} has no folder to be in; make it first; nothing was added")
        taken_by[path] = "another job"


def _path(spec: JobSpec) -> str | None:
    return os.path.join(spec.cwd, spec.outfile) if spec.outfile is not None else None


# ---- Files that jobs need and that must be there as long as their session is ----


def keep(root: str, name: str, data: bytes) -> str:
    """Durable when it returns, and whole or not there at all; returns its path. Names are as good as contents."""
    path = keepsake(os.path.abspath(root), name)
    if os.path.exists(path):
        return path
    fresh = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        _sync(os.path.dirname(path))
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
