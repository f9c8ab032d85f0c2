"""The durable queue: an SQLite file that only the holder of the session's lock opens."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.job import Job, share_equal
from gputui.core.scheduler import HistoryEntry, Record, Scheduler
from gputui.core.spans import MOST_SPANS, RecordedSpan, SpanRecord
from gputui.process.directories import DirectoryId
from gputui.process.machine import HostIdentity
from gputui.session.environment import digest
from gputui.session.errors import NewerStore, SessionError, StoreDamaged, StoreTrouble
from gputui.session.job_directories import Former, ranges
from gputui.session.loading import SourceRecord
from gputui.session.messages import EventKind, Layout, LoggedEvent


@contextmanager
def translated(*, reading: bool = False) -> Iterator[None]:
    """Translate SQLite's errors: raise StoreTrouble if a retry can help, and StoreDamaged otherwise.

    While reading, any other error also means damage, because everything in the store was valid when it was written.
    """
    try:
        yield
    except (StoreTrouble, StoreDamaged, SessionError):
        raise
    except Exception as error:
        if isinstance(error, sqlite3.OperationalError) and _passes(error):
            raise StoreTrouble(f"cannot write the queue: {error}") from error
        if reading or isinstance(error, _DAMAGE):
            what = str(error).partition(" with text ")[0][:120]  # SQLite quotes the whole row
            raise StoreDamaged(f"the queue database is damaged: {what}") from error
        raise


_DAMAGE = (sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError)
_PASSING = frozenset(
    (
        sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_INTERRUPT,
    )
)  # fmt: skip


_UNREADABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)


def _passes(error: sqlite3.OperationalError) -> bool:
    """Return whether the error may go away by itself. Damage (unreadable pages, a truncated file, a missing table) does
    not.
    """
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code not in _UNREADABLE and (code & 0xFF) in _PASSING


T = TypeVar("T")

SCHEMA_VERSION = 6
SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE environment(digest TEXT PRIMARY KEY, variables TEXT NOT NULL);
CREATE TABLE job(id INTEGER PRIMARY KEY, data TEXT NOT NULL, key TEXT);
CREATE UNIQUE INDEX job_of_key ON job(key) WHERE key IS NOT NULL;
CREATE TABLE revoked(key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE history(job INTEGER NOT NULL, at REAL NOT NULL, text TEXT NOT NULL);
CREATE INDEX history_of_job ON history(job);
CREATE TABLE event(number INTEGER PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE request(uuid TEXT PRIMARY KEY, reply TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE span(number INTEGER PRIMARY KEY, open INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE result(job INTEGER NOT NULL, attempt INTEGER NOT NULL, results BLOB NOT NULL, PRIMARY KEY(job, attempt))
    WITHOUT ROWID;
CREATE TABLE series(job INTEGER NOT NULL, attempt INTEGER NOT NULL, series BLOB NOT NULL, state BLOB NOT NULL,
    PRIMARY KEY(job, attempt));
CREATE INDEX unfinished_series ON series(job) WHERE length(state) > 0;
"""


MOST_EVENTS = 10_000
"""Number of events that are kept."""
EVENTS_PER_PRUNING = 500
MEMORY = ":memory:"
"""Path of a store that has no file."""
PAGES_AT_ONCE = 200
"""Number of pages that are copied in one step, while commits wait."""
LOCKED_FOR = 0.002
"""Seconds to wait before continuing a copy that was interrupted by a transaction."""

_encode = msgspec.json.Encoder().encode
_TABLES = {statement.strip() for statement in SCHEMA.split(";")} - {""}
"""The statements of SCHEMA in the form in which SQLite stores them."""
SEARCHED_HISTORY = 5000
"""Number of newest entries of the history that are searched for what users did."""


class ResultRow(Struct, frozen=True):
    """The results of one attempt. They are encoded, because most are never looked at."""

    job: int
    attempt: int
    results: bytes
    series: bytes
    state: bytes
    """How far the logs were read. Empty if the attempt has ended and its logs were read to the end."""


