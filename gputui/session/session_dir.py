"""The directories of a session: their paths, the session's log, and safe access to them."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import shlex
import stat
import time
from contextlib import suppress

from gputui.process import descriptors
from gputui.process.directories import DirectoryId, atomic_write
from gputui.python.user_code.modules import OTHERS_WRITE, keepsake

from .errors import NotOurs, SessionError

LARGEST_LOG = 4_000_000


class Journal:
    """The log of a session, scheduler.log. Writing to it never raises."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, text: str) -> None:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] {text}\n"
        with suppress(OSError):
            self._rotate()
            with open(self._path, "a", encoding="utf-8", errors="replace") as file:
                file.write(line)

    def _rotate(self) -> None:
        with suppress(FileNotFoundError):
            if os.stat(self._path).st_size > LARGEST_LOG:
                os.replace(self._path, self._path + ".1")


# Paths


PRIVATE = ".gputui"
GITIGNORE = ".gitignore"
USUAL = ("gputui_run", "hog_run")
"""Directory names that do not say what a session is for."""


def session_name(root: str) -> str:
    """Return the name of the session directory. If that is one of the usual names, return the name of its parent."""
    directory, name = os.path.split(root)
    return os.path.basename(directory) if name in USUAL and os.path.basename(directory) else name


class Paths:
    """The paths of one session."""

    def __init__(self, root: str, private: str | None = None) -> None:
        self.root = os.path.abspath(root)
        self.private = private or os.path.join(self.root, PRIVATE)
        self.database = os.path.join(self.private, "session.db")
        self.backup = os.path.join(self.private, "session.db.backup")
        self.rebuilt = os.path.join(self.private, "session.db.rebuilt")
        self.lock = os.path.join(self.private, "lock")
        self.socket = os.path.join(self.private, "control.sock")
        self.claims = os.path.join(self.private, "claims")
        self.log = os.path.join(self.private, "scheduler.log")
        self.history = os.path.join(self.private, "history")
        self.yielder_log = os.path.join(self.private, "yielder.log")
        self.notices: list[str] = []
        """Messages for the user about what `check` has repaired."""

    def exists(self) -> bool:
        return os.path.isdir(self.private)

    def create(self) -> bool:
        """Create the directories that are missing. Return whether the session directory is new. Raise SessionError if
        they cannot be created.
        """
        refuse_unwritable_name(self.root)
        fresh, existed = not os.path.lexists(self.root), os.path.lexists(self.private)
        try:
            os.makedirs(self.root, exist_ok=True)
            with suppress(FileExistsError):  # another process creates it at the same time
                os.mkdir(self.private, 0o700)
                _hide_from_git(self.private)
            if fresh:
                _hide_from_git(self.root)
            self.check()
            os.makedirs(self.claims, mode=0o700, exist_ok=True)
            if not existed:
                self._try_lock()
        except (OSError, SessionError) as error:
            if not existed:
                self._remove_made(fresh)
            if isinstance(error, SessionError):
                raise
            raise SessionError(
                f"cannot create a session in {self.root}: {error.strerror}; "
                "go to a directory that you can write, or choose another --output-dir (gputui run)"
            ) from error
        return fresh

    def _try_lock(self) -> None:
        """Raise SessionError if the file system does not support locks."""
        fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # another process holds the lock, so locks work
        except OSError as error:
            os.unlink(self.lock)
            raise no_locks(self.root, error) from error
        finally:
            os.close(fd)

    def _remove_made(self, fresh: bool) -> None:
        """Remove what `create` has made so far. Directories in use are not empty, so they stay."""
        for directory in (self.claims, self.private, *((self.root,) if fresh else ())):
            with suppress(OSError):
                os.unlink(os.path.join(directory, GITIGNORE))
            with suppress(OSError):
                os.rmdir(directory)

    def check(self) -> None:
        """Check that the private directory is a real directory of this user, and remove the permissions of others."""
        status = os.lstat(self.private)
        if not stat.S_ISDIR(status.st_mode):
            raise NotOurs(f"{self.private} is not a directory; move it away or choose another --output-dir")
        if status.st_uid != os.getuid():
            raise NotOurs(f"{self.private} belongs to another user; choose another --output-dir")
        if status.st_mode & 0o022:
            raise NotOurs(f"others can write to {self.private}; chmod 700 it if you trust its contents")
        if status.st_mode & 0o077 and not os.statvfs(self.private).f_flag & os.ST_RDONLY:
            self.notices.append(close_to_others(self.private))


def no_locks(root: str, error: OSError) -> SessionError:
    return SessionError(
        f"cannot lock the session in {root}: {error.strerror}; choose an --output-dir on another file system "
        "(see gputui doctor)"
    )


def refuse_unwritable_name(root: str) -> None:
    """Raise SessionError for a path that is not UTF-8, because the store and the protocol use UTF-8."""
    try:
        os.fsencode(root).decode()
    except UnicodeDecodeError:
        shown = os.fsencode(root).decode("utf-8", "replace")
        raise SessionError(f"the name of {shown} is not valid UTF-8; choose another --output-dir") from None


def close_to_others(private: str) -> str:
    """Remove the permissions of other users, who could otherwise read environments or hold the lock. Return a message
    for the user.
    """
    fd = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid == os.getuid():
            os.fchmod(fd, 0o700)
    except OSError as error:
        raise SessionError(
            f"others can read {private}, which contains your jobs' environments, and it cannot be made private: "
            f"{error.strerror}; copy it to a writable place (cp -a) and use the copy"
        ) from error
    finally:
        os.close(fd)
    return f"others could read {private}, which contains your jobs' environments; it is private now"


