"""SQLite's errors by what can be done about them: try again later, or rebuild. Owns that table and nothing else."""

from __future__ import annotations

import sqlite3

import msgspec

from gputui.session.errors import StoreDamaged, StoreTrouble


class translated:
    """SQLite's errors by what can be done about them."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.OperationalError) and _passes(error):
            raise StoreTrouble(f"the queue cannot be written: {error}") from error
        if isinstance(error, sqlite3.DatabaseError | msgspec.MsgspecError):
            raise StoreDamaged(f"the queue's file is damaged: {error}") from error


_PASSING = frozenset(
    (
        sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_INTERRUPT,
    )
)  # fmt: skip


def _passes(error: sqlite3.OperationalError) -> bool:
    """The rest is damage: a file that ends too early, a table that is not there, text that is none."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code != sqlite3.SQLITE_IOERR_SHORT_READ and (code & 0xFF) in _PASSING
