"""Copies of the store, made while the owner works, and the way back from a damaged one."""

from __future__ import annotations

import os
import time

from .errors import StoreDamaged, StoreTrouble
from .glance import is_whole
from .journal import Journal
from .loop import Loop
from .paths import Paths
from .store import Store

FIRST_AFTER = 1.0
EVERY = 3600.0
REQUESTS_KEPT = 86400.0
LOGS = ("-wal", "-journal", "-shm")
"""What SQLite keeps beside a database."""


class Backups:
    """Soon after the session was opened and every hour; copied in another thread while the main file is frozen."""

    def __init__(self, loop: Loop, store: Store, paths: Paths, journal: Journal) -> None:
        self._loop = loop
        self._store = store
        self._paths = paths
        self._journal = journal
        loop.call_later(FIRST_AFTER, self._make)

    def _make(self) -> None:
        self._loop.call_later(EVERY, self._make)
        try:
            self._store.forget_requests(time.time() - REQUESTS_KEPT)
            self._store.freeze()
        except (StoreTrouble, StoreDamaged) as trouble:
            self._journal.write(f"no backup: {trouble}")
            return
        self._loop.run_in_thread(lambda: _attempted(self._paths), self._made)

    def _made(self, trouble: str | None) -> None:
        if trouble is not None:
            self._journal.write(f"no backup: {trouble}")
        self._store.thaw()


def _attempted(paths: Paths) -> str | None:
    """Copies; returns what went wrong, if anything did."""
    try:
        copy(paths)
    except (OSError, StoreDamaged) as error:
        return str(error)
    return None


def copy(paths: Paths) -> None:
    """The database's main file, which the caller keeps from changing, under the backup's name."""
    import shutil

    fresh = paths.backup + ".new"
    shutil.copyfile(paths.database, fresh)
    os.chmod(fresh, 0o600)
    if not is_whole(fresh):
        raise StoreDamaged("the queue's file is damaged on the disk; the backup before is kept")
    with open(fresh, "rb") as file:
        os.fsync(file.fileno())
    os.replace(fresh, paths.backup)


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
