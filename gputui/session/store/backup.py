"""Copies of the store, and a look at its files without opening it."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from contextlib import suppress

import msgspec

from gputui.core.job import EngineName
from gputui.engines.claims import Claims
from gputui.process.machine import World
from gputui.session.errors import SessionError, StoreDamaged, StoreTrouble
from gputui.session.event_loop import Loop, Timer
from gputui.session.session_dir import Journal, Paths

from .store import Identity, Store, ask_file

# ---- A look at a store's files without opening it ----


COPY_TRIES = 5


def home_of(database: str) -> World | None:
    """Where the session lives, which never changes; None: the file does not tell."""
    try:
        row = ask_file(database, "SELECT value FROM meta WHERE key='identity'")
        return msgspec.json.decode(row[0], type=Identity).world if row is not None else None
    except Exception:  # any value may be anything in a damaged file
        return None


def commits_in(database: str) -> int:
    """How often the store had been changed when the file was written; 0: there is none, or it does not tell."""
    try:
        return int(ask_file(database, "SELECT value FROM meta WHERE key='commits'")[0])
    except Exception:
        return 0


def is_whole(database: str) -> bool:
    """Whether the file alone, as it is on the disk, is a sound database."""
    try:
        return bool(ask_file(database, "PRAGMA quick_check(1)") == ("ok",))
    except Exception:
        return False


def memory_copy(database: str) -> Store:
    """The store with its log, copied into memory: for whoever may only read, or must not touch it.

    Its owner may be writing on another machine; a copy made meanwhile is made again. Raises OSError, StoreTrouble,
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
    """Of the store, or of its backup where the store cannot be read or has lost what the backup knows."""
    try:
        store = memory_copy(paths.database)
    except (StoreDamaged, FileNotFoundError):
        return memory_copy(paths.backup)
    if commits_in(paths.backup) <= store.commits():
        return store
    store.close()
    return memory_copy(paths.backup)


def _copied_once(database: str) -> tuple[bool, Store | None]:
    """Whether the file stayed the same meanwhile, and the copy; None: it changed and the copy is of no use."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="gputui-") as folder:
        copy = os.path.join(folder, "session.db")
        # The log only ever adds to the file as it was, until a checkpoint writes to the file itself.
        before = _last_written(database)
        shutil.copyfile(database, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(database + "-wal", copy + "-wal")
        unchanged = _last_written(database) == before
        try:
            store = Store(copy)
        except StoreDamaged:
            if unchanged:
                raise
            return False, None
        try:
            store.check()
            return unchanged, store.in_memory()
        except StoreDamaged:
            if unchanged:
                raise
            return False, None
        finally:
            store.close()


def _last_written(database: str) -> tuple[int, int]:
    status = os.stat(database)
    return status.st_mtime_ns, status.st_size


class UnderWay(msgspec.Struct, frozen=True):
    """What a session that is not opened here has under way."""

    running: int = 0
    submitted: int = 0
    """Jobs that a cluster has not started."""
    in_cluster: bool = False
    """All of it is in a cluster, and goes on wherever the session is opened."""

    def __str__(self) -> str:
        queued = f", {self.submitted} queued in Slurm" if self.submitted else ""
        return f"{self.running} running{queued}"


def under_way(paths: Paths) -> UnderWay | None:
    """From a copy, and from claims, which tell what began since; None: it cannot be read."""
    try:
        store = memory_copy(paths.database)
        try:
            book = store.load().book
            active = [book[job] for job in book.active]
        finally:
            store.close()
    except (OSError, SessionError, StoreDamaged, StoreTrouble):
        return None
    claims = Claims(paths.claims)
    submitted = sum(job.submitted and claims.begun(job.id, job.issued) is None for job in active)
    engines = {job.active.engine for job in active if job.active is not None}
    return UnderWay(len(active) - submitted, submitted, engines == {EngineName.SLURM})


# ---- Copies of the store, made while the owner works, and the way back from a damaged one ----


FIRST_AFTER = 1.0
EVERY = 3600.0
REQUESTS_KEPT = 86400.0
REST = 60
"""Times as long as a copy took passes before the next."""
BREATH = 0.001
"""Seconds between two steps of a copy."""
SERIALIZED = 3
"""What `sqlite3.threadsafety` says of a library whose connections may be used by several threads at once."""
LOGS = ("-wal", "-journal", "-shm")
"""What SQLite keeps beside a database."""


class Backups:
    """Soon after the session was opened, soon after a user was told that something is stored, and every hour; copied
    in another thread while the owner commits on."""

    def __init__(self, loop: Loop, store: Store, paths: Paths, journal: Journal) -> None:
        self._loop = loop
        self._store = store
        self._paths = paths
        self._journal = journal
        self._closing = False
        self._took = 0.0
        """Seconds that the last one took."""
        self._is_soon = False
        """The next one is, or what is asked for while one is made comes right after it."""
        self._made_now = False
        self._next: Timer | None = None
        store.on_flushed = self.soon
        self.soon()

    def close(self) -> None:
        """One under way is given up: nobody waits for it who leaves."""
        self._closing = True
        self._store.on_flushed = lambda: None

    def soon(self) -> None:
        """In the owner's thread. What is in the log only would be lost with it."""
        if not self._is_soon:
            self._is_soon = True
            if not self._made_now:
                self._schedule(max(FIRST_AFTER, REST * self._took))

    def _schedule(self, delay: float) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = self._loop.call_later(delay, self._make)

    def _make(self) -> None:
        self._is_soon, self._made_now = False, True
        try:
            self._store.forget_requests(time.time() - REQUESTS_KEPT)
        except (StoreTrouble, StoreDamaged) as trouble:
            self._made(str(trouble))
            return
        if sqlite3.threadsafety < SERIALIZED:
            self._made(self._attempted())
        else:
            self._loop.run_in_thread(self._attempted, self._made)

    def _made(self, trouble: str | None) -> None:
        self._made_now = False
        if trouble is not None:
            self._journal.write(f"no backup: {trouble}")
        if not self._closing:
            self._schedule(max(FIRST_AFTER, REST * self._took) if self._is_soon else EVERY)

    def _attempted(self) -> str | None:
        """Copies; returns what went wrong, if anything did."""
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
            raise StoreDamaged("the queue's file is damaged on the disk; the backup before is kept")
        with open(fresh, "rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, self._paths.backup)

    def _breathe(self) -> None:
        """Whoever waits to commit comes before the next step: locks know no order."""
        if self._closing:
            raise _Leaving
        time.sleep(BREATH)


class _Leaving(Exception):
    """The owner leaves."""


def set_aside(paths: Paths) -> str:
    """Moves a damaged database out of the way under a name with its time; returns that name.

    Its log goes first: a log that stayed behind would be played into whatever takes the database's place.
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
    """Copies the last backup to another place. Raises StoreDamaged if it cannot be read."""
    import shutil

    try:
        shutil.copyfile(paths.backup, to)
    except OSError as error:
        if error.errno == errno.EIO:
            raise StoreDamaged(f"the backup cannot be read: {error.strerror}") from error
        raise
