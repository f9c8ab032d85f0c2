"""Leases: how gputui users of one machine keep off each other's devices."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, islice

from msgspec import Struct

# ---- Which files of the folder that all users share may be leases ----


PREFIX = "gputui-lease."
MOST_OF_A_USER = 64
"""Names of one user on one device that are looked at; nobody runs as many jobs on a card."""
MOST_AT_ONCE = 256
"""Names of one device that are looked at in one look."""
_SETTLED_NS = 50_000_000
"""A folder that changed so shortly before it was listed may have changed after it, within one tick of its clock."""


class LeaseNames:
    """Lists the folder only when it has changed, and remembers which names turned out to be nobody's lease."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._listed_at = -1
        self._known: frozenset[str] = frozenset()
        self._worth: dict[str, dict[str, dict[str, None]]] = {}
        """Names by device and by the user that they claim."""

    def of(self, device: str, first: Iterable[str] = ()) -> list[str]:
        """Those worth opening; `first` are names that must not be crowded out."""
        self._list()
        users = self._worth.get(device, {})
        some_of_each = chain.from_iterable(islice(names, MOST_OF_A_USER) for names in users.values())
        wanted = dict.fromkeys(chain((name for name in first if name in self._known), some_of_each))
        return list(islice(wanted, MOST_AT_ONCE))

    def strike(self, name: str) -> None:
        """It is not what it says, and never will be: in a sticky folder nobody can put another file in its place."""
        _, device, user, *_ = name.split(".")
        self._worth.get(device, {}).get(user, {}).pop(name, None)

    def _list(self) -> None:
        try:
            changed_at = os.stat(self._folder).st_mtime_ns
            if changed_at == self._listed_at:
                return
            names = frozenset(name for name in os.listdir(self._folder) if name.startswith(PREFIX))
        except OSError:
            changed_at, names = -1, frozenset()
        self._listed_at = changed_at if time.time_ns() - changed_at > _SETTLED_NS else -1
        before, self._known = self._known, names
        for name in before - names:
            self._forget(name)
        for name in names - before:
            self._learn(name)

    def _learn(self, name: str) -> None:
        parts = name.split(".")
        if len(parts) == 5:
            self._worth.setdefault(parts[1], {}).setdefault(parts[2], {})[name] = None

    def _forget(self, name: str) -> None:
        parts = name.split(".")
        if len(parts) == 5:
            users = self._worth[parts[1]]
            names = users.get(parts[2], {})
            names.pop(name, None)
            if not names:
                users.pop(parts[2], None)


# ---- Between gputui users of one machine ----


SHARED_FOLDERS = ("/run/lock", "/dev/shm", "/tmp")
"""The first that everybody may write to: some systems close /run/lock, on others /tmp is private to a user."""

FOLDER_VARIABLE = "GPUTUI_LEASES"
"""Names another folder instead, so that tests side by side do not wait for each other's devices."""

OVERRIDE_AFTER = 60.0
"""Seconds after which a lease with nothing on the card may be overridden."""

_RETRY = 0.005
_LONGEST_TEST = 0.1
"""Seconds for others to finish looking at a file that we just made."""
_READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SAFE_NAME = re.compile(r"[^A-Za-z0-9_-]")


class Lease(Struct, frozen=True):
    """Somebody's claim on a device, held at this moment."""

    device: str
    uid: int
    session: str
    since: float
    """When this process first saw it, by the clock that nobody sets: its file's times are its owner's to change."""

    def may_be_overridden(self, now: float) -> bool:
        """Provided that nothing is on the card, which the caller knows."""
        return now - self.since > OVERRIDE_AFTER