def _hide_from_git(directory: str) -> None:
    """Make git ignore the directory. Call this only for directories that gputui made."""
    with suppress(FileExistsError), open(os.path.join(directory, GITIGNORE), "x") as file:
        file.write("*\n")


# The directories of an owned session, held open


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class SessionDir:
    """The session directory and the private directory of an owner, held open. They are closed last, because every
    path in `paths` is resolved through their descriptors.
    """

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        try:
            self.private = descriptors.open_private(paths.private, _DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise SessionError(f"no session in {paths.root}: {error.strerror}") from error
        if os.fstat(self.private).st_uid != os.getuid():
            descriptors.close_private(self.private)
            raise NotOurs(f"{paths.private} belongs to another user; choose another --output-dir")
        self.root = descriptors.open_private(f"/proc/self/fd/{self.private}/..", _DIRECTORY)
        self.id = DirectoryId.of(self.private)
        self.paths = Paths(paths.root, f"/proc/self/fd/{self.private}")
        """Paths that go through the descriptor of the private directory. They stay valid if the directory is moved or
        replaced.
        """

    def check_opened(self, *names: str) -> None:
        """Check that the files that this process has opened under these names are in this directory.

        A user who can write to the parent directory could have replaced the directory while a path was followed.
        """
        opened: set[tuple[int, int]] = set()
        for fd in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                opened.add((os.fstat(int(fd)).st_dev, os.fstat(int(fd)).st_ino))
        for name in names:
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=self.private)
                if (status.st_dev, status.st_ino) in opened:
                    continue
            raise NotOurs(
                f"{self._paths.private} was replaced while opening it: check who can write to {self._paths.root}, "
                "or choose another --output-dir"
            )

    def lock_shared(self) -> None:
        """Take the shared lock. It is held until this process and all wrappers that inherited the descriptor
        are gone.
        """
        with suppress(OSError):
            fcntl.flock(self.private, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def still_at_path(self) -> bool:
        """Return whether the session's path still leads to this directory."""
        try:
            return DirectoryId.of(self._paths.private) == self.id and os.path.samestat(
                os.stat(self._paths.root), os.fstat(self.root)
            )
        except OSError:
            return False

    def close(self) -> None:
        descriptors.close_private(self.root)
        descriptors.close_private(self.private)


def is_in_use(private: str) -> bool:
    """Return whether an owner or wrapper of the session is alive on this machine. Only the holder of the session's lock
    may call this.
    """
    fd = os.open(private, _DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or locks do not work here
        return True
    finally:
        os.close(fd)
    return False


# Entering directories without following symlinks


MODE = 0o755
"""Mode of new directories. They are not group-writable, whatever the umask allows."""
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_TO_BE_ENTERED = (errno.ELOOP, errno.ENOTDIR, errno.EACCES)


def enter(path: str, above: int | None = None, *, foreign: bool = False) -> int:
    """Open a directory and return its descriptor. Raise NotOurs if it is not a real directory of this user; with
    `foreign`, any owner is accepted.

    `above` is the descriptor of its parent directory, if that was checked.
    """
    try:
        fd = os.open(_name(path, above), _ENTER, dir_fd=above)
    except OSError as error:
        if error.errno in _NOT_TO_BE_ENTERED:
            raise NotOurs(_in_the_way(path, above)) from error
        raise
    if foreign or os.fstat(fd).st_uid == os.getuid():
        return fd
    os.close(fd)
    raise NotOurs(_in_the_way(path, above))


def make(path: str, above: int | None = None, mode: int = MODE) -> bool:
    """Create a directory. Return False if the name already exists."""
    try:
        os.mkdir(_name(path, above), mode, dir_fd=above)
    except FileExistsError:
        return False
    return True


def keep_others_out(fd: int) -> None:
    """Remove the write permission of other users from a directory that gputui made."""
    mode = os.fstat(fd).st_mode
    if mode & OTHERS_WRITE:
        os.fchmod(fd, stat.S_IMODE(mode) & ~OTHERS_WRITE)


def _in_the_way(path: str, above: int | None) -> str:
    try:
        about = os.stat(_name(path, above), dir_fd=above, follow_symlinks=False)
    except OSError as error:
        return f"cannot use {path}: {error.strerror}"
    kind = {stat.S_IFLNK: "a symlink", stat.S_IFDIR: "a directory"}.get(stat.S_IFMT(about.st_mode), "not a directory")
    whose = "" if about.st_uid == os.getuid() else f" owned by {user_name(about.st_uid)}"
    word = shlex.quote(path)
    return f"{path} is {kind}{whose}; it must be a real directory you own; move it away: mv {word} {word}.old"


def _name(path: str, above: int | None) -> str:
    return path if above is None else os.path.basename(path)


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def store_file(root: str, name: str, data: bytes) -> str:
    """Durably store a file that jobs need, and return its path. Files with the same name have the same contents."""
    path = keepsake(os.path.abspath(root), name)
    if not os.path.exists(path):
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            atomic_write(path, data, durable=True)
        except OSError as error:
            raise SessionError(f"cannot write {path}: {error.strerror}") from error
    return path
