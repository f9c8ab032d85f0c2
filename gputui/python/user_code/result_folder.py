"""A task's result folder and scheduler.log."""

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

# ---- A task's result folder ----


NOTE = ".gputui-task"
STARTED, SUCCEEDED = "started", "succeeded"


class ResultNote:
    """What gputui knows about a result folder; one without a note was made by another tool."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, NOTE)

    def started(self) -> None:
        self._write(STARTED)

    def succeeded(self) -> None:
        self._write(SUCCEEDED)

    def read(self) -> str | None:
        """The word of the newest attempt; None: there is no note."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                return file.read(200).partition(" ")[0]
        except OSError:
            return None

    def _write(self, word: str) -> None:
        variable = os.environ.get
        who = f"job {variable('GPUTUI_JOB_ID')}, attempt {variable('GPUTUI_ATTEMPT')} of {variable('GPUTUI_SESSION')}"
        fresh = f"{self._path}.{os.getpid()}"
        with open(fresh, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"{word} {who}\n")
        os.replace(fresh, self._path)


class Occupied(Exception):
    """Another task is at work in this folder."""


_held: list[int] = []


def occupy(folder: str) -> None:
    """For as long as this process lives. A file system without locks is taken as free."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    _held.append(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Occupied(f"another task is at work in {folder}; this one would disturb it") from None
    except OSError:
        pass


def is_at_work(folder: str) -> bool:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
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


def make_folder(path: str) -> None:
    """A new one appears with its note already in it: without one it would be skipped for ever."""
    folder = os.path.abspath(path)
    if not os.path.isdir(folder):
        parent = os.path.dirname(folder)
        os.makedirs(parent, exist_ok=True)
        fresh = tempfile.mkdtemp(prefix=".gputui-", dir=parent)
        os.chmod(fresh, 0o777 & ~_umask())
        ResultNote(fresh).started()
        os.rename(fresh, folder)
        occupy(folder)
    else:
        occupy(folder)
        ResultNote(folder).started()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def follow_log(path: str) -> None:
    """Lets the task's log be found in its result folder too: the same file under a second name."""
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
        print(f"gputui: {path} cannot be written: {error.strerror}; the output is in {written}", file=sys.stderr)


# ---- scheduler.log ----


class SchedulerLog:
    """Written by each task's own process, so that it does not matter who schedules. None: there is none."""

    def __init__(self, path: str | None, task: str, who: str | None = None) -> None:
        """`who`: instead of the GPU that this process has."""
        self._path = path
        self._task = task
        self._who = who or f"gpu{os.environ.get('CUDA_VISIBLE_DEVICES', '')}"

    def write(self, verb: str, why: str = "") -> None:
        if self._path is None:
            return
        moment = time.strftime("%a, %d %b %Y %H:%M:%S")
        line = f"{moment} gputui INFO {self._who} {verb} task {self._task}{why}\n"
        with suppress(OSError), open(self._path, "a", encoding="utf-8", errors="replace") as file:
            file.write(line)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """How the task ended. One that is killed leaves no line: it did not finish."""
        try:
            yield
        except SystemExit as leaving:
            self.write(*(("finishes",) if leaving.code in (None, 0) else ("fails", f": exit code {leaving.code}")))
            raise
        except BaseException as error:
            self.write("fails", f": {words(error)}")
            raise
        self.write("finishes")