class EventLogId(Struct, frozen=True):
    id: str
    first: int
    """The number of the first event that belongs to the log with this id."""


class Identity(Struct, frozen=True):
    uuid: str
    """Id that marks the processes of the session's jobs. It changes with each copy and, unless jobs run in a cluster,
    with each boot.
    """
    world: HostIdentity
    """The host on which the session's last owner, and therefore every running attempt, was started."""
    directory: DirectoryId
    """The private directory as it was when the session was last opened."""
    prefix: str = "job_"
    job_dir: str = ""
    made_directory: bool = False
    """Whether gputui created the session's directory. Only then may it move the directory aside."""
    former: tuple[Former, ...] = ()
    """Earlier layouts, for the jobs that had started before the layout was changed."""
    event_logs: tuple[EventLogId, ...] = ()
    """The ids of the log of events, newest last. Each begins where the log may differ from what was read before."""

    def laid_out(self, layout: Layout, started: Iterable[int]) -> Identity:
        """Return the identity with a new layout. Jobs in `started`, whose ids must be in ascending order, keep their
        directories.
        """
        before = Layout(self.prefix, self.job_dir)
        if layout == before:
            return self
        stay = [job for job in started if not any(former.covers(job) for former in self.former)]
        former = (*self.former, Former(before, ranges(stay))) if stay else self.former
        return replace(self, prefix=layout.prefix, job_dir=layout.job_dir, former=former)

    def with_new_event_log(self, first: int) -> Identity:
        """Return the identity with a new id for the events from `first` on."""
        logs = (*self.event_logs, EventLogId(os.urandom(4).hex(), first))
        return replace(self, event_logs=logs[-MOST_EVENT_LOGS:])


MOST_EVENT_LOGS = 100


class Change(msgspec.Struct):
    """The changes that one commit makes durable."""

    jobs: Iterable[Job] = ()
    revoked_keys: Iterable[str] = ()
    moments: Iterable[HistoryEntry] = ()
    environments: dict[str, dict[str, str]] = {}
    replies: list[tuple[str, str, float]] = []
    record: Record | None = None
    identity: Identity | None = None
    sources: list[SourceRecord] | None = None
    spans: Iterable[RecordedSpan] = ()
    results: list[ResultRow] = []
    events: list[tuple[int, LoggedEvent]] = []
    """New events with their numbers, which continue those in the store."""
    full: bool = False
    """Whether to flush the commit to the disk before returning."""

    def is_empty(self) -> bool:
        lists = (self.jobs, self.revoked_keys, self.moments, self.environments, self.replies, self.results, self.spans,
                 self.events)  # fmt: skip
        return not any(lists) and self.record is None and self.identity is None and self.sources is None


