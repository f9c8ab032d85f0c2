"""Copies of the store, and a look at its files without opening it."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from typing import Any

import msgspec

from gputui.core.job import EngineName
from gputui.engines.claims import Claims
from gputui.process.machine import World
from gputui.session.errors import SessionError, StoreDamaged, StoreTrouble
from gputui.session.event_loop import Loop
from gputui.session.session_dir import Journal, Paths

from .store import Identity, Store

# ---- A look at a store's files without opening it ----


COPY_TRIES = 5


def home_of(database: str) -> World | None:
    """Where the session lives, which never changes; None: the file does not tell."""
    try:
        row = _asked(database, "SELECT value FROM meta WHERE key='identity'")
        return msgspec.json.decode(row[0], type=Identity).world if row is not None else None
    except (sqlite3.Error, msgspec.MsgspecError):
        return None


def is_whole(database: str) -> bool:
    """Whether the file alone, as it is on the disk, is a sound database."""
    try:
        return bool(_asked(database, "PRAGMA quick_check(1)") == ("ok",))
    except sqlite3.Error:
        return False


def _asked(database: str, question: str) -> Any:
    connection = sqlite3.connect(f"file:{_quoted(database)}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute(question).fetchone()
    finally:
        connection.close()


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


def _quoted(path: str) -> str:
    """For a URI; written out because urllib costs more to load than everything else here."""
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in os.fsencode(path))


# ---- Copies of the store, made while the owner works, and the way back from a damaged one ----


FIRST_AFTER = 1.0
EVERY = 3600.0
REQUESTS_KEPT = 86400.0
BREATH = 0.001
"""Seconds between two steps of a copy."""
SERIALIZED = 3
"""What `sqlite3.threadsafety` says of a library whose connections may be used by several threads at once."""
LOGS = ("-wal", "-journal", "-shm")
"""What SQLite keeps beside a database."""


class Backups:
    """Soon after the session was opened and every hour; copied in another thread while the owner commits on."""

    def __init__(self, loop: Loop, store: Store, paths: Paths, journal: Journal) -> None:
        self._loop = loop
        self._store = store
        self._paths = paths
        self._journal = journal
        self._closing = False
        loop.call_later(FIRST_AFTER, self._make)

    def close(self) -> None:
        """One under way is given up: nobody waits for it who leaves."""
        self._closing = True

    def _make(self) -> None:
        self._loop.call_later(EVERY, self._make)
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
        if trouble is not None:
            self._journal.write(f"no backup: {trouble}")

    def _attempted(self) -> str | None:
        """Copies; returns what went wrong, if anything did."""
        try:
            self._copy()
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


def restore(paths: Paths, to: str) -> bool:
    """Copies the last backup to another place; False: there is none."""
    import shutil

    if not os.path.exists(paths.backup):
        return False
    shutil.copyfile(paths.backup, to)
    return True
