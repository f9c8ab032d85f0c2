"""Claim files. A process creates one with O_EXCL and thereby decides whether an attempt runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, NamedTuple

from msgspec import Struct

from gputui.core.job import JobId, Purpose

REVOKED_LINE = b"revoked"
DIRECTORY_GONE_LINE = b"nocwd"
LOG_FAILED_LINE = b"nolog"
EXIT_WORD = b"exit"
SIGNALLED_LINE = b"signalled"
ASKED_WORD = b"asked"
SLURM_WORD = "slurm"
_LONGEST = 1024


class Absent(Struct, frozen=True):
    """There is no claim. Nothing has been decided about the attempt yet."""


class Missing(Struct, frozen=True):
    """There is no claim although the attempt has written output, so the claim must have been deleted."""


class Empty(Struct, frozen=True):
    """The claim was created but has no first line yet. The command starts only after the first line is written."""


class Revoked(Struct, frozen=True):
    """A recovering owner created the claim, so the attempt will never run."""


class Claimed(Struct, frozen=True):
    """A wrapper created the claim. It contains no exit record yet."""

    pid: int


class BatchStarted(Struct, frozen=True):
    """The supervisor of a batch job created the claim. It contains no exit record yet."""

    slurm_job: int
    node: str
    started: float
    gpus: tuple[str, ...]
    """The GPUs of the job, each as `node:index`."""


class WrittenExit(Struct, frozen=True):
    """The wrapper wrote the command's exit code."""

    code: int
    at: float
    signalled: bool = False
    """Whether the command had received SIGTERM from its supervisor."""


class DirectoryGone(Struct, frozen=True):
    """The wrapper claimed the attempt, but the job's directory was gone, so the command did not run."""

    at: float


class LogFailed(Struct, frozen=True):
    """The wrapper claimed the attempt but could not create the job's log, so the command did not run."""

    at: float


class Garbled(Struct, frozen=True):
    """The content of the claim is invalid."""


class Unreadable(Struct, frozen=True):
    """The claim exists but cannot be read at the moment."""


End = WrittenExit | DirectoryGone | LogFailed
Claim = Absent | Missing | Empty | Revoked | Claimed | BatchStarted | End | Garbled | Unreadable


class ClaimFile(NamedTuple):
    """All that a claim file contains."""

    claim: Claim
    begun: BatchStarted | None = None
    """The start record of a batch job. It is kept after the end has been recorded."""
    asked: Purpose | None = None
    """The last order that an owner recorded with `ask`."""