class Store:
    """The durable queue. Its methods raise StoreTrouble if trying again later can help, and StoreDamaged if it
    cannot.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.on_flushed: Callable[[], None] = lambda: None
        """Callback after each commit with `full` set."""
        self._full: bool | None = None
        _check_header(path)
        with translated():
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
        try:
            with translated():
                if path != MEMORY:
                    os.chmod(path, 0o600)
                self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
                self._db.execute("PRAGMA journal_mode=WAL")
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        _refuse_newer(self.path, version)
        if version != SCHEMA_VERSION:
            rows = f"INSERT INTO meta VALUES('schema', '{SCHEMA_VERSION}'), ('commits', '0');"
            self._db.executescript(f"BEGIN IMMEDIATE; {SCHEMA}{rows} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")

    def close(self) -> None:
        self._db.close()

    # Reading

    def identity(self) -> Identity | None:
        return self._meta("identity", Identity)

    def sources(self) -> list[SourceRecord]:
        return self._meta("sources", list[SourceRecord]) or []

    def load(self) -> Scheduler:
        """Return the scheduler as it was last committed."""
        with translated(reading=True):
            record = self._meta("record", Record) or Record()
            rows = self._db.execute("SELECT CAST(data AS BLOB) FROM job ORDER BY id")
            jobs = share_equal(_unseal(data) for (data,) in rows)
            revoked_keys = [key for (key,) in self._db.execute("SELECT key FROM revoked")]
            return Scheduler(record, _without_gaps(record.first_id, jobs), revoked_keys)

    def commits(self) -> int:
        """Return the number of commits. Of two copies of the store, the one with more commits is newer."""
        return self._meta("commits", int) or 0

    def check(self) -> None:
        """Read every page and index, including data that is not loaded, to find damage before anything is written."""
        with translated(reading=True):
            verdict = self._db.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict[0] != "ok":
                raise StoreDamaged(f"the queue database is damaged: {verdict[0].splitlines()[-1]}")
            tables = {sql for (sql,) in self._db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
            if tables != _TABLES:
                raise StoreDamaged("the queue database is damaged: unexpected tables")
            for name, variables in self._db.execute("SELECT digest, variables FROM environment"):
                if digest(msgspec.json.decode(variables, type=dict[str, str])) != name:
                    raise StoreDamaged("the queue database is damaged: wrong checksum of an environment")
        self.spans()
        self.sources()

    def environment(self, digest: str) -> dict[str, str] | None:
        with translated(reading=True):
            row = self._first("SELECT variables FROM environment WHERE digest=?", digest)
            return msgspec.json.decode(row, type=dict[str, str]) if row is not None else None

    def history(self, job: int) -> list[HistoryEntry]:
        with translated(reading=True):
            rows = self._db.execute("SELECT at, CAST(text AS BLOB) FROM history WHERE job=? ORDER BY rowid", (job,))
            return [HistoryEntry(job, at, text.decode("utf-8", "replace")) for at, text in rows]

    def actions(self) -> list[HistoryEntry]:
        """Return what users recently did to running jobs, oldest first."""
        query = (
            "SELECT job, at, text FROM history WHERE rowid > (SELECT max(rowid) FROM history) - ? AND (text IN"
            " ('requeued by the user', 'suspended by the user', 'continued by the user')"
            " OR text LIKE 'killed by the user%') ORDER BY rowid"
        )
        with translated(reading=True):
            return [HistoryEntry(*row) for row in self._db.execute(query, (SEARCHED_HISTORY,))]

    def events(self, after: int, most: int) -> list[tuple[int, LoggedEvent]]:
        """Return the events with higher numbers than `after`, oldest first."""
        with translated(reading=True):
            query = "SELECT number, CAST(data AS BLOB) FROM event WHERE number>? ORDER BY number LIMIT ?"
            rows = self._db.execute(query, (after, most))
            return [(number, _event(data)) for number, data in rows]

    def event_numbers(self) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest event, or 1 and 0 if there is none."""
        with translated(reading=True):
            first, last = self._db.execute("SELECT min(number), max(number) FROM event").fetchone()
        return first or 1, last or 0

    def spans(self) -> list[RecordedSpan]:
        """Return the time spans in which something kept jobs from starting, oldest first."""
        with translated(reading=True):
            rows = self._db.execute("SELECT data FROM span ORDER BY number")
            return [msgspec.json.decode(data, type=RecordedSpan) for (data,) in rows]

    def span_record(self) -> SpanRecord:
        """Return a record that continues the spans that are still open."""
        with translated(reading=True):
            rows = self._db.execute("SELECT data FROM span WHERE open ORDER BY number")
            open_spans = [msgspec.json.decode(data, type=RecordedSpan) for (data,) in rows]
            last = self._db.execute("SELECT max(number) FROM span").fetchone()[0]
        return SpanRecord(open_spans, (last or 0) + 1)

    def load_results(self) -> dict[int, bytes]:
        """Return, for each job, the encoded results of the newest attempt that has any."""
        with translated(reading=True):
            return dict(self._db.execute("SELECT job, results FROM result ORDER BY job, attempt"))

    def results_of(self, job: int) -> list[ResultRow]:
        """Return the results of all attempts of a job, oldest first."""
        query = (
            "SELECT result.job, result.attempt, results, series, state FROM result JOIN series"
            " ON result.job=series.job AND result.attempt=series.attempt WHERE result.job=? ORDER BY result.attempt"
        )
        with translated(reading=True):
            return [ResultRow(*row) for row in self._db.execute(query, (job,))]

    def unfinished_results(self) -> list[tuple[int, int]]:
        """Return the attempts whose logs were not read to the end."""
        with translated(reading=True):
            return self._db.execute("SELECT job, attempt FROM series WHERE length(state) > 0").fetchall()

    def reply_to(self, request: str) -> bytes | None:
        """Return the answer to a request that was carried out before, or None if it was not."""
        row = self._first("SELECT reply FROM request WHERE uuid=?", request)
        return row.encode() if row is not None else None

    def _meta(self, key: str, kind: type[T]) -> T | None:
        with translated(reading=True):
            text = self._first("SELECT value FROM meta WHERE key=?", key)
            return msgspec.json.decode(text, type=kind) if text is not None else None

    def _first(self, query: str, *values: object) -> str | None:
        with translated(reading=True):
            row = self._db.execute(query, values).fetchone()
        return row[0] if row is not None else None

    # Writing

    def commit(self, change: Change) -> None:
        """Write either the whole change or nothing."""
        with translated():
            if change.full is not self._full:
                self._db.execute(f"PRAGMA synchronous={'FULL' if change.full else 'NORMAL'}")
                self._full = change.full
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._write(change)
                self._db.execute("UPDATE meta SET value=value+1 WHERE key='commits'")
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        if change.full:
            self.on_flushed()

    def _write(self, change: Change) -> None:
        run, many = self._db.execute, self._db.executemany
        if change.environments:
            rows = ((name, _encode(variables).decode()) for name, variables in change.environments.items())
            many("INSERT OR IGNORE INTO environment VALUES(?, ?)", rows)
        # Not OR REPLACE, which would delete another job with the same key instead of failing.
        upsert = "INSERT INTO job VALUES(?, ?, ?) ON CONFLICT(id) DO UPDATE SET data=excluded.data, key=excluded.key"
        many(upsert, ((job.id, _seal(job), job.spec.key) for job in change.jobs))
        if change.revoked_keys:
            many("INSERT INTO revoked VALUES(?)", ((key,) for key in change.revoked_keys))
        if change.moments:
            many(
                "INSERT INTO history VALUES(?, ?, ?)",
                ((moment.job, moment.at, moment.text) for moment in change.moments),
            )
        if change.replies:
            many("INSERT OR REPLACE INTO request VALUES(?, ?, ?)", change.replies)
        if change.spans:
            spans = ((span.number, span.until is None, _encode(span).decode()) for span in change.spans)
            many("INSERT OR REPLACE INTO span VALUES(?, ?, ?)", spans)
            run("DELETE FROM span WHERE number <= (SELECT max(number) FROM span) - ?", (MOST_SPANS,))
        if change.events:
            encoded = ((number, _encode(event).decode()) for number, event in change.events)
            many("INSERT INTO event VALUES(?, ?)", encoded)
            newest = change.events[-1][0]
            if newest % EVENTS_PER_PRUNING < len(change.events):
                run("DELETE FROM event WHERE number <= ?", (newest - MOST_EVENTS,))
        for row in change.results:
            run("INSERT OR REPLACE INTO result VALUES(?, ?, ?)", (row.job, row.attempt, row.results))
            run("INSERT OR REPLACE INTO series VALUES(?, ?, ?, ?)", (row.job, row.attempt, row.series, row.state))
        records = (("record", change.record), ("identity", change.identity), ("sources", change.sources))
        for key, value in records:
            if value is not None:
                run("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, _encode(value).decode()))

    def forget_requests(self, before: float) -> None:
        with translated():
            self._db.execute("DELETE FROM request WHERE at<?", (before,))

    def checkpoint(self) -> None:
        """Empty the write-ahead log. This may free the space that is needed on a full disk."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def in_memory(self) -> Store:
        """Copy everything that is committed into a store without a file."""
        copy = Store(MEMORY)
        with translated():
            self._db.backup(copy._db)
        return copy

    def copy_to(self, path: str, between: Callable[[], None]) -> None:
        """Copy everything that is committed to a file, in steps. `between` is called between the steps, when others may
        commit. It may raise an exception.

        SQLite itself makes the copy, because if we opened and closed the file, the locks on it would be dropped.
        """
        with translated():
            copy = sqlite3.connect(path, isolation_level=None)
            try:
                # Otherwise the last step would flush the copy while commits wait. The caller flushes it instead.
                copy.execute("PRAGMA synchronous=OFF")
                copy.execute("PRAGMA journal_mode=OFF")
                self._db.backup(copy, pages=PAGES_AT_ONCE, progress=lambda *_: between(), sleep=LOCKED_FOR)
            finally:
                copy.close()


def _seal(job: Job) -> str:
    """Encode a job with a checksum. Without it, one changed letter of a command would go unnoticed."""
    data = _encode(job)
    return f"{data.decode()}{crc32(data):08x}"


def _unseal(sealed: bytes) -> Job:
    data, seal = sealed[:-8], sealed[-8:]
    if crc32(data) != int(seal, 16):
        raise StoreDamaged("the queue database is damaged: wrong checksum of a job")
    return msgspec.json.decode(data, type=Job)


def _event(data: bytes) -> LoggedEvent:
    """Decode an event. A damaged event is reported as a gap, because the queue itself is still usable."""
    try:
        return msgspec.json.decode(data, type=LoggedEvent)
    except msgspec.MsgspecError:
        return LoggedEvent(event=EventKind.GAP, time=0.0, message="this event is damaged")


def ask_file(database: str, question: str) -> Any:
    """Read one row from the file on disk, without its write-ahead log and without taking a lock."""
    # Quoted for a URI by hand, because importing urllib would take longer than everything else here.
    name = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in os.fsencode(database)
    )
    connection = sqlite3.connect(f"file:{name}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute(question).fetchone()
    finally:
        connection.close()


def _check_header(path: str) -> None:
    """Check the schema version without opening the database, because another version of gputui may have to open it
    later.
    """
    try:
        with open(path, "rb") as file:
            header = file.read(64)
    except OSError:
        return
    if not header.startswith(b"SQLite format 3\0"):
        return
    if header[18] > 2:  # SQLite would treat it as a newer, read-only format
        raise StoreDamaged("the queue database is damaged: invalid header")
    _refuse_newer(path, int.from_bytes(header[60:], "big"))


def _refuse_newer(path: str, version: int) -> None:
    if version not in (0, SCHEMA_VERSION) and _written_schema(path) == SCHEMA_VERSION:
        raise StoreDamaged("the queue database is damaged: invalid header")
    if version > SCHEMA_VERSION:
        raise NewerStore(f"{path} was written by a newer gputui; upgrade this one")
    if 0 < version < SCHEMA_VERSION:
        raise NewerStore(f"{path} was written by an unreleased gputui; start a new session with --new")


def _written_schema(path: str) -> int | None:
    """Return the copy of the schema version in the `meta` table, or None if it is unreadable."""
    try:
        return int(ask_file(path, "SELECT value FROM meta WHERE key='schema'")[0])
    except (sqlite3.Error, ValueError, TypeError):
        return None


def _without_gaps(first: int, jobs: Iterable[Job]) -> Iterable[Job]:
    """Yield the jobs. Raise StoreDamaged if an id is missing, because rows are never removed."""
    for expected, job in enumerate(jobs, first):
        if job.id != expected:
            raise StoreDamaged(f"the queue database is damaged: job {expected} is missing")
        yield job
