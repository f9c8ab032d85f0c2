"""The directory of each job: its name, output files, INFO and markers."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.job import Job
from gputui.core.regex import lazy_regex
from gputui.python.user_code.modules import OTHERS_WRITE

from . import session_dir
from .errors import NotOurs
from .messages import Layout

# Names


MAX_DIGITS = 9


class Former(msgspec.Struct, frozen=True):
    """An earlier layout, which is kept by the jobs that had started before the layout was changed."""

    layout: Layout
    jobs: tuple[tuple[int, int], ...]
    """Ids of the jobs that keep the layout, as ranges that include both ends."""

    def covers(self, job: int) -> bool:
        return any(first <= job <= last for first, last in self.jobs)


def ranges(ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Convert ids in ascending order to ranges that include both ends."""
    runs = (list(run) for _, run in groupby(enumerate(ids), lambda numbered: numbered[1] - numbered[0]))
    return tuple((run[0][1], run[-1][1]) for run in runs)


def in_the_way(root: str, layout: Layout, jobs: Iterable[Job]) -> str | None:
    """Return the name of an existing directory that the layout would assign to a job that has not started, or None."""
    started = {job.id for job in jobs if job.issued}
    return next((f"{layout.prefix}{number}" for number in taken_numbers(root, layout) if number not in started), None)


def taken_numbers(root: str, layout: Layout) -> list[int]:
    """Return the job numbers of the existing job directories."""
    if layout.job_dir:
        return []
    names = (name.removeprefix(layout.prefix) for name in os.listdir(root) if name.startswith(layout.prefix))
    return [int(name) for name in names if name.isdecimal() and len(name) <= MAX_DIGITS]


def layout_error(layout: Layout) -> str | None:
    """Return what is wrong with a layout, or None if it is valid."""
    if os.sep in layout.prefix or layout.prefix in (".", ".."):
        return f"--prefix {layout.prefix!r} must be a plain name; for subdirectories use --job-dir"
    pattern = layout.job_dir
    if not pattern:
        return None
    try:
        example = pattern.format(id=0, name="name", project="project")
    except (KeyError, ValueError, IndexError) as error:
        return f"--job-dir {pattern!r}: {error}; it may contain {{project}}, {{name}} and {{id}}"
    if "{id}" not in pattern:
        return f"--job-dir {pattern!r} must contain {{id}}, or two jobs would share a directory"
    if "}{id" in pattern or "{id}{" in pattern:
        return f"--job-dir {pattern!r} needs a separator between {{id}} and the other placeholders, such as _"
    if os.path.isabs(example) or ".." in example.split(os.sep):
        return f"--job-dir {pattern!r} must stay within the session directory"
    return None


# One job's directory, held by its descriptor


SUCCESS, FAILURE = "SUCCESS", "FAILURE"
INFO = "INFO"
RECORD = b"record: "
"""Start of the line of INFO from which the job is read back if the store is lost."""
ATTEMPTS = "attempts"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_MODE = 0o644
_LONGEST_INFO = 1_000_000