class Claims:
    """The directory that contains the claim files."""

    UNWANTED_AFTER: ClassVar[float] = 600.0
    """Minimum age in seconds at which an unwanted claim is removed. By then the attempt's end has been stored."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    @classmethod
    def of(cls, private: int) -> Claims:
        """Return the claims in the private directory with this descriptor, even if its path has changed."""
        return cls(f"/proc/self/fd/{private}/claims")

    def make_directory(self) -> None:
        """Create the directory again if it is missing, because no attempt can start without it."""
        with suppress(OSError):
            os.mkdir(self.directory, 0o700)

    def path(self, job: JobId, attempt: int) -> str:
        return f"{self.directory}/{job}.{attempt}"

    def all(self) -> list[tuple[JobId, int]]:
        return [key for name in os.listdir(self.directory) if (key := parse_key(name)) is not None]

    def read(self, job: JobId, attempt: int) -> Claim:
        return self.read_file(job, attempt).claim

    def read_file(self, job: JobId, attempt: int) -> ClaimFile:
        try:
            with open(self.path(job, attempt), "rb", buffering=0) as file:
                return parse_claim_file(file.read(_LONGEST), lambda: os.fstat(file.fileno()).st_mtime)
        except FileNotFoundError:
            return ClaimFile(Absent())
        except OSError:
            return ClaimFile(Unreadable())

    def read_with_log(self, job: JobId, attempt: int, out: str) -> Claim:
        """Read a claim. Return Missing if no wrapper's claim exists although the log shows that the attempt ran."""
        claim = self.read(job, attempt)
        if isinstance(claim, Absent | Revoked):
            with suppress(OSError):
                if os.stat(out).st_size > 0:
                    return Missing()
        return claim

    def revoke(self, job: JobId, attempt: int) -> bool:
        """Create the claim before a wrapper can. Return False if it already exists. On a full disk it stays empty."""
        try:
            fd = os.open(self.path(job, attempt), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        with suppress(OSError):
            os.write(fd, REVOKED_LINE + b"\n")
        os.close(fd)
        return True

    def ask(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        """Record an order that the store cannot save.

        This works on a full disk because the claim's block is already allocated. The order is not recorded if the claim
        has no first line yet, because the first line decides who owns the claim.
        """
        claim, _, asked = self.read_file(job, attempt)
        if isinstance(claim, Claimed | BatchStarted | WrittenExit | DirectoryGone) and asked is not purpose:
            self._append(job, attempt, b"%s %s" % (ASKED_WORD, purpose.encode()))

    def restore(self, job: JobId, attempt: int, pid: int) -> None:
        """Recreate the lost claim of a running attempt."""
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
        """Remove old claims that are not wanted, but never the claim of a command that may still be running.

        `all_dead` means that no process started by an earlier owner is alive. If this is not certain, revocations are
        kept regardless of age: without its revocation, a wrapper that starts late would run its command.
        """
        still_needed = Claimed | BatchStarted | Garbled | Unreadable
        if not all_dead:
            still_needed |= Revoked | Empty
        for job, attempt in self.all():
            if wanted(job, attempt):
                continue
            with suppress(FileNotFoundError):
                age = time.time() - os.stat(self.path(job, attempt)).st_mtime
                if age > self.UNWANTED_AFTER and not isinstance(self.read(job, attempt), still_needed):
                    self.remove(job, attempt)


def parse_claim_file(content: bytes, written_at: Callable[[], float]) -> ClaimFile:
    """Parse the complete lines of a claim, in any order. `written_at` is called only if the claim records an end."""
    lines = content.split(b"\n")[:-1]
    begun = _first_begun(lines)
    words = [line.partition(b" ")[::2] for line in lines]
    purposes = [value.decode("ascii", "replace") for word, value in words if word == ASKED_WORD]
    asked = Purpose(purposes[-1]) if purposes and purposes[-1] in list(Purpose) else None
    return ClaimFile(_claim(lines, begun, written_at), begun, asked)


def _claim(lines: list[bytes], begun: BatchStarted | None, written_at: Callable[[], float]) -> Claim:
    for line in lines:
        end = _end(line, written_at)
        if isinstance(end, WrittenExit) and SIGNALLED_LINE in lines:
            return WrittenExit(end.code, end.at, signalled=True)
        if end is not None:
            return end
    pids = [int(line) for line in lines if line.isdigit()]
    if pids:
        return Claimed(pids[0])
    if begun is not None:
        return begun
    if not any(lines):
        return Empty()
    return Revoked() if REVOKED_LINE in lines else Garbled()


def _first_begun(lines: list[bytes]) -> BatchStarted | None:
    for line in lines:
        match line.decode("utf-8", "replace").split(" "):
            case [word, job, node, _, started, gpus] if word == SLURM_WORD and job.isdecimal():
                with suppress(ValueError):
                    places = tuple(f"{node}:{gpu}" for gpu in gpus.split(",") if gpu != "-")
                    return BatchStarted(int(job), node, float(started), places)
    return None


def _end(line: bytes, written_at: Callable[[], float]) -> End | None:
    word, _, value = line.partition(b" ")
    if word == EXIT_WORD and value.isdigit():
        return WrittenExit(int(value), written_at())
    if line == LOG_FAILED_LINE:
        return LogFailed(written_at())
    return DirectoryGone(written_at()) if line == DIRECTORY_GONE_LINE else None


class ClaimedAttempts:
    """Base class of all engines. It manages the claims of their attempts.

    `private` is the descriptor of the session's private directory, which holds the claims. `session` is the session's
    permanent id.
    """

    def __init__(self, private: int, session: str) -> None:
        self._session = session
        self._claims = Claims.of(private)
        self._claims.make_directory()
        self._revoked: set[tuple[JobId, int]] = set()

    def token(self, job: JobId, attempt: int) -> str:
        return f"{self._session}.{job}.{attempt}"

    def write_down(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        self._claims.ask(job, attempt, purpose)

    def claimed(self) -> list[tuple[JobId, int]]:
        return self._claims.all()

    def forget(self, job: JobId, attempt: int) -> None:
        # A revocation is kept, because the wrapper may start late and must find it.
        if (job, attempt) not in self._revoked:
            self._claims.remove(job, attempt)


MARK = "news/withdrawn"
"""File in the session's private directory that lists withdrawn attempts whose jobs may still be in Slurm's queue."""


def jobs_in_queue(private: str) -> list[JobId]:
    """Return the ids of jobs with withdrawn attempts that may still be in Slurm's queue."""
    try:
        with open(f"{private}/{MARK}", encoding="ascii", errors="replace") as file:
            keys = [parse_key(line.strip()) for line in file]
    except OSError:
        return []
    return sorted({key[0] for key in keys if key is not None})


def parse_key(words: str) -> tuple[JobId, int] | None:
    """Parse `JOB.ATTEMPT`."""
    job, _, attempt = words.partition(".")
    return (int(job), int(attempt)) if job.isdecimal() and attempt.isdecimal() else None
