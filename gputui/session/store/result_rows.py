"""What the store keeps of an attempt's results: a row to be shown, its series, and how to go on reading."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from msgspec import Struct

__all__ = ["SCHEMA", "ResultRow", "load_results", "results_of", "unfinished_results", "write_results"]

SCHEMA = """
CREATE TABLE result(job INTEGER NOT NULL, attempt INTEGER NOT NULL, results BLOB NOT NULL, PRIMARY KEY(job, attempt))
    WITHOUT ROWID;
CREATE TABLE series(job INTEGER NOT NULL, attempt INTEGER NOT NULL, series BLOB NOT NULL, state BLOB NOT NULL,
    PRIMARY KEY(job, attempt));
CREATE INDEX unfinished_series ON series(job) WHERE length(state) > 0;
"""


class ResultRow(Struct, frozen=True):
    """One attempt's; packed, for nobody looks into most of them."""

    job: int
    attempt: int
    results: bytes
    series: bytes
    state: bytes
    """Empty: the attempt is over and its log was read to the end."""


def write_results(db: sqlite3.Connection, rows: Iterable[ResultRow]) -> None:
    for row in rows:
        db.execute("INSERT OR REPLACE INTO result VALUES(?, ?, ?)", (row.job, row.attempt, row.results))
        db.execute("INSERT OR REPLACE INTO series VALUES(?, ?, ?, ?)", (row.job, row.attempt, row.series, row.state))


def load_results(db: sqlite3.Connection) -> dict[int, bytes]:
    """Of each job's newest attempt that has any."""
    return dict(db.execute("SELECT job, results FROM result ORDER BY job, attempt"))


def results_of(db: sqlite3.Connection, job: int) -> list[ResultRow]:
    """Of all its attempts, the oldest first."""
    rows = db.execute(
        "SELECT result.job, result.attempt, results, series, state FROM result JOIN series"
        " ON result.job=series.job AND result.attempt=series.attempt WHERE result.job=? ORDER BY result.attempt",
        (job,),
    )
    return [ResultRow(*row) for row in rows]


def unfinished_results(db: sqlite3.Connection) -> list[tuple[int, int]]:
    """The attempts whose logs were not read to the end."""
    return db.execute("SELECT job, attempt FROM series WHERE length(state) > 0").fetchall()