class Leases:
    """The leases of one session: `session` is a short name of it that no other session of the user has."""

    def __init__(self, session: str, folder: str | None = None) -> None:
        self.folder = folder or shared_folder()
        self._session = _SAFE_NAME.sub("_", session)
        self._names = LeaseNames(self.folder)
        self._held_before: dict[str, dict[str, float]] = {}
        """By device: the names that were held at the last look, and since when we know."""

    @contextmanager
    def gate(self, devices: Iterable[str], patience: float = 0.1) -> Iterator[bool]:
        """While it is open nobody else chooses these devices; False: not to be had in time, go on without."""
        deadline = time.monotonic() + patience
        with ExitStack() as stack:
            yield all(self._pass(device, deadline, stack) for device in sorted(set(devices)))

    def _pass(self, device: str, deadline: float, stack: ExitStack) -> bool:
        fd = self._open_gate(device)
        if fd is None:
            return False
        stack.callback(os.close, fd)
        return _locked_by(fd, fcntl.LOCK_EX, deadline)

    def _open_gate(self, device: str) -> int | None:
        path = os.path.join(self.folder, f"gputui-gate.{_SAFE_NAME.sub('_', device)}")
        for _ in range(3):
            for opened in (_open_plain, _make):
                if (fd := opened(path)) is not None:
                    return fd
        return None

    def others(self, device: str) -> list[Lease]:
        """Leases held by other users, and by other sessions of this one."""
        device = _SAFE_NAME.sub("_", device)
        before = self._held_before.get(device, {})
        now = time.monotonic()
        held = {}
        for name in self._names.of(device, before):
            lease = self._held(name, before.get(name, now))
            if lease is not None:
                held[name] = lease
        self._held_before[device] = {name: lease.since for name, lease in held.items()}
        mine = (os.getuid(), self._session)
        return [lease for lease in held.values() if (lease.uid, lease.session) != mine]

    def take(self, devices: Iterable[str]) -> int | None:
        """A descriptor that holds a lease on all of them, until the last copy of it is closed. None: no luck.

        Give a copy to the wrapper and close this one: then the lease lasts as long as the job. It is one file under
        a name for each device, for a wrapper can hold few descriptors.
        """
        first, *others = self._new_names(devices) or ("",)
        if not first or (fd := _make(first)) is None:
            return None
        if not _locked_by(fd, fcntl.LOCK_SH, time.monotonic() + _LONGEST_TEST):
            os.close(fd)
            _remove(first)
            return None
        for name in others:
            with suppress(OSError):
                os.link(first, name)
        return fd

    def _new_names(self, devices: Iterable[str]) -> list[str]:
        mark = f"{os.getuid()}.{self._session}.{os.urandom(4).hex()}"
        names = []
        for device in dict.fromkeys(devices):
            self._sweep(device)
            names.append(os.path.join(self.folder, f"{PREFIX}{_SAFE_NAME.sub('_', device)}.{mark}"))
        return names

    def _held(self, name: str, since: float) -> Lease | None:
        """None for what is not held, or is not what its name says."""
        fd = self._open_honest(name)
        if fd is None:
            return None
        try:
            _, device, uid, session, _ = name.split(".")
            return None if _locked(fd, fcntl.LOCK_EX) else Lease(device, int(uid), session, since)
        finally:
            os.close(fd)

    def _open_honest(self, name: str) -> int | None:
        """None: it is gone, or it is none of the user's that its name claims."""
        try:
            fd = os.open(os.path.join(self.folder, name), _READ_ONLY)
        except OSError as error:
            if error.errno == errno.ELOOP:
                self._names.strike(name)
            return None  # others may be about to be readable
        about = os.fstat(fd)
        if stat.S_ISREG(about.st_mode) and name.split(".")[2] == str(about.st_uid):
            return fd
        os.close(fd)
        self._names.strike(name)
        return None

    def _sweep(self, device: str) -> None:
        """Removes this user's files that nobody holds any more, but no young one of another session, which may be
        about to be held; what other users leave goes with the next boot."""
        me = str(os.getuid())
        for name in self._names.of(_SAFE_NAME.sub("_", device)):
            _, _, uid, session, _ = name.split(".")
            fd = self._open_honest(name) if uid == me else None
            if fd is not None:
                ours = session == self._session or time.time() - os.fstat(fd).st_ctime > OVERRIDE_AFTER
                if ours and _locked(fd, fcntl.LOCK_EX):
                    _remove(os.path.join(self.folder, name))
                os.close(fd)


def shared_folder() -> str:
    """A folder in which everybody may make files and nobody can remove another's."""
    named = os.environ.get(FOLDER_VARIABLE)
    return named or next((folder for folder in SHARED_FOLDERS if _is_shared(folder)), SHARED_FOLDERS[-1])


def _is_shared(folder: str) -> bool:
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    wanted = stat.S_ISVTX | stat.S_IWOTH | stat.S_IXOTH
    return stat.S_ISDIR(about.st_mode) and about.st_uid == 0 and about.st_mode & wanted == wanted


def _open_plain(path: str) -> int | None:
    try:
        fd = os.open(path, _READ_ONLY)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _make(path: str) -> int | None:
    """A new file that others can read, and so lock, whatever our umask is."""
    try:
        fd = os.open(path, _MAKE, 0o644)
    except OSError:
        return None
    os.fchmod(fd, 0o644)
    return fd


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _locked_by(fd: int, kind: int, deadline: float) -> bool:
    while not _locked(fd, kind):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_RETRY)
    return True


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
