"""A look at a store's files without opening it: opening already changes them, and they may be another machine's."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

import msgspec

from gputui.process.world import World
from gputui.session.errors import StoreDamaged, StoreTrouble

from .store import Identity, Store


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


def running_in(database: str) -> str:
    """How many jobs run there, from a copy."""
    import shutil
    import tempfile

    try:
        with tempfile.TemporaryDirectory(prefix="gputui-") as folder:
            copy = os.path.join(folder, "session.db")
            for suffix in ("", "-wal"):
                if os.path.exists(database + suffix):
                    shutil.copyfile(database + suffix, copy + suffix)
            store = Store(copy)
            try:
                return str(len(store.load().book.active))
            finally:
                store.close()
    except (OSError, StoreDamaged, StoreTrouble):
        return "some"


def _quoted(path: str) -> str:
    """For a URI; written out because urllib costs more to load than everything else here."""
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in os.fsencode(path))
