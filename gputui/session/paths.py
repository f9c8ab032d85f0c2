"""Where everything of a session is on disk, and who may be there."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from .errors import NotOurs, SessionError

PRIVATE = ".gputui"


class Paths:
    """The folder of one session. `create` makes what is missing and refuses what is not safely ours."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.private = os.path.join(self.root, PRIVATE)
        self.database = os.path.join(self.private, "session.db")
        self.backup = os.path.join(self.private, "session.db.backup")
        self.rebuilt = os.path.join(self.private, "session.db.rebuilt")
        self.lock = os.path.join(self.private, "lock")
        self.socket = os.path.join(self.private, "control.sock")
        self.claims = os.path.join(self.private, "claims")
        self.log = os.path.join(self.private, "scheduler.log")

    def exists(self) -> bool:
        return os.path.isdir(self.private)

    def create(self) -> bool:
        """True if the session's folder was made just now."""
        fresh = not os.path.lexists(self.root)
        try:
            os.makedirs(self.root, exist_ok=True)
            with suppress(FileExistsError):  # another may be making it just now
                os.mkdir(self.private, 0o700)
                self._hide_from_git()
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

    def _hide_from_git(self) -> None:
        try:
            with open(os.path.join(self.root, ".gitignore"), "x") as file:
                file.write("*\n")
        except FileExistsError:
            pass  # the user's own
