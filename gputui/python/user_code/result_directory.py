"""The result directory of a task, and scheduler.log."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .modules import words

NOTE = ".gputui-task"
STARTED, SUCCEEDED = "started", "succeeded"


def write_note(directory: str, state: str) -> None:
    """Note the state of the newest attempt in its result directory."""
    variable = os.environ.get
    who = f"job {variable('GPUTUI_JOB_ID')}, attempt {variable('GPUTUI_ATTEMPT')} of {variable('GPUTUI_SESSION')}"
    path = os.path.join(directory, NOTE)
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8", errors="replace") as file:
        file.write(f"{state} {who}\n")
    os.replace(fresh, path)


def read_note(directory: str) -> str | None:
    """Return the state in a result directory. Return None if there is no note, because another tool created it."""
    try:
        with open(os.path.join(directory, NOTE), encoding="utf-8", errors="replace") as file:
            return file.read(200).partition(" ")[0]
    except OSError:
        return None


class Occupied(Exception):
    """Raised when another task is using the directory."""


_held: list[int] = []


def occupy(directory: str) -> None:
    """Lock a directory until this process ends. If the file system has no locks, the directory counts as free."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    _held.append(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Occupied(f"another task is running in {directory}") from None
    except OSError:
        pass


def is_occupied(directory: str) -> bool:
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def make_directory(path: str) -> None:
    """Create a directory together with its note. A directory without a note would be skipped on every run."""
    directory = os.path.abspath(path)
    if not os.path.isdir(directory):
        parent = os.path.dirname(directory)
        os.makedirs(parent, exist_ok=True)
        fresh = tempfile.mkdtemp(prefix=".gputui-", dir=parent)
        mask = os.umask(0o077)
        os.umask(mask)
        os.chmod(fresh, 0o777 & ~mask)
        write_note(fresh, STARTED)
        os.rename(fresh, directory)
        occupy(directory)
    else:
        occupy(directory)
        write_note(directory, STARTED)


def link_log(path: str) -> None:
    """Create a link to the task's log in its result directory."""
    if not stat.S_ISREG(os.fstat(1).st_mode):
        return
    written, fresh = os.readlink("/proc/self/fd/1"), f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.link(written, fresh)
        except OSError:  # another file system
            os.symlink(written, fresh)
        os.replace(fresh, path)
    except OSError as error:
        print(f"gputui: cannot write {path}: {error.strerror}; the output is in {written}", file=sys.stderr)


class SchedulerLog:
    """The file scheduler.log, to which the process of each task writes."""

    def __init__(self, path: str | None, task: str, who: str | None = None) -> None:
        """Log to the file `path`, or nowhere if it is None. `who` replaces the GPU of the process in the entries."""
        self._path = path
        self._task = task
        self._who = who or f"gpu{os.environ.get('CUDA_VISIBLE_DEVICES', '')}"

    def write(self, action: str, why: str = "") -> None:
        if self._path is None:
            return
        moment = time.strftime("%a, %d %b %Y %H:%M:%S")
        line = f"{moment} gputui INFO {self._who} {action} task {self._task}{why}\n"
        with suppress(OSError), open(self._path, "a", encoding="utf-8", errors="replace") as file:
            file.write(line)

    @contextmanager
    def log_end(self) -> Iterator[None]:
        """Log how the task ended. No line is written if the task is killed."""
        try:
            yield
        except SystemExit as leaving:
            self.write(*(("finishes",) if leaving.code in (None, 0) else ("fails", f": exit code {leaving.code}")))
            raise
        except BaseException as error:
            self.write("fails", f": {words(error)}")
            raise
        self.write("finishes")
