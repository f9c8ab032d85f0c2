"""The lock of a session, and the processes that a session has left behind."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum

import msgspec

from gputui.process import descriptors, processes

from .errors import SessionBusy, SessionError
from .session_dir import Paths, no_locks, user_name

COOL_DOWN = 10.0
"""Seconds after the failure of a daemon during which no daemon takes the lock."""


class OwnerKind(StrEnum):
    APP = "app"
    RUN = "run"
    DAEMON = "daemon"
    CLIENT = "client"


class Holder(msgspec.Struct, frozen=True):
    """What the holder of the lock wrote into the lock file. It does not decide who holds the lock."""

    pid: int
    kind: OwnerKind
    since: float
    opening: bool = False
    """Whether the holder has not recovered the session yet."""
    failed: bool = False
    """Whether the holder was a daemon that failed soon after it took over. Then `since` is when it failed."""

    @property
    def cool_down(self) -> float:
        """Seconds for which daemons leave the session to other processes, because they might fail in the same way."""
        return max(0.0, COOL_DOWN - abs(time.time() - self.since)) if self.failed else 0.0


class Lock:
    """An flock on the lock file. The kernel releases it when the last copy of the descriptor is closed."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        descriptors.keep_private(fd)

    def sign(self, kind: OwnerKind, *, opening: bool = False, failed: bool = False) -> bool:
        """Write our pid and kind into the lock file. Return False if that fails, for example on a full disk."""
        text = msgspec.json.encode(Holder(os.getpid(), kind, time.time(), opening, failed)) + b"\n"
        with suppress(OSError):
            os.pwrite(self.fd, text, 0)  # truncated afterwards, so that readers always find a complete line
            os.ftruncate(self.fd, len(text))
            return True
        return False

    def release(self) -> None:
        descriptors.close_private(self.fd)


def take(paths: Paths, *, wait: bool = False, create: bool = True) -> Lock | None:
    """Take the lock and return it. If it is held by another process, wait if `wait` is set, otherwise return None.

    Without `create`, also return None if the lock file was removed or replaced, because a process that waited must not
    start a new session.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    while True:
        try:
            fd = descriptors.open_private(paths.lock, flags)
        except OSError as error:
            advice = "choose another --output-dir"
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                advice = "to continue it, copy the directory to where you may write (cp -a) and use the copy"
            raise SessionError(f"cannot write to the session in {paths.root}: {error.strerror}; {advice}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            descriptors.close_private(fd)
            return None
        except OSError as error:
            descriptors.close_private(fd)
            raise no_locks(paths.root, error) from error
        if _still_there(fd, paths.lock):
            return Lock(fd)
        descriptors.close_private(fd)
        if not create:
            return None


def is_held(paths: Paths) -> bool:
    """Return whether the lock is held. A lock file that cannot be opened counts as free."""
    try:
        fd = descriptors.open_private(paths.lock, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        descriptors.close_private(fd)
    return False


def _still_there(fd: int, path: str) -> bool:
    """Return whether the path still leads to the locked file. If not, the lock is worthless."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def holder(paths: Paths) -> Holder | None:
    try:
        with open(paths.lock, "rb") as file:
            return msgspec.json.decode(file.readline(4096), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return None


def busy(paths: Paths) -> SessionBusy:
    for pid in _lockers(paths.lock):
        user = _user(pid)
        if user not in (None, os.getuid()):
            return SessionBusy(f"{paths.root} is locked by a process owned by {user_name(user)} (pid {pid})")
    owner = holder(paths)
    if owner is None:
        return SessionBusy(f"{paths.root} is in use by another process")
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(owner.since))
    return SessionBusy(f"{paths.root} is in use by gputui {owner.kind} (pid {owner.pid}, since {since})")


def _lockers(path: str) -> set[int]:
    """Return the pids that hold a lock on the file, from /proc/locks. The result is empty on file systems that use
    other inode numbers there.
    """
    pids: set[int] = set()
    with suppress(OSError, ValueError, IndexError):
        about = os.stat(path)
        file = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
        with open("/proc/locks") as lines:
            for line in lines:
                kind, _, _, pid, where, *_ = line.split()[1:]  # the line of a waiting process has an arrow here instead
                if kind == "FLOCK" and where == file:
                    pids.add(int(pid))
    return pids


def _user(pid: int) -> int | None:
    """Return the real uid of a process. It is read from `status`, because the files in /proc may belong to root."""
    line = next((line for line in _content(pid, "status").split(b"\n") if line.startswith(b"Uid:")), b"")
    return int(line.split()[1]) if line else None


# Leftover processes


def find_leftover_processes(root: str) -> Iterator[tuple[int, str]]:
    """Yield the pid and a description of this session's daemons and of processes that carry the token of one of its
    jobs.
    """
    token = b"\0GPUTUI_RUN="
    home = b"\0GPUTUI_SESSION=" + os.fsencode(root) + b"\0"
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if pid == os.getpid() or not is_alive(pid):
            continue
        environment = b"\0" + _content(pid, "environ")
        words = _content(pid, "cmdline").split(b"\0")
        if token in environment and home in environment:
            yield pid, f"of job {_variable(environment, b'GPUTUI_JOB_ID')}: {_shown(words)}"
        elif b"daemon" in words and os.fsencode(root) in words:
            yield pid, "a daemon of this session"


def is_alive(pid: int, started: int | None = None) -> bool:
    """Return whether the process is alive. `started`, in clock ticks since boot, distinguishes it from a later process
    with the same pid.
    """
    stat = processes.parse_stat(_content(pid, "stat"))
    return stat is not None and stat.alive and started in (None, stat.started)


def _content(pid: int, name: str) -> bytes:
    return processes.read_bytes(f"/proc/{pid}/{name}", 1 << 30)


def _variable(environment: bytes, name: bytes) -> str:
    after = environment.partition(b"\0" + name + b"=")[2]
    return after.partition(b"\0")[0].decode("utf-8", "replace") or "?"


def _shown(words: list[bytes]) -> str:
    return b" ".join(words).decode("utf-8", "replace").strip()[:100]
