"""The session's folders: where everything is on disk, held open by the owner."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import suppress

from gputui.process import descriptors
from gputui.process.directories import FolderId
from gputui.python.user_code.modules import OTHERS_WRITE

from .errors import NotOurs, SessionError

# ---- scheduler.log ----


LARGEST = 4_000_000


class Journal:
    """Never raises: a log that cannot be written must not stop what it tells about."""

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
            if os.stat(self._path).st_size > LARGEST:
                os.replace(self._path, self._path + ".1")


# ---- Where everything of a session is on disk, and who may be there ----


PRIVATE = ".gputui"
GITIGNORE = ".gitignore"


USUAL = ("gputui_run", "hog_run")
"""Names that say nothing of what a session is for."""


def session_name(root: str) -> str:
    """As its user knows it: the folder, or the one that holds it where it has the usual name."""
    folder, name = os.path.split(root)
    return os.path.basename(folder) if name in USUAL and os.path.basename(folder) else name


class Paths:
    """The folder of one session. `create` makes what is missing and refuses what is not safely ours."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self._name_files(os.path.join(self.root, PRIVATE))

    def through(self, private: int) -> Paths:
        """The same, with everything private reached through a descriptor of that folder."""
        held = Paths(self.root)
        held._name_files(f"/proc/self/fd/{private}")
        return held

    def _name_files(self, private: str) -> None:
        self.private = private
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
        """What was mended on the way and the user must be told."""

    def exists(self) -> bool:
        return os.path.isdir(self.private)

    def create(self) -> bool:
        """True if the session's folder was made just now."""
        refuse_unwritable_name(self.root)
        fresh, begun = not os.path.lexists(self.root), os.path.lexists(self.private)
        try:
            os.makedirs(self.root, exist_ok=True)
            with suppress(FileExistsError):  # another may be making it just now
                os.mkdir(self.private, 0o700)
                _hide_from_git(self.private)
            if fresh:
                _hide_from_git(self.root)
            self.check()
            os.makedirs(self.claims, mode=0o700, exist_ok=True)
            if not begun:
                self._try_lock()
        except (OSError, SessionError) as error:
            if not begun:
                self._remove_made(fresh)
            if isinstance(error, SessionError):
                raise
            raise SessionError(
                f"cannot make a session in {self.root}: {error.strerror}; choose another --output-dir"
            ) from error
        return fresh

    def _try_lock(self) -> None:
        """Where nothing can be locked, no session is begun."""
        fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # another begins it just now, and can
        except OSError as error:
            os.unlink(self.lock)
            raise no_locks(self.root, error) from error
        finally:
            os.close(fd)

    def _remove_made(self, fresh: bool) -> None:
        """Removes what `create` has made so far; a folder that somebody else uses meanwhile is not empty and stays."""
        for folder in (self.claims, self.private, *((self.root,) if fresh else ())):
            with suppress(OSError):
                os.unlink(os.path.join(folder, GITIGNORE))
            with suppress(OSError):
                os.rmdir(folder)

    def check(self) -> None:
        """The private folder must be a real folder of this user that nobody else can enter."""
        status = os.lstat(self.private)
        if not stat.S_ISDIR(status.st_mode):
            raise NotOurs(f"{self.private} is not a folder; move it away or choose another --output-dir")
        if status.st_uid != os.getuid():
            raise NotOurs(f"{self.private} belongs to another user; choose another --output-dir")
        if status.st_mode & 0o022:
            raise NotOurs(f"others can write to {self.private}; chmod 700 it if you trust what is in it")
        if status.st_mode & 0o077 and not _is_read_only(self.private):
            self.notices.append(close_to_others(self.private))


def _is_read_only(path: str) -> bool:
    """Mounted so that nobody can write; it can only be looked at then."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def no_locks(root: str, error: OSError) -> SessionError:
    return SessionError(
        f"cannot lock the session in {root}: {error.strerror}; choose an --output-dir on another file system "
        "(gputui doctor tells more)"
    )


def refuse_unwritable_name(root: str) -> None:
    """What is stored and sent is UTF-8, paths among it."""
    try:
        os.fsencode(root).decode()
    except UnicodeDecodeError:
        shown = os.fsencode(root).decode("utf-8", "replace")
        raise SessionError(
            f"the name of {shown} is not UTF-8, which gputui needs; choose another --output-dir"
        ) from None


def close_to_others(private: str) -> str:
    """What to tell the user of it. In there are the environments of all jobs, and a lock that any reader could hold."""
    fd = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid == os.getuid():
            os.fchmod(fd, 0o700)
    except OSError as error:
        raise SessionError(
            f"others can look into {private}, where the environments of your jobs are, and it cannot be closed to "
            f"them: {error.strerror}; copy the folder to where you may write (cp -a) and use the copy"
        ) from error
    finally:
        os.close(fd)
    return f"others could look into {private}, where the environments of your jobs are; it is closed to them again"


def _hide_from_git(folder: str) -> None:
    """Only for folders that we made: what is in the user's own is theirs to hide."""
    with suppress(FileExistsError), open(os.path.join(folder, GITIGNORE), "x") as file:
        file.write("*\n")


