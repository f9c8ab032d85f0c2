"""Writes INFO and markers in a thread of its own, with the commit of the job's folder."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from gputui.core.job import Job, JobId, Succeeded
from gputui.core.steps import Step, reached
from gputui.process.watch import NoThread, begin
from gputui.session.errors import NotOurs
from gputui.session.job_folders import FAILURE, SUCCESS, Folders, JobFolder, info, with_earlier

# ---- Which commit a job's folder was at, and what was changed in it ----


PATIENCE = 10.0
"""Seconds for which an answer about a repository holds."""
MOST_FILES = 50


class GitNotes:
    """Remembers answers, so that a thousand quick jobs of one repository ask once in a while."""

    def __init__(self) -> None:
        self._tops: dict[str, str | None] = {}
        self._answers: dict[str, tuple[float, str]] = {}

    def of(self, folder: str) -> str:
        """Lines for INFO; empty where there is no repository."""
        if folder not in self._tops:
            self._tops[folder] = _top(folder)
        top = self._tops[folder]
        if top is None:
            return ""
        asked_at, answer = self._answers.get(top, (0.0, ""))
        if time.monotonic() - asked_at > PATIENCE or not answer:
            answer = _ask(top)
            self._answers[top] = (time.monotonic(), answer)
        return answer


def _top(folder: str) -> str | None:
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, last = os.path.split(folder)
        if not last:
            return None
    return folder


def _ask(top: str) -> str:
    commit = _git(top, "rev-parse", "HEAD")
    if not commit:
        return ""
    changed = _git(top, "status", "--porcelain").splitlines()
    lines = [f"git commit: {commit}", *(f"git dirty: {line}" for line in changed[:MOST_FILES])]
    if len(changed) > MOST_FILES:
        lines.append(f"git dirty: and {len(changed) - MOST_FILES} more")
    return "\n".join(lines) + "\n"


def _git(top: str, *words: str) -> str:
    import subprocess

    command = ["git", "--no-optional-locks", "-C", top, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip("\n") if done.returncode == 0 else ""


# ---- Writes INFO and markers in a thread of its own, so that no job waits for them ----


FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
RETRY_AFTER = 1.0
GATHER = 0.1
"""Seconds in which notes gather: a job that has ended by then is noted once, and the owner wakes nobody for it."""


class InfoWriter:
    """Keeps only the newest state of each job to be noted: a short job is written once."""

    def __init__(self, folders: Folders, claims: str, forget: Callable[[JobId, int], None]) -> None:
        self._folders = folders
        self._claims = claims
        self._forget = forget
        self._git = GitNotes()
        self._pending: dict[JobId, Job] = {}
        self._over: dict[JobId, list[int]] = {}
        """Attempts whose end is durable and whose claims wait for the note."""
        self._wake = threading.Condition()
        self._at_work = threading.Lock()
        self._closing = False
        self._thread: threading.Thread | None = None

    def note(self, job: Job, over: int | None = None) -> None:
        """The job as it is durable now; `over` is an attempt that has ended with it."""
        with self._wake:
            if not self._pending:
                self._wake.notify()
            self._pending[job.id] = job
            if over is not None:
                self._over.setdefault(job.id, []).append(over)
        if self._thread is None:
            self._begin()

    def _begin(self) -> None:
        """Where the machine gives no thread, what is there is written at once."""
        try:
            self._thread = begin(self._work, "gputui-info")
        except NoThread:
            for _ in range(len(self._pending)):
                self._note_next()

    def begin_anew(self, job: Job) -> None:
        """Before a further attempt is committed: what is left to note of the ones before is dropped."""
        with self._at_work:
            with self._wake:
                self._pending.pop(job.id, None)
                over = self._over.pop(job.id, [])
            self._clear_markers(job)
            for attempt in over:
                self._forget(job.id, attempt)

    def _clear_markers(self, job: Job) -> None:
        with suppress(FileNotFoundError, NotOurs), self._folders.enter(job) as folder:
            folder.clear_markers()

    @property
    def ended(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def close(self, patience: float = 2.0) -> None:
        """Writes what is there; what a full disk does not take is written by the next owner."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(patience)
        elif self._pending:
            self._begin()

    def _work(self) -> None:
        while self._await_work():
            while self._note_next():
                pass

    def _note_next(self) -> bool:
        """False: nothing is left to note."""
        folder = self._next_folder()
        if folder is None:
            return False
        git = self._git.of(folder)  # slow, so not while the owner may have to wait for us
        with self._at_work:
            job, over = self._next(folder)
            if job is None:
                return True
            unwritten = self._write(job, over, git)
            if unwritten is None:
                self._put_back(job, over)
        if unwritten is None:
            self._rest()
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

    def _next_folder(self) -> str | None:
        """Where the next job to be noted runs."""
        with self._wake:
            return next(iter(self._pending.values())).spec.cwd if self._pending else None

    def _next(self, folder: str) -> tuple[Job | None, list[int]]:
        """None: what was next is not any more."""
        with self._wake:
            job = next(iter(self._pending.values()), None)
            if job is None or job.spec.cwd != folder:
                return None, []
            del self._pending[job.id]
            return job, self._over.pop(job.id, [])

    def _write(self, job: Job, over: list[int], git: str) -> list[int] | None:
        """The attempts whose claims are left, for one became the marker; None: the disk is full, try again."""
        unwritten = over
        try:
            with self._folders.enter(job) as folder:
                if git:
                    git = with_earlier(git, _newest(job), folder.read_info())
                folder.write_info(info(job, git).encode("utf-8", "replace"))
                if over and job.active is None and job.attempts:
                    unwritten = self._mark(folder, job, over)
                    reached(Step.END_NOTED)
        except (OSError, NotOurs) as error:
            # A folder that was taken away is not made again, and one that is somebody else's is left alone.
            return None if isinstance(error, OSError) and error.errno in FULL_DISK else over
        return unwritten

    def _mark(self, folder: JobFolder, job: Job, over: list[int]) -> list[int]:
        newest = job.attempts[-1]
        marker = SUCCESS if isinstance(newest.end, Succeeded) else FAILURE
        if not folder.mark(marker, f"{self._claims}/{job.id}.{newest.number}"):
            return over
        return [attempt for attempt in over if attempt != newest.number]

    def _put_back(self, job: Job, over: list[int]) -> None:
        with self._wake:
            self._pending.setdefault(job.id, job)
            self._over.setdefault(job.id, []).extend(over)
            if self._closing:
                self._pending.clear()

    def _rest(self) -> None:
        with self._wake:
            closing = self._closing
        if not closing and self._thread is not None:
            time.sleep(RETRY_AFTER)


def _newest(job: Job) -> int:
    return job.active.attempt if job.active is not None else job.attempts[-1].number if job.attempts else 0
