"""Writing of INFO files and markers in a separate thread, so that no job waits for them."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from gputui.core.job import CodeSnapshot, Job, JobId, Succeeded
from gputui.core.steps import Step, reached
from gputui.process.watch import NoThread, start_thread
from gputui.session.errors import NotOurs
from gputui.session.job_directories import FAILURE, SUCCESS, Directories, info, with_earlier

GIT_CACHED_FOR = 10.0
"""Seconds for which the description of a repository by git is reused."""
MOST_FILES = 50
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
RETRY_AFTER = 1.0
GATHER = 0.1
"""Seconds to wait for more notes, so that a job that ends in the meantime is written only once."""


class GitNotes:
    """The commits and changed files of repositories. They are cached for a while because thousands of short jobs may
    start one after the other.
    """

    def __init__(self) -> None:
        self._tops: dict[str, str | None] = {}
        self._answers: dict[str, tuple[float, str]] = {}

    def lines(self, directory: str) -> str:
        """Return the git lines for INFO, or an empty string outside of a repository."""
        if directory not in self._tops:
            self._tops[directory] = _find_repository(directory)
        top = self._tops[directory]
        if top is None:
            return ""
        asked_at, answer = self._answers.get(top, (0.0, ""))
        if time.monotonic() - asked_at > GIT_CACHED_FOR or not answer:
            answer = _describe_repository(top)
            self._answers[top] = (time.monotonic(), answer)
        return answer


def _find_repository(directory: str) -> str | None:
    while not os.path.exists(os.path.join(directory, ".git")):
        directory, last = os.path.split(directory)
        if not last:
            return None
    return directory


def _describe_repository(top: str) -> str:
    commit = _git(top, "rev-parse", "HEAD")
    if not commit:
        return ""
    changed = _git(top, "status", "--porcelain").splitlines()
    lines = [f"git commit: {commit}", *(f"git dirty: {line}" for line in changed[:MOST_FILES])]
    if len(changed) > MOST_FILES:
        lines.append(f"git dirty: and {len(changed) - MOST_FILES} more")
    return "\n".join(lines) + "\n"


def _describe_snapshot(code: CodeSnapshot) -> str:
    if not code.head:
        return ""
    changed = f"git dirty: uncommitted changes in snapshot {code.tree}\n" if code.changed else ""
    return f"git commit: {code.head}\n{changed}"


def _git(top: str, *words: str) -> str:
    import subprocess

    command = ["git", "--no-optional-locks", "-C", top, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip("\n") if done.returncode == 0 else ""


class InfoWriter:
    """A thread that writes the newest state of each job. If a job changes while it waits to be written, its older
    states are skipped.
    """

    def __init__(self, directories: Directories, claims: str, forget: Callable[[JobId, int], None]) -> None:
        self._directories = directories
        self._claims = claims
        self._forget = forget
        self._git = GitNotes()
        self._pending: dict[JobId, Job] = {}
        self._over: dict[JobId, list[int]] = {}
        """Attempts with a durable end, by job. Their claims are removed after INFO and the marker are written."""
        self._wake = threading.Condition()
        self._at_work = threading.Lock()
        self._closing = False
        self._thread: threading.Thread | None = None

    def note(self, job: Job, over: int | None = None) -> None:
        """Queue the durable state of a job for writing. `over` is an attempt that has ended."""
        with self._wake:
            if not self._pending:
                self._wake.notify()
            self._pending[job.id] = job
            if over is not None:
                self._over.setdefault(job.id, []).append(over)
        if self._thread is None:
            self._begin()

    def _begin(self) -> None:
        try:
            self._thread = start_thread(self._work, "gputui-info")
        except NoThread:  # write in this thread
            for _ in range(len(self._pending)):
                self._write_next()

    def clear_markers_of(self, job: Job) -> None:
        """Remove the markers of a job and drop its queued state. Called before another attempt is committed."""
        with self._at_work:
            with self._wake:
                self._pending.pop(job.id, None)
                over = self._over.pop(job.id, [])
            with suppress(FileNotFoundError, NotOurs), self._directories.enter(job) as directory:
                directory.clear_markers()
            for attempt in over:
                self._forget(job.id, attempt)

    @property
    def ended(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def close(self, patience: float = 2.0) -> None:
        """Write what is queued. If the disk is full, the next owner writes the rest."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(patience)
        elif self._pending:
            self._begin()

    def _work(self) -> None:
        while self._await_work():
            while self._write_next():
                pass

    def _write_next(self) -> bool:
        """Write the next queued job. Return False if nothing is queued."""
        with self._wake:
            job = next(iter(self._pending.values()), None)
        if job is None:
            return False
        cwd, code = job.spec.cwd, job.spec.code
        # Slow, so not done under the lock that the owner may wait for.
        git = self._git.lines(cwd) if code is None else _describe_snapshot(code)
        with self._at_work:
            with self._wake:
                job = next(iter(self._pending.values()), None)
                if job is None or (job.spec.cwd, job.spec.code) != (cwd, code):
                    return True
                del self._pending[job.id]
                over = self._over.pop(job.id, [])
            unwritten = self._write(job, over, git)
            if unwritten is None:
                with self._wake:
                    self._pending.setdefault(job.id, job)
                    self._over.setdefault(job.id, []).extend(over)
                    if self._closing:
                        self._pending.clear()
        if unwritten is None:
            if not self._closing and self._thread is not None:
                time.sleep(RETRY_AFTER)
            return True
        for attempt in unwritten:
            self._forget(job.id, attempt)
        if over:
            reached(Step.CLAIM_REMOVED)
        return True

    def _await_work(self) -> bool:
        with self._wake:
            while not self._pending and not self._closing:
                self._wake.wait()
            if not self._closing:
                self._wake.wait(GATHER)
            return bool(self._pending) or not self._closing

    def _write(self, job: Job, over: list[int], git: str) -> list[int] | None:
        """Write INFO and the marker of a job. If possible, the marker is made from the claim of the last attempt.
        Return the attempts whose claims must still be removed, or None if the disk is full.
        """
        unwritten = over
        try:
            with self._directories.enter(job) as directory:
                if git:
                    newest = job.attempts[-1].number if job.attempts else 0
                    attempt = job.active.attempt if job.active is not None else newest
                    git = with_earlier(git, attempt, directory.read_info())
                directory.write_info(info(job, git))
                if over and job.active is None and job.attempts:
                    last = job.attempts[-1]
                    marker = SUCCESS if isinstance(last.end, Succeeded) else FAILURE
                    if directory.mark(marker, f"{self._claims}/{job.id}.{last.number}"):
                        unwritten = [attempt for attempt in over if attempt != last.number]
                    reached(Step.END_NOTED)
        except (OSError, NotOurs) as error:
            # Do not recreate a removed directory, and leave another user's directory alone.
            return None if isinstance(error, OSError) and error.errno in FULL_DISK else over
        return unwritten
