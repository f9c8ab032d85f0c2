"""Leases: files by which the users of gputui on one machine avoid each other's devices."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from msgspec import Struct

from gputui.core.regex import lazy_regex

PREFIX = "gputui-lease."
MOST_OF_A_USER = 64
"""Maximum number of files opened per user and device. Real users have fewer jobs on a GPU."""
_SETTLED_NS = 50_000_000
"""Nanoseconds for which a directory may change again without a new mtime."""

SHARED_DIRECTORIES = ("/run/lock", "/dev/shm", "/tmp")
"""Candidates for the shared directory. The first one that all users can write to is used.

Some systems do not allow writing to /run/lock, and others give each user a private /tmp.
"""

DIRECTORY_VARIABLE = "GPUTUI_LEASES"
"""Name of the variable that overrides the shared directory in tests."""

OVERRIDE_AFTER = 60.0
"""Seconds after which a lease may be ignored if nothing runs on the GPU."""

_RETRY = 0.005
_LONGEST_TEST = 0.1
"""Maximum seconds to wait while other sessions check a newly created file."""
_READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SAFE_NAME = lazy_regex(r"[^A-Za-z0-9_-]")


class Lease(Struct, frozen=True):
    """A lease on a device that is currently held."""

    device: str
    uid: int
    session: str
    since: float
    """Time when this session first saw the lease, on the monotonic clock. The file's own times could be forged."""

    def may_be_overridden(self, now: float) -> bool:
        """Return whether the lease may be ignored if nothing runs on the GPU."""
        return now - self.since > OVERRIDE_AFTER


class Leases:
    """The leases of one session. `session` is a short name that is unique for the user."""

    def __init__(self, session: str, directory: str | None = None) -> None:
        self.directory = directory or shared_directory()
        self._session = _SAFE_NAME.sub("_", session)
        self._listed_at = -1
        self._listed: list[str] = []
        """Names of all lease files, cached until the directory changes."""
        self._held_before: dict[str, dict[str, float]] = {}
        """For each device, the names of the leases held at the last check, with the times when they were first seen."""

    @contextmanager
    def gate(self, devices: Iterable[str], patience: float = 0.1) -> Iterator[bool]:
        """Lock the devices, so that no other session chooses them meanwhile. Yield False if this took too long."""
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
        path = os.path.join(self.directory, f"gputui-gate.{_SAFE_NAME.sub('_', device)}")
        for _ in range(3):
            if (fd := _open(path)) is not None or (fd := _make(path)) is not None:
                return fd
        return None

    def others(self, device: str) -> list[Lease]:
        """Return the leases held by other users and by other sessions of this user."""
        device = _SAFE_NAME.sub("_", device)
        before = self._held_before.get(device, {})
        now = time.monotonic()
        held = {}
        for name in self._names(device):
            lease = self._held(name, before.get(name, now))
            if lease is not None:
                held[name] = lease
        self._held_before[device] = {name: lease.since for name, lease in held.items()}
        mine = (os.getuid(), self._session)
        return [lease for lease in held.values() if (lease.uid, lease.session) != mine]

    def take(self, devices: Iterable[str]) -> int | None:
        """Take a lease on all devices, and return a descriptor that holds it until the last copy is closed.

        Return None if the lease could not be taken. The wrapper keeps a copy, so the lease lasts as long as the job.
        The lease is a single file with a hard link for each device, because a wrapper can hold only a few descriptors.
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
            names.append(os.path.join(self.directory, f"{PREFIX}{_SAFE_NAME.sub('_', device)}.{mark}"))
        return names

    def _names(self, device: str) -> Iterator[str]:
        """Yield the device's lease files. A file that does not belong to the user in its name is forged and omitted."""
        counts: Counter[int] = Counter()
        for name in self._list():
            parts = name.split(".")
            if len(parts) == 5 and parts[1] == device:
                with suppress(OSError):
                    about = os.lstat(os.path.join(self.directory, name))
                    if _is_honest(about, name) and counts[about.st_uid] < MOST_OF_A_USER:
                        counts[about.st_uid] += 1
                        yield name

    def _list(self) -> list[str]:
        try:
            changed_at = os.stat(self.directory).st_mtime_ns
            if changed_at != self._listed_at:
                self._listed = [name for name in os.listdir(self.directory) if name.startswith(PREFIX)]
                self._listed_at = changed_at if time.time_ns() - changed_at > _SETTLED_NS else -1
        except OSError:
            self._listed, self._listed_at = [], -1
        return self._listed

    def _held(self, name: str, since: float) -> Lease | None:
        """Return the lease of a file, or None if the lease is not held or not valid."""
        fd = self._open_honest(name)
        if fd is None:
            return None
        try:
            _, device, uid, session, _ = name.split(".")
            return None if _locked(fd, fcntl.LOCK_EX) else Lease(device, int(uid), session, since)
        finally:
            os.close(fd)

    def _open_honest(self, name: str) -> int | None:
        """Open a lease. Return None if it is gone or does not belong to the user in its name."""
        return _open(os.path.join(self.directory, name), lambda about: _is_honest(about, name))

    def _sweep(self, device: str) -> None:
        """Remove lease files of this user that are not held, except new ones that other sessions may soon lock."""
        me = str(os.getuid())
        for name in self._names(_SAFE_NAME.sub("_", device)):
            _, _, uid, session, _ = name.split(".")
            fd = self._open_honest(name) if uid == me else None
            if fd is not None:
                ours = session == self._session or time.time() - os.fstat(fd).st_ctime > OVERRIDE_AFTER
                if ours and _locked(fd, fcntl.LOCK_EX):
                    _remove(os.path.join(self.directory, name))
                os.close(fd)


def shared_directory() -> str:
    """Return a directory in which all users can create files but cannot remove each other's files."""
    return os.environ.get(DIRECTORY_VARIABLE) or next(
        (directory for directory in SHARED_DIRECTORIES if _is_shared(directory)), SHARED_DIRECTORIES[-1]
    )


def _is_shared(directory: str) -> bool:
    try:
        about = os.lstat(directory)
    except OSError:
        return False
    wanted = stat.S_ISVTX | stat.S_IWOTH | stat.S_IXOTH
    return stat.S_ISDIR(about.st_mode) and about.st_uid == 0 and about.st_mode & wanted == wanted


def _is_honest(about: os.stat_result, name: str) -> bool:
    """Return whether a lease file belongs to the user in its name."""
    return stat.S_ISREG(about.st_mode) and name.split(".")[2] == str(about.st_uid)


def _open(
    path: str, accepted: Callable[[os.stat_result], bool] = lambda about: stat.S_ISREG(about.st_mode)
) -> int | None:
    try:
        fd = os.open(path, _READ_ONLY)
    except OSError:
        return None
    if accepted(os.fstat(fd)):
        return fd
    os.close(fd)
    return None


def _make(path: str) -> int | None:
    """Create a file that other users can read, and therefore lock, regardless of the umask."""
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
    with suppress(OSError):
        os.unlink(path)
