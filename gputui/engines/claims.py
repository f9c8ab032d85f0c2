"""Claim files: one per live attempt, created with O_EXCL by whoever is first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from msgspec import Struct

from gputui.core.job import JobId, Purpose

# ---- The claim files ----


REVOKED_LINE = b"revoked"
FOLDER_GONE_LINE = b"nocwd"
LOG_FAILED_LINE = b"nolog"
EXIT_WORD = b"exit"
SIGNALLED_LINE = b"signalled"
ASKED_WORD = b"asked"
SLURM_WORD = "slurm"
_LONGEST = 1024


class Absent(Struct, frozen=True):
    """Nobody has decided about the attempt yet."""


class Missing(Struct, frozen=True):
    """No wrapper's, although the attempt has written output: somebody took it away."""


class Empty(Struct, frozen=True):
    """Created, but its first line is not there yet: nothing runs before that line."""


class Revoked(Struct, frozen=True):
    """A recovering owner was first; the attempt will never run."""


class Claimed(Struct, frozen=True):
    """A wrapper was first; how the command ended is not written."""

    pid: int


class BatchBegun(Struct, frozen=True):
    """The supervisor of a batch job was first; how the command ended is not written."""

    slurm_job: int
    node: str
    started: float
    gpus: tuple[str, ...]
    """As `node:index`."""


class WrittenExit(Struct, frozen=True):
    """The wrapper wrote the command's exit code."""

    code: int
    at: float
    """When it was written."""
    signalled: bool = False
    """It had been told to end, by whomever."""


class FolderGone(Struct, frozen=True):
    """The wrapper claimed, but could not enter the job's folder; the command did not run."""

    at: float


class LogFailed(Struct, frozen=True):
    """The supervisor claimed, but could not make the job's log; the command did not run."""

    at: float


class Garbled(Struct, frozen=True):
    """There is something that no wrapper and no owner writes."""


class Unreadable(Struct, frozen=True):
    """The disk did not tell; it may later."""

    why: str


_Ended = WrittenExit | FolderGone | LogFailed
Claim = Absent | Missing | Empty | Revoked | Claimed | BatchBegun | _Ended | Garbled | Unreadable


