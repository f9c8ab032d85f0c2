"""Where everything of a session is on disk, and who may be there."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from gputui.session.errors import NotOurs, SessionError

PRIVATE = ".gputui"


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
        fresh = not os.path.lexists(self.root)
        try:
            os.makedirs(self.root, exist_ok=True)
            with suppress(FileExistsError):  # another may be making it just now
                os.mkdir(self.private, 0o700)
                _hide_from_git(self.private)
            if fresh:
                _hide_from_git(self.root)
            self.check()
            os.makedirs(self.claims, mode=0o700, exist_ok=True)
        except OSError as error:
            raise SessionError(
                f"cannot make a session in {self.root}: {error.strerror}; choose another --output-dir"
            ) from error
        return fresh

    def check(self) -> None:
        """The private folder must be a real folder of this user that nobody else can enter."""
        status = os.lstat(self.private)
        if not stat.S_ISDIR(status.st_mode):
            raise NotOurs(f"{self.private} is not a folder; move it away or choose another --output-dir")
        if status.st_uid != os.getuid():
            raise NotOurs(f"{self.private} belongs to another user; choose another --output-dir")
        if status.st_mode & 0o022:
            raise NotOurs(f"others can write to {self.private}; chmod 700 it if you trust what is in it")
        if status.st_mode & 0o077:
            self.notices.append(close_to_others(self.private))


def refuse_unwritable_name(root: str) -> None:
    """What is stored and sent is UTF-8, paths among it."""
    try:
        root.encode()
    except UnicodeEncodeError:
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
    with suppress(FileExistsError), open(os.path.join(folder, ".gitignore"), "x") as file:
        file.write("*\n")
