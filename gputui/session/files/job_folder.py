"""One job's folder, held by its descriptor: INFO, markers, and the folders of its attempts are written from there."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from types import TracebackType
from typing import Self

from . import own_folders

SUCCESS, FAILURE = "SUCCESS", "FAILURE"
INFO = "INFO"
ATTEMPTS = "attempts"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_MODE = 0o644
_LONGEST_INFO = 1_000_000


class JobFolder:
    """Takes the descriptor over. Nothing here writes into a file that was there before, or through a link."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path
        """What sentences call it; nothing is reached by it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def write_info(self, text: bytes) -> None:
        """A first one, which most jobs' only one is, is made in its place; another takes its place."""
        # Every call lets the owner's thread wait for ours: open() would make three more.
        try:
            fd = os.open(INFO, _NEW, _OWN_MODE, dir_fd=self.fd)
        except FileExistsError:
            self._replace_info(text)
        else:
            _fill(fd, text)

    def read_info(self) -> str:
        """Empty: there is none to be read."""
        try:
            fd = os.open(INFO, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        except OSError:
            return ""
        try:
            return os.read(fd, _LONGEST_INFO).decode("utf-8", "replace")
        except OSError:
            return ""
        finally:
            os.close(fd)

    def _replace_info(self, text: bytes) -> None:
        fresh = f".{INFO}.new"
        _fill(self._created(fresh), text)
        os.rename(fresh, INFO, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def mark(self, marker: str, claim: str) -> bool:
        """The claim, emptied, becomes the marker: one file less to make and one to remove. False: it was gone."""
        # An attempt that a rolled-back store issued anew finds the marker of the one before.
        self._remove(FAILURE if marker == SUCCESS else SUCCESS)
        try:
            os.truncate(claim, 0)
            os.rename(claim, marker, dst_dir_fd=self.fd)
        except OSError:
            os.close(self._created(marker))
            return False
        return True

    def clear_markers(self) -> None:
        for marker in (SUCCESS, FAILURE):
            self._remove(marker)

    def begin(self, stem: str, attempt: int) -> None:
        """A folder for an attempt after the first, whose files move beside it; the old names become links."""
        attempts = os.path.join(self.path, ATTEMPTS)
        above = _made(attempts, self.fd)
        try:
            for name in ("OUT", "ERR"):
                self._set_aside_first(f"{stem}.{name}", name, attempts, above)
            os.close(_made(os.path.join(attempts, str(attempt)), above))
        finally:
            os.close(above)
        for name in ("OUT", "ERR"):
            self._point(f"{stem}.{name}", os.path.join(ATTEMPTS, str(attempt), name))

    def attempt(self, attempt: int) -> int:
        """The descriptor of the folder of an attempt after the first."""
        attempts = os.path.join(self.path, ATTEMPTS)
        above = own_folders.enter(attempts, self.fd)
        try:
            return own_folders.enter(os.path.join(attempts, str(attempt)), above)
        finally:
            os.close(above)

    def _set_aside_first(self, now: str, then: str, attempts: str, above: int) -> None:
        try:
            if not stat.S_ISREG(os.stat(now, dir_fd=self.fd, follow_symlinks=False).st_mode):
                return
        except FileNotFoundError:
            return
        first = _made(os.path.join(attempts, "1"), above)
        try:
            os.rename(now, then, src_dir_fd=self.fd, dst_dir_fd=first)
        finally:
            os.close(first)

    def _point(self, link: str, to: str) -> None:
        fresh = f"{link}.new"
        self._remove(fresh)
        os.symlink(to, fresh, dir_fd=self.fd)
        os.rename(fresh, link, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def _created(self, name: str) -> int:
        """What somebody was cut off at, or planted, goes first."""
        try:
            return os.open(name, _NEW, _OWN_MODE, dir_fd=self.fd)
        except FileExistsError:
            self._remove(name)
            return os.open(name, _NEW, _OWN_MODE, dir_fd=self.fd)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)


def _fill(fd: int, text: bytes) -> None:
    try:
        if os.write(fd, text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(fd)


def _made(path: str, above: int) -> int:
    own_folders.make(path, above)
    return own_folders.enter(path, above)
