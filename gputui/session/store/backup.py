"""Copies of the store, made while the owner works, and the way back from a damaged one."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress

from gputui.session.errors import StoreDamaged, StoreTrouble
from gputui.session.files.paths import Paths
from gputui.session.journal import Journal
from gputui.session.owner.loop import Loop

from .peek import is_whole
from .store import Store

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
