"""The session's folders, held open by whoever owns it: all that an owner does to them it does from here.

What is put in their place later is thus never taken for them. The private folder is held with a shared lock, and so
by every wrapper, which inherits it: as long as anything of a session lives, in whatever container, the kernel knows.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress

from gputui.process import forks
from gputui.process.folder_id import FolderId
from gputui.session.errors import NotOurs, SessionError

from .paths import Paths

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Ground:
    """Closed last: paths that lead through it mean nothing afterwards."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        try:
            self.private = forks.opened(paths.private, _FOLDER | os.O_NOFOLLOW)
        except OSError as error:
            raise SessionError(f"there is no session in {paths.root}: {error.strerror}") from error
        if os.fstat(self.private).st_uid != os.getuid():
            forks.close(self.private)
            raise NotOurs(f"{paths.private} belongs to another user; choose another --output-dir")
        self.root = forks.opened(f"/proc/self/fd/{self.private}/..", _FOLDER)
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
        forks.close(self.root)
        forks.close(self.private)


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
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
