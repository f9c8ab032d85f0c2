"""The claim files: one per live attempt, created with O_EXCL by whoever decides about it.

The wrapper creates it and writes its pid: the attempt runs. A recovering owner creates it and writes `revoked`:
the attempt will never run. Later the wrapper appends how it went. An owner that cannot write its store appends what
it orders before it does so, for the next owner. A line counts only with its newline.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from msgspec import Struct

from gputui.core.job import JobId, Purpose

REVOKED_LINE = b"revoked"
FOLDER_GONE_LINE = b"nocwd"
EXIT_WORD = b"exit"
ASKED_WORD = b"asked"
_LONGEST = 256


class Absent(Struct, frozen=True):
    """Nobody has decided about the attempt yet."""


class Missing(Struct, frozen=True):
    """Not there, although the attempt has written output: somebody took it away."""


class Empty(Struct, frozen=True):
    """Created, but its first line is not there yet: nothing runs before that line."""


class Revoked(Struct, frozen=True):
    """A recovering owner was first; the attempt will never run."""


class Claimed(Struct, frozen=True):
    """A wrapper was first; how the command ended is not written."""

    pid: int


class Exited(Struct, frozen=True):
    """The wrapper wrote the command's exit code."""

    code: int
    at: float
    """When it was written."""


class FolderGone(Struct, frozen=True):
    """The wrapper claimed, but could not enter the job's folder; the command did not run."""

    at: float


class Garbled(Struct, frozen=True):
    """There is something that no wrapper and no owner writes."""


class Unreadable(Struct, frozen=True):
    """The disk did not tell; it may later."""

    why: str


Claim = Absent | Missing | Empty | Revoked | Claimed | Exited | FolderGone | Garbled | Unreadable


class Claims:
    """The folder of claims; knows files, decides nothing."""

    UNWANTED_AFTER: ClassVar[float] = 600.0
    """Seconds in which a wrapper that is late must have met its revocation."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, job: JobId, attempt: int) -> str:
        return f"{self.folder}/{job}.{attempt}"

    def read(self, job: JobId, attempt: int) -> Claim:
        try:
            fd = os.open(self.path(job, attempt), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return Absent()
        except OSError as error:
            return Unreadable(str(error))
        try:
            return understand(os.read(fd, _LONGEST), lambda: os.fstat(fd).st_mtime)
        except OSError as error:
            return Unreadable(str(error))
        finally:
            os.close(fd)

    def read_beside(self, job: JobId, attempt: int, out: str | None) -> Claim:
        """The same, but a claim that is gone while the attempt's output is there is not taken for none."""
        claim = self.read(job, attempt)
        return Missing() if isinstance(claim, Absent) and _has_content(out) else claim

    def revoke(self, job: JobId, attempt: int) -> bool:
        """Whether we were first. It is the creation that revokes: a full disk may leave the file empty."""
        try:
            fd = os.open(self.path(job, attempt), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        try:
            os.write(fd, REVOKED_LINE + b"\n")
        except OSError:
            pass
        finally:
            os.close(fd)
        return True

    def asked(self, job: JobId, attempt: int) -> Purpose | None:
        """What an owner ordered and could not write into its store; the newest counts."""
        try:
            with open(self.path(job, attempt), "rb", buffering=0) as file:
                return _asked(file.read(_LONGEST))
        except OSError:
            return None

    def ask(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        """Lands on a full disk too: the claim's block is there already. Only behind the pid: that line decides."""
        if not isinstance(self.read(job, attempt), Claimed) or self.asked(job, attempt) is purpose:
            return
        with suppress(OSError):
            fd = os.open(self.path(job, attempt), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                os.write(fd, b"%s %s\n" % (ASKED_WORD, purpose.encode()))
            finally:
                os.close(fd)

    def remove(self, job: JobId, attempt: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path(job, attempt))

    def remove_unwanted(self, wanted: Callable[[JobId, int], bool]) -> None:
        """Removes old claims that nobody wants any more, but never one whose command may still run."""
        for name in os.listdir(self.folder):
            job, _, attempt = name.partition(".")
            if job.isdecimal() and attempt.isdecimal() and not wanted(int(job), int(attempt)):
                self._remove_if_old(int(job), int(attempt))

    def _remove_if_old(self, job: JobId, attempt: int) -> None:
        try:
            age = time.time() - os.stat(self.path(job, attempt)).st_mtime
        except FileNotFoundError:
            return
        if age > self.UNWANTED_AFTER and not isinstance(self.read(job, attempt), Claimed | Garbled | Unreadable):
            self.remove(job, attempt)


def understand(content: bytes, written_at: Callable[[], float]) -> Claim:
    """What whole lines say; `written_at` is asked only for an end."""
    first, *others = content.split(b"\n")[:-1] or [b""]
    if not first:
        return Empty()
    if first == REVOKED_LINE:
        return Revoked()
    if first.isdigit():
        ends = (end for line in others if (end := _end(line, written_at)) is not None)
        return next(ends, None) or Claimed(int(first))
    # A claim that was taken away is made anew by the line that the wrapper appends.
    return _end(first, written_at) or Garbled()


def _end(line: bytes, written_at: Callable[[], float]) -> Exited | FolderGone | None:
    word, _, value = line.partition(b" ")
    if word == EXIT_WORD and value.isdigit():
        return Exited(int(value), written_at())
    return FolderGone(written_at()) if line == FOLDER_GONE_LINE else None


def _asked(content: bytes) -> Purpose | None:
    words = [line.partition(b" ")[::2] for line in content.split(b"\n")[:-1]]
    asked = [value.decode("ascii", "replace") for word, value in words if word == ASKED_WORD]
    return Purpose(asked[-1]) if asked and asked[-1] in list(Purpose) else None


def _has_content(log: str | None) -> bool:
    try:
        return log is not None and os.stat(log).st_size > 0
    except OSError:
        return False