# ---- The session's folders, held open by whoever owns it ----


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Ground:
    """Closed last: paths that lead through it mean nothing afterwards."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        try:
            self.private = descriptors.open_private(paths.private, _FOLDER | os.O_NOFOLLOW)
        except OSError as error:
            raise SessionError(f"there is no session in {paths.root}: {error.strerror}") from error
        if os.fstat(self.private).st_uid != os.getuid():
            descriptors.close_private(self.private)
            raise NotOurs(f"{paths.private} belongs to another user; choose another --output-dir")
        self.root = descriptors.open_private(f"/proc/self/fd/{self.private}/..", _FOLDER)
        self.id = FolderId.of(self.private)
        self.paths = paths.through(self.private)
        """The same files, whatever is at their old places."""

    def vouch_for(self, *names: str) -> None:
        """That the files which this process opened under these names lie here: who may write beside the folder can put
        another in its place for the moment in which a path is followed."""
        opened = set(_opened_files())
        for name in names:
            with suppress(FileNotFoundError):
                if _identity(os.stat(name, dir_fd=self.private)) in opened:
                    continue
            raise NotOurs(
                f"{self._paths.private} was replaced while it was opened: look who may write to {self._paths.root}, "
                "or choose another --output-dir"
            )

    def live_here(self) -> None:
        """Holds the shared lock until this process and every wrapper it gave the folder to are gone."""
        with suppress(OSError):
            fcntl.flock(self.private, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def is_there(self) -> bool:
        """Whether the session's path still leads to it."""
        try:
            return FolderId.of(self._paths.private) == self.id and os.path.samestat(
                os.stat(self._paths.root), os.fstat(self.root)
            )
        except OSError:
            return False

    def close(self) -> None:
        descriptors.close_private(self.root)
        descriptors.close_private(self.private)


def _opened_files() -> Iterator[tuple[int, int]]:
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            yield _identity(os.fstat(int(fd)))


def _identity(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def somebody_lives(private: str) -> bool:
    """Whether an owner or a wrapper of the session lives on this machine; asked by the holder of its lock."""
    fd = os.open(private, _FOLDER)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or nothing can be locked here: then nobody knows
        return True
    finally:
        os.close(fd)
    return False


# ---- Real folders of this user, where others may write beside them ----


MODE = 0o755
"""Of the folders that we make, less the umask: nobody else writes there, whatever the umask allows."""
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_TO_BE_ENTERED = (errno.ELOOP, errno.ENOTDIR, errno.EACCES)


def enter(path: str, above: int | None = None, *, foreign: bool = False) -> int:
    """The descriptor of a real folder of this user, `foreign`: of whomever. NotOurs says what to do about another.

    `above`: the descriptor of the folder that holds it, if that was looked at.
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
    """False: there is something of that name already."""
    try:
        os.mkdir(_name(path, above), mode, dir_fd=above)
    except FileExistsError:
        return False
    return True


def keep_others_out(fd: int) -> None:
    """For a folder that we made."""
    mode = os.fstat(fd).st_mode
    if mode & OTHERS_WRITE:
        os.fchmod(fd, stat.S_IMODE(mode) & ~OTHERS_WRITE)


def _in_the_way(path: str, above: int | None) -> str:
    try:
        about = os.stat(_name(path, above), dir_fd=above, follow_symlinks=False)
    except OSError as error:
        return f"{path} cannot be used: {error.strerror}"
    what = "a link" if stat.S_ISLNK(about.st_mode) else "a folder" if stat.S_ISDIR(about.st_mode) else "no folder"
    whose = "" if about.st_uid == os.getuid() else f" of {user_name(about.st_uid)}"
    word = shlex.quote(path)
    return f"{path} is {what}{whose}, and must be a real folder of yours; move it away: mv {word} {word}.old"


def _name(path: str, above: int | None) -> str:
    return path if above is None else os.path.basename(path)


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
