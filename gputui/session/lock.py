"""The session's lock, and what is left of a session in the process table."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

import msgspec

from gputui.process import descriptors

from .errors import SessionBusy, SessionError
from .session_dir import Paths, no_locks, user_name

# ---- The session's lock ----


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
    opening: bool = False
    """It has the lock and has not recovered the session yet."""


class Lock:
    """An flock on a file that is still at its path; freed by the kernel when its last descriptor closes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        descriptors.keep_private(fd)

    def sign(self, kind: OwnerKind, *, opening: bool = False) -> None:
        """Only advice, so a full disk does not keep anybody from owning."""
        text = msgspec.json.encode(Holder(os.getpid(), kind, time.time(), opening)) + b"\n"
        with suppress(OSError):
            os.pwrite(self.fd, text, 0)  # before what was there is cut off: whoever reads meanwhile finds a whole line
            os.ftruncate(self.fd, len(text))

    def release(self) -> None:
        descriptors.close_private(self.fd)


def take(paths: Paths, *, wait: bool = False, create: bool = True) -> Lock | None:
    """The lock, or None if somebody holds it and we do not wait. Without `create` also if it is not the same any more:
    whoever waited for a session must not begin another."""
    flags = os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    while True:
        try:
            fd = descriptors.open_private(paths.lock, flags)
        except OSError as error:
            raise SessionError(
                f"cannot write to the session in {paths.root}: {error.strerror}; {_advice(error)}"
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            replaced = _replaced(paths.lock, fd)
            descriptors.close_private(fd)
            if replaced:
                continue
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
    """Whether somebody has the lock now; one that cannot be asked for counts as free."""
    try:
        fd = descriptors.open_private(paths.lock, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return not _replaced(paths.lock, fd)
    except OSError:
        return False
    finally:
        descriptors.close_private(fd)
    return False


def _advice(error: OSError) -> str:
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "to continue it, copy the folder to where you may write (cp -a) and use the copy"
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
            return msgspec.json.decode(file.readline(4096), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return None


def busy(paths: Paths) -> SessionBusy:
    for pid in _holders(paths.lock).locked:
        user = _user(pid)
        if user not in (None, os.getuid()):
            return SessionBusy(f"{paths.root} is locked by a process of {user_name(user)} (pid {pid})")
    who = holder(paths)
    if who is None:
        return SessionBusy(f"another process holds {paths.root}")
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(who.since))
    return SessionBusy(f"{paths.root} is held by gputui {who.kind} (pid {who.pid}, since {since})")


# ---- A lock that somebody else's process holds ----


class _Holders(NamedTuple):
    locked: set[int]
    """The processes that took it; whoever got its descriptor from one is not named."""
    waiting: set[int]


def _replaced(path: str, fd: int) -> bool:
    """Puts a new lock in the place of one that only another user's process holds, and cannot open any more: it opened
    it while others could look into the folder. No owner is locked out by that, and no two owners come of it: the path
    always leads to a lock that somebody holds, and the old one is back unless the stranger still has it afterwards."""
    if not _is_strangers(fd):
        return False
    fresh, old = f"{path}.new", f"{path}.old"
    with suppress(OSError):
        new = descriptors.open_private(fresh, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            fcntl.flock(new, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _still_there(new, fresh) or not _still_there(fd, path):
                return False  # another does the same
            with suppress(FileNotFoundError):
                os.unlink(old)
            os.link(path, old)
            os.rename(fresh, path)
            if _is_strangers(fd):
                os.unlink(old)
                return True
            os.rename(old, path)
        finally:
            descriptors.close_private(new)
    return False


def _is_strangers(fd: int) -> bool:
    """Whether only processes of other users hold it, and none of ours has it open that does not wait for it."""
    locked, waiting = _holders(fd)
    users = {_user(pid) for pid in locked}
    if not users or not users.isdisjoint((None, os.getuid())):
        return False
    file = os.fstat(fd)
    return not any(_may_have_open(pid, file) for pid in _own_processes() - waiting - {os.getpid()})


def _holders(lock: str | int) -> _Holders:
    """As the kernel tells; nobody on a file system that numbers its files otherwise."""
    holders = _Holders(set(), set())
    with suppress(OSError, ValueError, IndexError):
        about = os.stat(lock)
        file = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
        with open("/proc/locks") as lines:
            for line in lines:
                _, *words = line.split()
                waits = words[0] == "->"
                kind, _, _, pid, where, *_ = words[1:] if waits else words
                if kind == "FLOCK" and where == file:
                    (holders.waiting if waits else holders.locked).add(int(pid))
    return holders


def _user(pid: int) -> int | None:
    """The real user of a process, whoever its files in /proc belong to; None: it is not there."""
    line = next((line for line in _content(pid, "status").split(b"\n") if line.startswith(b"Uid:")), b"")
    return int(line.split()[1]) if line else None


def _own_processes() -> set[int]:
    return {pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _user(pid) == os.getuid()}


def _may_have_open(pid: int, file: os.stat_result) -> bool:
    """Of one whose descriptors we may not see, such as sshd's, its words tell whether it can be an owner."""
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), file):
                    return True
    except FileNotFoundError:
        return False
    except OSError:
        return any(word in _content(pid, "cmdline") for word in (b"python", b"pypy", b"gputui"))
    return False


# ---- What is left of a session in the process table ----


def left_of(root: str) -> Iterator[tuple[int, str]]:
    """Processes that bear a run's token of this session, and keepers of it."""
    token = b"\0GPUTUI_RUN="
    home = b"\0GPUTUI_SESSION=" + os.fsencode(root) + b"\0"
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if pid == os.getpid() or not is_alive(pid):
            continue
        environment = b"\0" + _content(pid, "environ")
        words = _content(pid, "cmdline").split(b"\0")
        if token in environment and home in environment:
            yield pid, f"of job {_variable(environment, b'GPUTUI_JOB_ID')}: {_shown(words)}"
        elif b"keep" in words and os.fsencode(root) in words:
            yield pid, "a keeper of this session"


def is_alive(pid: int, started: int | None = None) -> bool:
    """`started`: in clock ticks since boot; a later process of the same number does not count."""
    fields = _content(pid, "stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] not in (b"Z", b"X") and started in (None, int(fields[19]))


def unknown_since(moment: float, root: str, cwds: Collection[str]) -> Iterator[tuple[int, str]]:
    """Daemons that jobs of this session may have left: begun since, where jobs ran (`cwds`, or in the session), and
    with an environment that does not say whose they are."""
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        words = _content(pid, "cmdline").split(b"\0")
        try:
            leads = os.getsid(pid) == pid and os.stat(f"/proc/{pid}").st_uid == os.getuid()
            if not leads or not words[0] or not is_alive(pid) or _names_somebody(pid) or _began(pid) < moment:
                continue
            cwd = os.readlink(f"/proc/{pid}/cwd")
            if (cwd in cwds and cwd != "/") or f"{cwd}/".startswith(f"{root}/"):  # in / is every daemon
                yield pid, _shown(words)
        except OSError:
            continue


def _names_somebody(pid: int) -> bool:
    """Who empties the environment of a program gives up what every login gives."""
    with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
        environment = b"\0" + file.read()
    return any(name in environment for name in (b"\0HOME=", b"\0USER=", b"\0LOGNAME=", b"\0GPUTUI_"))


def _began(pid: int) -> float:
    ticks = int(_content(pid, "stat").rpartition(b")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def _content(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _variable(environment: bytes, name: bytes) -> str:
    after = environment.partition(b"\0" + name + b"=")[2]
    return after.partition(b"\0")[0].decode("utf-8", "replace") or "?"


def _shown(words: list[bytes]) -> str:
    return b" ".join(words).decode("utf-8", "replace").strip()[:100]