class Claims:
    """The folder of claims; knows files, decides nothing."""

    UNWANTED_AFTER: ClassVar[float] = 600.0
    """Seconds in which an end is noted."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def of(cls, private: int) -> Claims:
        """In the session's private folder, by a descriptor: a folder put in its place has nothing to do with it."""
        return cls(f"/proc/self/fd/{private}/claims")

    def make_folder(self) -> None:
        """Also when somebody took it away: without it no attempt can begin."""
        with suppress(OSError):
            os.mkdir(self.folder, 0o700)

    def path(self, job: JobId, attempt: int) -> str:
        return f"{self.folder}/{job}.{attempt}"

    def all(self) -> list[tuple[JobId, int]]:
        names = (name.partition(".")[::2] for name in os.listdir(self.folder))
        return [(int(job), int(attempt)) for job, attempt in names if job.isdecimal() and attempt.isdecimal()]

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
        return Missing() if isinstance(claim, Absent | Revoked) and _has_content(out) else claim

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
        return _asked(self._content(job, attempt))

    def begun(self, job: JobId, attempt: int) -> BatchBegun | None:
        """How it began in a cluster, also when its end is written too."""
        lines = self._content(job, attempt).split(b"\n")[:-1]
        return next((begun for line in lines if (begun := _begun(line)) is not None), None)

    def _content(self, job: JobId, attempt: int) -> bytes:
        try:
            with open(self.path(job, attempt), "rb", buffering=0) as file:
                return file.read(_LONGEST)
        except OSError:
            return b""

    def ask(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        """Lands on a full disk too: the claim's block is there already. Only behind the pid: that line decides."""
        was_claimed = isinstance(self.read(job, attempt), Claimed | BatchBegun | WrittenExit | FolderGone)
        if was_claimed and self.asked(job, attempt) is not purpose:
            self._append(job, attempt, b"%s %s" % (ASKED_WORD, purpose.encode()))

    def restore(self, job: JobId, attempt: int, pid: int) -> None:
        """The attempt was found running without its claim: the next owner shall find it at once."""
        self._append(job, attempt, b"%d" % pid)

    def _append(self, job: JobId, attempt: int, line: bytes) -> None:
        with suppress(OSError):
            fd = os.open(self.path(job, attempt), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, line + b"\n")
            finally:
                os.close(fd)

    def remove(self, job: JobId, attempt: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path(job, attempt))

    def remove_unwanted(self, wanted: Callable[[JobId, int], bool], *, all_dead: bool) -> None:
        """Removes old claims that nobody wants any more, but never one whose command may still run.

        `all_dead`: no process of the session's earlier owners lives. Otherwise revocations stay, however old: a
        wrapper may come late, and without its revocation it would run.
        """
        for job, attempt in self.all():
            if not wanted(job, attempt):
                self._remove_if_old(job, attempt, all_dead)

    def _remove_if_old(self, job: JobId, attempt: int, all_dead: bool) -> None:
        still_needed = Claimed | BatchBegun | Garbled | Unreadable
        if not all_dead:
            still_needed |= Revoked | Empty
        try:
            age = time.time() - os.stat(self.path(job, attempt)).st_mtime
        except FileNotFoundError:
            return
        if age > self.UNWANTED_AFTER and not isinstance(self.read(job, attempt), still_needed):
            self.remove(job, attempt)


def understand(content: bytes, written_at: Callable[[], float]) -> Claim:
    """What whole lines say, in whatever order they came; `written_at` is asked only for an end."""
    lines = content.split(b"\n")[:-1]
    for line in lines:
        end = _end(line, written_at)
        if isinstance(end, WrittenExit) and SIGNALLED_LINE in lines:
            return WrittenExit(end.code, end.at, signalled=True)
        if end is not None:
            return end
    pids = [int(line) for line in lines if line.isdigit()]
    if pids:
        return Claimed(pids[0])
    begun = next((begun for line in lines if (begun := _begun(line)) is not None), None)
    if begun is not None:
        return begun
    if not any(lines):
        return Empty()
    return Revoked() if REVOKED_LINE in lines else Garbled()


def _begun(line: bytes) -> BatchBegun | None:
    match line.decode("utf-8", "replace").split(" "):
        case [word, job, node, _, started, gpus] if word == SLURM_WORD and job.isdecimal():
            with suppress(ValueError):
                places = tuple(f"{node}:{gpu}" for gpu in gpus.split(",") if gpu != "-")
                return BatchBegun(int(job), node, float(started), places)
    return None


def _end(line: bytes, written_at: Callable[[], float]) -> WrittenExit | FolderGone | LogFailed | None:
    word, _, value = line.partition(b" ")
    if word == EXIT_WORD and value.isdigit():
        return WrittenExit(int(value), written_at())
    if line == LOG_FAILED_LINE:
        return LogFailed(written_at())
    return FolderGone(written_at()) if line == FOLDER_GONE_LINE else None


def _asked(content: bytes) -> Purpose | None:
    words = [line.partition(b" ")[::2] for line in content.split(b"\n")[:-1]]
    purposes = [value.decode("ascii", "replace") for word, value in words if word == ASKED_WORD]
    return Purpose(purposes[-1]) if purposes and purposes[-1] in list(Purpose) else None


def _has_content(log: str | None) -> bool:
    try:
        return log is not None and os.stat(log).st_size > 0
    except OSError:
        return False


# ---- What all engines do alike whose attempts are claimed ----


class ClaimedAttempts:
    """`private` is the descriptor of the session's private folder, which holds the claims; `session` names the session
    for all its owners, now and later."""

    def __init__(self, private: int, session: str) -> None:
        self._session = session
        self._claims = Claims.of(private)
        self._claims.make_folder()
        self._revoked: set[tuple[JobId, int]] = set()

    def token(self, job: JobId, attempt: int) -> str:
        return f"{self._session}.{job}.{attempt}"

    def write_down(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        """Beside the attempt, for the next owner: an order that cannot be made durable in the store."""
        self._claims.ask(job, attempt, purpose)

    def claimed(self) -> list[tuple[JobId, int]]:
        return self._claims.all()

    def forget(self, job: JobId, attempt: int) -> None:
        # A revocation stays: what was to run it may start late, and must find it.
        if (job, attempt) not in self._revoked:
            self._claims.remove(job, attempt)


# ---- The file that names attempts which were taken back and may still stand in a queue ----


MARK = "news/withdrawn"
"""In the session's private folder."""


def jobs_in_queue(private: str) -> list[JobId]:
    try:
        with open(f"{private}/{MARK}", encoding="ascii", errors="replace") as file:
            keys = [key_of(line.strip()) for line in file]
    except OSError:
        return []
    return sorted({key[0] for key in keys if key is not None})


def key_of(words: str) -> tuple[JobId, int] | None:
    """Of `JOB.ATTEMPT`."""
    job, _, attempt = words.partition(".")
    return (int(job), int(attempt)) if job.isdecimal() and attempt.isdecimal() else None
