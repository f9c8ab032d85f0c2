"""The folder of each job: output, INFO, markers and commits."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from gputui.core.job import Job, TimedOut
from gputui.python.user_code.modules import OTHERS_WRITE

from . import session_dir
from .errors import NotOurs
from .layouts import Former, Layout

# ---- One job's folder, held by its descriptor ----


SUCCESS, FAILURE = "SUCCESS", "FAILURE"
INFO = "INFO"
ATTEMPTS = "attempts"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_MODE = 0o644
_LONGEST_INFO = 1_000_000


class JobFolder:
    """Takes the descriptor over. Nothing here writes into a file that was there before, or through a link."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path
        """What sentences call it; nothing is reached by it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def write_info(self, text: bytes) -> None:
        """A first one, which most jobs' only one is, is made in its place; another takes its place."""
        # Every call lets the owner's thread wait for ours: open() would make three more.
        try:
            fd = os.open(INFO, _NEW, _OWN_MODE, dir_fd=self.fd)
        except FileExistsError:
            self._replace_info(text)
        else:
            _fill(fd, text)

    def read_info(self) -> str:
        """Empty: there is none to be read."""
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

    def _replace_info(self, text: bytes) -> None:
        fresh = f".{INFO}.new"
        _fill(self._created(fresh), text)
        os.rename(fresh, INFO, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def mark(self, marker: str, claim: str) -> bool:
        """The claim, emptied, becomes the marker: one file less to make and one to remove. False: it was gone."""
        # An attempt that a rolled-back store issued anew finds the marker of the one before.
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

    def begin(self, stem: str, attempt: int) -> None:
        """A folder for an attempt after the first, whose files move beside it; the old names become links."""
        attempts = os.path.join(self.path, ATTEMPTS)
        above = _made(attempts, self.fd)
        try:
            for name in ("OUT", "ERR"):
                self._set_aside_first(f"{stem}.{name}", name, attempts, above)
            os.close(_made(os.path.join(attempts, str(attempt)), above))
        finally:
            os.close(above)
        for name in ("OUT", "ERR"):
            self._point(f"{stem}.{name}", os.path.join(ATTEMPTS, str(attempt), name))

    def attempt(self, attempt: int) -> int:
        """The descriptor of the folder of an attempt after the first."""
        attempts = os.path.join(self.path, ATTEMPTS)
        above = session_dir.enter(attempts, self.fd)
        try:
            return session_dir.enter(os.path.join(attempts, str(attempt)), above)
        finally:
            os.close(above)

    def _set_aside_first(self, now: str, then: str, attempts: str, above: int) -> None:
        try:
            if not stat.S_ISREG(os.stat(now, dir_fd=self.fd, follow_symlinks=False).st_mode):
                return
        except FileNotFoundError:
            return
        first = _made(os.path.join(attempts, "1"), above)
        try:
            os.rename(now, then, src_dir_fd=self.fd, dst_dir_fd=first)
        finally:
            os.close(first)

    def _point(self, link: str, to: str) -> None:
        fresh = f"{link}.new"
        self._remove(fresh)
        os.symlink(to, fresh, dir_fd=self.fd)
        os.rename(fresh, link, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def _created(self, name: str) -> int:
        """What somebody was cut off at, or planted, goes first."""
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


def _made(path: str, above: int) -> int:
    session_dir.make(path, above)
    return session_dir.enter(path, above)


# ---- The folder of each job ----


_HOST = os.uname().nodename
_UNSAFE = re.compile(r"[^\w.,=+@-]+")


class Files(msgspec.Struct, frozen=True):
    """Where an attempt's output goes; `err` None: both streams into `out`."""

    out: str
    err: str | None


class Folders:
    """Names and prepares the folders under a session's root."""

    def __init__(
        self, root: str, prefix: str = "job_", job_dir: str = "", *, made: bool = False, former: Sequence[Former] = ()
    ) -> None:
        """`made`: the root is ours, and so are the jobs' folders in it."""
        self._root = root
        self._made = made
        self._held: int | None = None
        self.lay_out(Layout(prefix, job_dir), former)

    def hold(self, root: int) -> None:
        """The root is open: everything is reached from there, whatever is at its path."""
        self._held = root

    def lay_out(self, layout: Layout, former: Sequence[Former]) -> None:
        """From now on folders are called so, but for those that were called otherwise before."""
        self.layouts = (layout, tuple(former))

    def folder(self, job: Job) -> str:
        layout = self._layout(job)
        if not layout.job_dir:
            return f"{self._root}/{layout.prefix}{job.id}"
        name = layout.job_dir.format(id=job.id, name=_safe(job.name), project=_safe(job.spec.group or "jobs"))
        return os.path.join(self._root, name)

    def _layout(self, job: Job) -> Layout:
        layout, former = self.layouts
        return next((before.layout for before in former if before.covers(job.id)), layout) if former else layout

    def files(self, job: Job, attempt: int) -> Files:
        """Where the attempt writes."""
        if job.spec.outfile is not None:
            path = os.path.join(job.spec.cwd, job.spec.outfile)
            return Files(path if attempt == 1 else f"{path}.{attempt}", None)
        folder = self.folder(job)
        if attempt == 1:
            stem = f"{folder}/{os.path.basename(folder)}"
            return Files(stem + ".OUT", stem + ".ERR")
        return _own_files(folder, attempt)

    def reached(self, path: str) -> str:
        """Under the very root that we hold, if the path is one of the root's."""
        if self._held is None or not path.startswith(self._root + os.sep):
            return path
        return f"/proc/self/fd/{self._held}{path[len(self._root) :]}"

    def written(self, job: Job, attempt: int) -> Files:
        """Where an attempt's output is now; the first one's moved when the second began."""
        if attempt == 1 and job.issued > 1 and job.spec.outfile is None:
            moved = self.moved(job)
            if os.path.exists(moved.out):
                return moved
        return self.files(job, attempt)

    def moved(self, job: Job) -> Files:
        """Where a first attempt's output is once a second has begun."""
        return _own_files(self.folder(job), 1)

    def has_begun(self, job: Job) -> bool:
        """Whether a job that waits has left traces of an attempt that was not issued to it."""
        if not os.path.lexists(self.folder(job)):
            return False
        first_noted = not job.issued and os.path.lexists(os.path.join(self.folder(job), INFO))
        return first_noted or self.has_output(job, job.issued + 1)

    def has_output(self, job: Job, attempt: int) -> bool:
        """Whether the attempt has left a log that only this user can have made."""
        with suppress(OSError, NotOurs), self.enter(job) as folder:
            name = os.path.relpath(self.files(job, attempt).out, folder.path)
            return os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_uid == os.getuid()
        return False

    def prepare(self, job: Job, attempt: int) -> None:
        """Makes the attempt's folders; may be cut off at any point and called again."""
        made_now = not self._layout(job).job_dir and session_dir.make(self.folder(job), self._held)
        if made_now and attempt == 1:
            return  # nobody can have put anything there yet
        with self.enter(job, make=True) as folder:
            if attempt > 1 and self._made:
                session_dir.keep_others_out(folder.fd)
            if attempt > 1 and job.spec.outfile is None:
                folder.begin(os.path.basename(folder.path), attempt)

    def held(self, job: Job, attempt: int) -> int | None:
        """The folder that the attempt writes to, where others could put another in its place before it does."""
        if job.spec.outfile is not None or not self._others_may_swap(job):
            return None
        folder = self.enter(job)
        if attempt == 1:
            return folder.fd
        with folder:
            return folder.attempt(attempt)

    def _others_may_swap(self, job: Job) -> bool:
        """Also what is between the root and the job's folder may be anybody's."""
        if self._held is None or self._layout(job).job_dir:
            return True
        root = os.fstat(self._held)
        return root.st_uid != os.getuid() or bool(root.st_mode & OTHERS_WRITE)

    def enter(self, job: Job, *, make: bool = False) -> JobFolder:
        """NotOurs if something else stands in its place. `make`: what is missing on the way there."""
        path = self.folder(job)
        entered = self._walk(path, make=make) if self._layout(job).job_dir else session_dir.enter(path, self._held)
        return JobFolder(entered, path)

    def _walk(self, path: str, *, make: bool) -> int:
        """Down from the root; folders on the way may be anybody's, as the root may."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        above = os.open(self._root, flags) if self._held is None else os.open(".", flags, dir_fd=self._held)
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


def _own_files(folder: str, attempt: int) -> Files:
    own = os.path.join(folder, ATTEMPTS, str(attempt))
    return Files(os.path.join(own, "OUT"), os.path.join(own, "ERR"))


def _safe(name: str) -> str:
    """One harmless path component, short enough for every file system."""
    safe = _UNSAFE.sub("_", name).strip(".").encode("utf-8", "replace")[:100]
    return safe.decode("utf-8", "ignore") or "_"


def info(job: Job, git: str = "") -> str:
    """The three lines of gpu-hog first; then what else one wants to know a year later."""
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
    lines += [f"occurrence: {job.spec.occurrence}"] if job.spec.occurrence is not None else []
    lines += [f"wrap: {job.spec.wrap}"] if job.spec.wrap else []
    lines += [f"task: {job.spec.task}"] if job.spec.task else []
    if placed is not None:
        lines += [f"attempt: {placed.attempt}", f"started: {_moment(placed.since)}"]
    elif attempt is not None:
        lines += [f"attempt: {attempt.number}", f"started: {_moment(attempt.started)}"]
        lines += [f"ended: {_moment(attempt.ended)}", f"state: {attempt.end.name}"]
        lines += [f"exit code: {attempt.exit_code}"] if attempt.exit_code is not None else []
        if isinstance(attempt.end, TimedOut):
            lines.append(f"{'silence' if attempt.end.silent else 'time'} limit: {attempt.end.limit:.15g}")
        lines += [f"why: {attempt.said}"] if attempt.said else []
    # What goes on over several lines is indented, so that no value can be taken for another key.
    return "\n".join(line.replace("\n", "\n    ") for line in lines) + "\n" + git


def _moment(at: float) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S %z', time.localtime(at))} ({at:.3f})"


# ---- Which commit each attempt of a job ran at, in the lines of its INFO ----


_COMMIT = re.compile(r"^git commit: (\w+)$", re.MULTILINE)
_DIRTY = re.compile(r"^git dirty: (?:and (\d+) more$)?", re.MULTILINE)
_GIT = re.compile(r"^git (?:commit|dirty): .*\n?", re.MULTILINE)
_ATTEMPT = re.compile(r"^attempt: (\d+)$", re.MULTILINE)
_EARLIER = re.compile(r"^earlier commit: attempt (\d+) at (\w+) with (\d+) changed$", re.MULTILINE)


class Commit(Struct, frozen=True):
    name: str
    changed: int
    """Files that were changed and not committed."""


def commits_in(info: str) -> dict[int, Commit]:
    """By attempt, as far as INFO tells."""
    commits = {int(number): Commit(name, int(changed)) for number, name, changed in _EARLIER.findall(info)}
    attempt, commit = _ATTEMPT.search(info), _COMMIT.search(info)
    if attempt is not None and commit is not None:
        changed = sum(int(more) if more else 1 for more in _DIRTY.findall(info))
        commits[int(attempt[1])] = Commit(commit[1], changed)
    return commits


def with_earlier(git: str, attempt: int, before: str) -> str:
    """The lines on git for a new INFO: `git` is what was found now, `before` the INFO that it replaces."""
    commits = commits_in(before)
    own = "".join(_GIT.findall(before)) if attempt in commits and _is_of(before, attempt) else git
    earlier = [
        f"earlier commit: attempt {number} at {commit.name} with {commit.changed} changed\n"
        for number, commit in sorted(commits.items())
        if number < attempt
    ]
    return own + "".join(earlier)


def _is_of(info: str, attempt: int) -> bool:
    number = _ATTEMPT.search(info)
    return number is not None and int(number[1]) == attempt
