"""The folder of each job: where its output goes, what INFO says, and which marker its end leaves.

Attempt 1 writes straight into the folder, as gpu-hog did. From the second on each attempt has a folder of its own,
the first one's files move beside them, and the old names are links to the newest.
"""

from __future__ import annotations

import errno
import os
import re
import time
from contextlib import suppress

import msgspec

from gputui.core.job import Attempt, Job, Succeeded

SUCCESS, FAILURE = "SUCCESS", "FAILURE"
_HOST = os.uname().nodename
_UNSAFE = re.compile(r"[^\w.,=+@-]+")


class Files(msgspec.Struct, frozen=True):
    """Where an attempt's output goes; `err` None: both streams into `out`."""

    out: str
    err: str | None


class Folders:
    """Names and prepares the folders under a session's root."""

    def __init__(self, root: str, prefix: str = "job_", job_dir: str = "") -> None:
        self._root = root
        self._stem = os.path.join(root, prefix)
        self._template = job_dir

    def folder(self, job: Job) -> str:
        if not self._template:
            return f"{self._stem}{job.id}"
        name = self._template.format(id=job.id, name=_safe(job.name), project=_safe(job.spec.group or "jobs"))
        return os.path.join(self._root, name)

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

    def written(self, job: Job, attempt: int) -> Files:
        """Where an attempt's output is now; the first one's moved when the second began."""
        if attempt == 1 and job.issued > 1 and job.spec.outfile is None:
            moved = _own_files(self.folder(job), 1)
            if os.path.exists(moved.out):
                return moved
        return self.files(job, attempt)

    def prepare(self, job: Job, attempt: int) -> None:
        """Makes the attempt's folders; may be cut off at any point and called again."""
        folder = self.folder(job)
        try:
            os.mkdir(folder)
        except FileExistsError:
            pass
        except FileNotFoundError:
            os.stat(self._root)  # a session that was taken away is not made again
            os.makedirs(folder, exist_ok=True)
        if attempt > 1 and job.spec.outfile is None:
            self._set_aside_first(job, folder)
            self._point_to(job, folder, attempt)

    def _set_aside_first(self, job: Job, folder: str) -> None:
        first, moved = self.files(job, 1), _own_files(folder, 1)
        for now, then in ((first.out, moved.out), (first.err, moved.err)):
            if now is not None and then is not None and os.path.isfile(now) and not os.path.islink(now):
                os.makedirs(os.path.dirname(then), exist_ok=True)
                os.rename(now, then)

    def _point_to(self, job: Job, folder: str, attempt: int) -> None:
        os.makedirs(os.path.dirname(_own_files(folder, attempt).out), exist_ok=True)
        first = self.files(job, 1)
        for name, link in (("OUT", first.out), ("ERR", first.err)):
            assert link is not None
            fresh = f"{link}.new"
            with suppress(FileNotFoundError):
                os.unlink(fresh)
            os.symlink(os.path.join("attempts", str(attempt), name), fresh)
            os.replace(fresh, link)

    def clear_markers(self, job: Job) -> None:
        folder = self.folder(job)
        for marker in (SUCCESS, FAILURE):
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(os.path.join(folder, marker))

    def mark(self, job: Job, attempt: Attempt, claim: str) -> bool:
        """The claim, emptied, becomes the marker: one file less to make and one to remove. False: it was gone."""
        succeeded = isinstance(attempt.end, Succeeded)
        folder = self.folder(job)
        # An attempt that a rolled-back store issued anew finds the marker of the one before.
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(os.path.join(folder, FAILURE if succeeded else SUCCESS))
        path = os.path.join(folder, SUCCESS if succeeded else FAILURE)
        try:
            os.truncate(claim, 0)
            os.rename(claim, path)
        except OSError:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
            return False
        return True

    def write_info(self, job: Job, git: str = "") -> None:
        # Every call lets the owner's thread wait for ours: open() would make three more.
        text = info(job, git).encode("utf-8", "replace")
        fd = os.open(f"{self.folder(job)}/INFO", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            if os.write(fd, text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)


def _own_files(folder: str, attempt: int) -> Files:
    own = os.path.join(folder, "attempts", str(attempt))
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
        lines += [f"why: {attempt.signature}"] if attempt.signature else []
    # What goes on over several lines is indented, so that no value can be taken for another key.
    return "\n".join(line.replace("\n", "\n    ") for line in lines) + "\n" + git


def _moment(at: float) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S %z', time.localtime(at))} ({at:.3f})"