class JobDirectory:
    """An open job directory, which owns its descriptor. It never writes to existing files or through symlinks."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path
        """The path of the directory, used only to build other paths and messages. Files are opened through the
        descriptor.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def write_info(self, text: bytes) -> None:
        # The owner's thread waits for every system call of this thread, and open() would make three more.
        try:
            fd = os.open(INFO, _NEW, _OWN_MODE, dir_fd=self.fd)
        except FileExistsError:
            fresh = f".{INFO}.new"
            _fill(self._created(fresh), text)
            os.rename(fresh, INFO, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        else:
            _fill(fd, text)

    def read_info(self) -> str:
        """Return the contents of INFO, or an empty string if it cannot be read."""
        try:
            fd = os.open(INFO, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        except OSError:
            return ""
        try:
            return os.read(fd, _LONGEST_INFO).decode("utf-8", "replace")
        except OSError:
            return ""
        finally:
            os.close(fd)

    def mark(self, marker: str, claim: str) -> bool:
        """Turn the claim into an empty marker file. If there is no claim, create the marker and return False."""
        # After a rollback of the store, an attempt may be issued again and find a marker from before.
        self._remove(FAILURE if marker == SUCCESS else SUCCESS)
        try:
            os.truncate(claim, 0)
            os.rename(claim, marker, dst_dir_fd=self.fd)
        except OSError:
            os.close(self._created(marker))
            return False
        return True

    def clear_markers(self) -> None:
        for marker in (SUCCESS, FAILURE):
            self._remove(marker)

    def add_attempt(self, stem: str, attempt: int) -> None:
        """Prepare the directory for a later attempt: create a subdirectory, move the first attempt's output files, and
        link to the files of the new attempt.
        """
        attempts = os.path.join(self.path, ATTEMPTS)
        above = _make_and_enter(attempts, self.fd)
        try:
            for name in ("OUT", "ERR"):
                try:
                    mode = os.stat(f"{stem}.{name}", dir_fd=self.fd, follow_symlinks=False).st_mode
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(mode):
                    first = _make_and_enter(os.path.join(attempts, "1"), above)
                    try:
                        os.rename(f"{stem}.{name}", name, src_dir_fd=self.fd, dst_dir_fd=first)
                    finally:
                        os.close(first)
            os.close(_make_and_enter(os.path.join(attempts, str(attempt)), above))
        finally:
            os.close(above)
        for name in ("OUT", "ERR"):
            link = f"{stem}.{name}"
            self._remove(f"{link}.new")
            os.symlink(os.path.join(ATTEMPTS, str(attempt), name), f"{link}.new", dir_fd=self.fd)
            os.rename(f"{link}.new", link, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def attempt(self, attempt: int) -> int:
        """Open the subdirectory of a later attempt and return its descriptor."""
        attempts = os.path.join(self.path, ATTEMPTS)
        above = session_dir.enter(attempts, self.fd)
        try:
            return session_dir.enter(os.path.join(attempts, str(attempt)), above)
        finally:
            os.close(above)

    def _created(self, name: str) -> int:
        """Create a file and return its descriptor. A file that already has the name is unfinished or was planted, and
        is removed.
        """
        try:
            return os.open(name, _NEW, _OWN_MODE, dir_fd=self.fd)
        except FileExistsError:
            self._remove(name)
            return os.open(name, _NEW, _OWN_MODE, dir_fd=self.fd)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)


def _fill(fd: int, text: bytes) -> None:
    try:
        if os.write(fd, text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(fd)


def _make_and_enter(path: str, above: int) -> int:
    session_dir.make(path, above)
    return session_dir.enter(path, above)


# All job directories of a session


_HOST = os.uname().nodename
_encode = msgspec.json.Encoder().encode
_UNSAFE = lazy_regex(r"[^\w.,=+@-]+")


class Files(msgspec.Struct, frozen=True):
    """The paths of an attempt's output files. If `err` is None, both streams go to `out`."""

    out: str
    err: str | None


class Directories:
    """The job directories of a session: their names, creation and opening."""

    def __init__(
        self, root: str, prefix: str = "job_", job_dir: str = "", *, made: bool = False, former: Sequence[Former] = ()
    ) -> None:
        """Set up the layout. `made`: gputui created the session directory, and therefore also the job directories."""
        self._root = root
        self._made = made
        self._root_fd: int | None = None
        self.lay_out(Layout(prefix, job_dir), former)

    def use_descriptor(self, root: int) -> None:
        """From now on, open everything through this descriptor of the session directory."""
        self._root_fd = root

    def lay_out(self, layout: Layout, former: Sequence[Former]) -> None:
        """Set the current layout and the earlier ones."""
        self.layouts = (layout, tuple(former))

    def directory(self, job: Job) -> str:
        layout = self._layout(job)
        if not layout.job_dir:
            return f"{self._root}/{layout.prefix}{job.id}"
        name = layout.job_dir.format(id=job.id, name=_safe(job.name), project=_safe(job.spec.group or "jobs"))
        return os.path.join(self._root, name)

    def _layout(self, job: Job) -> Layout:
        layout, former = self.layouts
        return next((before.layout for before in former if before.covers(job.id)), layout) if former else layout

    def files(self, job: Job, attempt: int) -> Files:
        """Return the files to which the attempt writes."""
        if job.spec.outfile is not None:
            path = os.path.join(job.spec.cwd, job.spec.outfile)
            return Files(path if attempt == 1 else f"{path}.{attempt}", None)
        directory = self.directory(job)
        if attempt == 1:
            stem = f"{directory}/{os.path.basename(directory)}"
            return Files(stem + ".OUT", stem + ".ERR")
        return _own_files(directory, attempt)

    def stable_path(self, path: str) -> str:
        """Return the path through the descriptor of the session directory. It stays valid if the session is moved or
        replaced.
        """
        if self._root_fd is None or not path.startswith(self._root + os.sep):
            return path
        return f"/proc/self/fd/{self._root_fd}{path[len(self._root) :]}"

    def current_files(self, job: Job, attempt: int) -> Files:
        """Return where the output of an attempt is now. The files of the first attempt may have been moved."""
        if attempt == 1 and job.issued > 1 and job.spec.outfile is None:
            moved = self.moved(job)
            if os.path.exists(moved.out):
                return moved
        return self.files(job, attempt)

    def moved(self, job: Job) -> Files:
        """Return where the output of the first attempt is after the second has started."""
        return _own_files(self.directory(job), 1)

    def has_started(self, job: Job) -> bool:
        """Return whether a waiting job has left traces of an attempt that the store does not know."""
        if not os.path.lexists(self.directory(job)):
            return False
        first_noted = not job.issued and os.path.lexists(os.path.join(self.directory(job), INFO))
        return first_noted or self.has_output(job, job.issued + 1)

    def has_output(self, job: Job, attempt: int) -> bool:
        """Return whether the attempt has a log owned by this user."""
        with suppress(OSError, NotOurs), self.enter(job) as directory:
            name = os.path.relpath(self.files(job, attempt).out, directory.path)
            return os.stat(name, dir_fd=directory.fd, follow_symlinks=False).st_uid == os.getuid()
        return False

    def prepare(self, job: Job, attempt: int) -> None:
        """Create the directories of the attempt. This can be interrupted at any point and repeated."""
        made_now = not self._layout(job).job_dir and session_dir.make(self.directory(job), self._root_fd)
        if made_now and attempt == 1:
            return  # it is new and empty
        with self.enter(job, make=True) as directory:
            if attempt > 1 and self._made:
                session_dir.keep_others_out(directory.fd)
            if attempt > 1 and job.spec.outfile is None:
                directory.add_attempt(os.path.basename(directory.path), attempt)

    def open_if_replaceable(self, job: Job, attempt: int) -> int | None:
        """Return a descriptor of the attempt's directory if other users could replace the directory before the attempt
        opens it. Otherwise return None.
        """
        if job.spec.outfile is not None:
            return None
        if self._root_fd is not None and not self._layout(job).job_dir:
            root = os.fstat(self._root_fd)
            if root.st_uid == os.getuid() and not root.st_mode & OTHERS_WRITE:
                return None
        directory = self.enter(job)
        if attempt == 1:
            return directory.fd
        with directory:
            return directory.attempt(attempt)

    def enter(self, job: Job, *, make: bool = False) -> JobDirectory:
        """Open the job's directory, creating it first if `make` is set. Raise NotOurs if it is not a real directory of
        this user.
        """
        path = self.directory(job)
        entered = self._walk(path, make=make) if self._layout(job).job_dir else session_dir.enter(path, self._root_fd)
        return JobDirectory(entered, path)

    def _walk(self, path: str, *, make: bool) -> int:
        """Open each directory along the path in turn and return the descriptor of the last one. All but the last may
        belong to other users.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        above = os.open(self._root, flags) if self._root_fd is None else os.open(".", flags, dir_fd=self._root_fd)
        at = self._root
        *outer, last = os.path.relpath(path, at).split(os.sep)
        try:
            for name in outer:
                at = os.path.join(at, name)
                if make:
                    session_dir.make(at, above, 0o777)
                inner = session_dir.enter(at, above, foreign=True)
                os.close(above)
                above = inner
            at = os.path.join(at, last)
            if make:
                session_dir.make(at, above)
            return session_dir.enter(at, above)
        finally:
            os.close(above)


def _own_files(directory: str, attempt: int) -> Files:
    own = os.path.join(directory, ATTEMPTS, str(attempt))
    return Files(os.path.join(own, "OUT"), os.path.join(own, "ERR"))


def _safe(name: str) -> str:
    """Return the name as a safe path component that is short enough for every file system."""
    safe = _UNSAFE.sub("_", name).strip(".").encode("utf-8", "replace")[:100]
    return safe.decode("utf-8", "ignore") or "_"


def info(job: Job, git: str = "") -> bytes:
    """Return the contents of INFO. The first three lines have the format of gpu-hog."""
    placed = job.active
    attempt = job.attempts[-1] if job.attempts else None
    gpus = placed.gpus if placed is not None else attempt.gpus if attempt is not None else ()
    lines = [
        f"job name: {job.name}",
        f"ran on gpu: {','.join(gpus)}",
        f"command: {job.spec.command}",
        f"cwd: {job.spec.cwd}",
        f"id: {job.id}",
        f"host: {_HOST}",
    ]
    lines += [f"wrap: {job.spec.wrap}"] if job.spec.wrap else []
    lines += [f"task: {job.spec.task}"] if job.spec.task else []
    if placed is not None:
        lines += [f"attempt: {placed.attempt}", f"started: {_moment(placed.since)}"]
    elif attempt is not None:
        lines += [f"attempt: {attempt.number}", f"started: {_moment(attempt.started)}"]
        lines += [f"ended: {_moment(attempt.ended)}", f"state: {attempt.end.name}"]
        lines += [f"exit code: {attempt.exit_code}"] if attempt.exit_code is not None else []
        lines += [f"why: {attempt.reason}"] if attempt.reason else []
    # Continuation lines are indented, so that no part of a value looks like another key.
    text = "".join(line.replace("\n", "\n    ") + "\n" for line in lines)
    return text.encode("utf-8", "replace") + RECORD + _record(job) + b"\n" + git.encode("utf-8", "replace")


def _record(job: Job) -> bytes:
    """Encode what a rebuild of the store needs. Others may read INFO, so the job's own variables are left out."""
    return _encode(replace(job, spec=replace(job.spec, variables={}), attempts=job.attempts[-1:]))


def _moment(at: float) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S %z', time.localtime(at))} ({at:.3f})"


# The git commit of each attempt, as noted in INFO


_COMMIT = lazy_regex(r"^git commit: (\w+)$", re.MULTILINE)
_DIRTY = lazy_regex(r"^git dirty: (?:and (\d+) more$)?", re.MULTILINE)
_GIT = lazy_regex(r"^git (?:commit|dirty): .*\n?", re.MULTILINE)
_ATTEMPT = lazy_regex(r"^attempt: (\d+)$", re.MULTILINE)
_EARLIER = lazy_regex(r"^earlier commit: attempt (\d+) at (\w+) with (\d+) changed$", re.MULTILINE)


class Commit(Struct, frozen=True):
    name: str
    changed: int
    """Number of files with uncommitted changes."""


def commits_in(info: str) -> dict[int, Commit]:
    """Return the commits recorded in INFO, by attempt."""
    commits = {int(number): Commit(name, int(changed)) for number, name, changed in _EARLIER.findall(info)}
    attempt, commit = _ATTEMPT.search(info), _COMMIT.search(info)
    if attempt is not None and commit is not None:
        changed = sum(int(more) if more else 1 for more in _DIRTY.findall(info))
        commits[int(attempt[1])] = Commit(commit[1], changed)
    return commits


def with_earlier(git: str, attempt: int, before: str) -> str:
    """Return the git lines of a new INFO. `git` contains the current lines, and `before` is the INFO that will be
    replaced.
    """
    commits = commits_in(before)
    number = _ATTEMPT.search(before)
    is_same_attempt = number is not None and int(number[1]) == attempt
    own = "".join(_GIT.findall(before)) if attempt in commits and is_same_attempt else git
    earlier = [
        f"earlier commit: attempt {number} at {commit.name} with {commit.changed} changed\n"
        for number, commit in sorted(commits.items())
        if number < attempt
    ]
    return own + "".join(earlier)
