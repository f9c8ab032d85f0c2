"""The session's lock: the kernel's word on who owns the session, whatever became of the process."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from enum import StrEnum

import msgspec

from gputui.process import forks
from gputui.session.errors import SessionBusy, SessionError
from gputui.session.files.paths import Paths


class OwnerKind(StrEnum):
    APP = "app"
    RUN = "run"
    KEEPER = "keeper"
    CLIENT = "client"


class Holder(msgspec.Struct, frozen=True):
    """Who holds the lock, as they wrote it into the file; only advice, the lock itself is the truth."""

    pid: int
    kind: OwnerKind
    since: float


class Lock:
    """An flock on a file that is still at its path; freed by the kernel when its last descriptor closes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        forks.keep(fd)

    def sign(self, kind: OwnerKind) -> None:
        """Only advice, so a full disk does not keep anybody from owning."""
        text = msgspec.json.encode(Holder(os.getpid(), kind, time.time())) + b"\n"
        with suppress(OSError):
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, text, 0)

    def release(self) -> None:
        forks.close(self.fd)


def take(paths: Paths, *, wait: bool = False, create: bool = True) -> Lock | None:
    """The lock, or None if somebody holds it and we do not wait. Without `create` also if it is not the same any more:
    whoever waited for a session must not begin another."""
    flags = os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    while True:
        try:
            fd = forks.opened(paths.lock, flags)
        except OSError as error:
            raise SessionError(f"cannot use the session in {paths.root}: {error.strerror}; {_advice(error)}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            forks.close(fd)
            return None
        if _still_there(fd, paths.lock):
            return Lock(fd)
        forks.close(fd)
        if not create:
            return None


def _advice(error: OSError) -> str:
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "to look at it, or to go on with it, copy the folder to where you may write (cp -a) and use the copy"
    return "choose another --output-dir"


def _still_there(fd: int, path: str) -> bool:
    """A lock on a file that was deleted meanwhile would keep nobody out."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def holder(paths: Paths) -> Holder | None:
    try:
        with open(paths.lock, "rb") as file:
            return msgspec.json.decode(file.read(4096), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return None


def busy(paths: Paths) -> SessionBusy:
    who = holder(paths)
    if who is None:
        return SessionBusy(f"another process holds {paths.root}")
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(who.since))
    return SessionBusy(f"{paths.root} is held by gputui {who.kind} (pid {who.pid}, since {since})")
