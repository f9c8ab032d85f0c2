"""Backups of the store, and ways to read its files without opening it."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from contextlib import closing, suppress

import msgspec

from gputui.core.job import EngineName
from gputui.engines.claims import Claims
from gputui.process.machine import HostIdentity
from gputui.session.errors import SessionError, StoreDamaged, StoreTrouble
from gputui.session.event_loop import Loop, Timer
from gputui.session.session_dir import Journal, Paths

from .store import Identity, Store, ask_file

COPY_TRIES = 5


def home_of(database: str) -> HostIdentity | None:
    """Return the machine to which the session belongs, or None if the file does not say."""
    try:
        row = ask_file(database, "SELECT value FROM meta WHERE key='identity'")
        return msgspec.json.decode(row[0], type=Identity).world if row is not None else None
    except Exception:  # a damaged file may hold anything
        return None


def commits_in(database: str) -> int:
    """Return the number of commits in the file, or 0 if it is missing or unreadable."""
    try:
        return int(ask_file(database, "SELECT value FROM meta WHERE key='commits'")[0])
    except Exception:
        return 0


def is_whole(database: str) -> bool:
    """Return whether the file on disk, without its write-ahead log, is an intact database."""
    with suppress(Exception):
        return bool(ask_file(database, "PRAGMA quick_check(1)") == ("ok",))
    return False


def memory_copy(database: str) -> Store:
    """Copy the store with its write-ahead log into memory, for readers that must not open it.

    If an owner on another machine writes in the meantime, the copy is made again. Raises OSError, StoreTrouble,
    StoreDamaged or NewerStore.
    """
    for _ in range(COPY_TRIES):
        unchanged, store = _copied_once(database)
        if unchanged and store is not None:
            return store
        if store is not None:
            store.close()
    raise StoreTrouble("the queue changes faster than it can be read; try again")


def newest_copy(paths: Paths) -> Store:
    """Copy the store into memory. If it cannot be read, or lacks commits that its backup has, copy the backup
    instead.
    """
    try:
        store = memory_copy(paths.database)
    except (StoreDamaged, FileNotFoundError):
        return memory_copy(paths.backup)
    if commits_in(paths.backup) <= store.commits():
        return store
    store.close()
    return memory_copy(paths.backup)


def _copied_once(database: str) -> tuple[bool, Store | None]:
    """Return whether the file stayed the same while it was copied, and the copy. The copy is None if it is unusable."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="gputui-") as directory:
        copy = os.path.join(directory, "session.db")
        # Commits only add to the write-ahead log. If a checkpoint changes the file itself, the copy is inconsistent.
        before = _last_written(database)
        shutil.copyfile(database, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(database + "-wal", copy + "-wal")
        unchanged = _last_written(database) == before
        try:
            with closing(Store(copy)) as store:
                store.check()
                return unchanged, store.in_memory()
        except StoreDamaged:
            if unchanged:
                raise
            return False, None


def _last_written(database: str) -> tuple[int, int]:
    status = os.stat(database)
    return status.st_mtime_ns, status.st_size


class RunningCounts(msgspec.Struct, frozen=True):
    """The running jobs of a session that is not opened on this machine."""

    running: int = 0
    submitted: int = 0
    """Number of jobs that wait in a cluster's queue."""
    in_cluster: bool = False
    """Whether all running and queued jobs are in a cluster. If so, they continue wherever the session is opened."""

    def __str__(self) -> str:
        queued = f", {self.submitted} queued in Slurm" if self.submitted else ""
        return f"{self.running} running{queued}"


def count_running(paths: Paths) -> RunningCounts | None:
    """Count the running jobs in a copy of the store. Use claims to find those that have started since. Return None if
    the store is unreadable.
    """
    try:
        with closing(memory_copy(paths.database)) as store:
            book = store.load().book
            active = [book[job] for job in book.active]
    except (OSError, SessionError, StoreDamaged, StoreTrouble):
        return None
    claims = Claims(paths.claims)
    submitted = sum(job.submitted and claims.read_file(job.id, job.issued).begun is None for job in active)
    engines = {job.active.engine for job in active if job.active is not None}
    return RunningCounts(len(active) - submitted, submitted, engines == {EngineName.SLURM})


# Backups


FIRST_AFTER = 1.0
EVERY = 3600.0
REQUESTS_KEPT = 86400.0
REST = 60
"""Minimum time between two backups, as a multiple of the time that the last backup took."""
BREATH = 0.001
"""Seconds between two steps of making a backup."""
SERIALIZED = 3
"""The value of `sqlite3.threadsafety` if several threads may use a connection at the same time."""
LOGS = ("-wal", "-journal", "-shm")
"""Suffixes of the files that SQLite keeps next to a database."""


class Backups:
    """The backups of the store. One is made soon after the session is opened, soon after each full commit, and every
    hour.

    Another thread makes the copy while the owner commits.
    """

    def __init__(self, loop: Loop, store: Store, paths: Paths, journal: Journal) -> None:
        self._loop = loop
        self._store = store
        self._paths = paths
        self._journal = journal
        self._closing = False
        self._took = 0.0
        """Seconds that the last backup took."""
        self._is_soon = False
        """Whether the next backup is due soon. If one is being made, the next one follows soon after it."""
        self._making = False
        self._next: Timer | None = None
        store.on_flushed = self.soon
        self.soon()

    def close(self) -> None:
        """Abandon the backup that is being made, if any."""
        self._closing = True
        self._store.on_flushed = lambda: None

    def soon(self) -> None:
        """Schedule a backup, because changes that are only in the write-ahead log would be lost with it. Only for the
        owner's thread.
        """
        if not self._is_soon:
            self._is_soon = True
            if not self._making:
                self._schedule(max(FIRST_AFTER, REST * self._took))

    def _schedule(self, delay: float) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = self._loop.call_later(delay, self._make)

    def _make(self) -> None:
        self._is_soon, self._making = False, True
        try:
            self._store.forget_requests(time.time() - REQUESTS_KEPT)
        except (StoreTrouble, StoreDamaged) as trouble:
            self._made(str(trouble))
            return
        if sqlite3.threadsafety < SERIALIZED:
            self._made(self._try_copy())
        else:
            self._loop.run_in_thread(self._try_copy, self._made)

    def _made(self, trouble: str | None) -> None:
        self._making = False
        if trouble is not None:
            self._journal.write(f"no backup: {trouble}")
        if not self._closing:
            self._schedule(max(FIRST_AFTER, REST * self._took) if self._is_soon else EVERY)

    def _try_copy(self) -> str | None:
        """Make a backup. Return the error message, or None."""
        began = time.monotonic()
        try:
            self._copy()
            self._took = time.monotonic() - began
        except (OSError, StoreDamaged, StoreTrouble) as error:
            return str(error)
        except _Leaving:
            pass
        return None

    def _copy(self) -> None:
        fresh = self._paths.backup + ".new"
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        self._store.copy_to(fresh, self._breathe)
        os.chmod(fresh, 0o600)
        if not is_whole(fresh):
            raise StoreDamaged("the queue database on disk is damaged; keeping the previous backup")
        with open(fresh, "rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, self._paths.backup)

    def _breathe(self) -> None:
        """Let a waiting commit go first, because SQLite's locks are not fair. Raise _Leaving if the owner leaves."""
        if self._closing:
            raise _Leaving
        time.sleep(BREATH)


class _Leaving(Exception):
    """Raised to abandon the backup when the owner leaves."""


def set_aside(paths: Paths) -> str:
    """Rename a damaged database and return its new name.

    The write-ahead log is renamed first. Otherwise it could be left behind and be applied to the database that replaces
    the damaged one.
    """
    stamp = time.strftime("%Y%m%dT%H%M%S")
    aside = f"{paths.database}.damaged-{stamp}"
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = f"{paths.database}.damaged-{stamp}-{number}"
    for suffix in (*LOGS, ""):
        if os.path.lexists(paths.database + suffix):
            os.rename(paths.database + suffix, aside + suffix)
    return aside


def restore(paths: Paths, to: str) -> None:
    """Copy the backup to `to`. Raise StoreDamaged if it cannot be read."""
    import shutil

    try:
        shutil.copyfile(paths.backup, to)
    except OSError as error:
        if error.errno == errno.EIO:
            raise StoreDamaged(f"the backup cannot be read: {error.strerror}") from error
        raise
