"""The durable queue: one SQLite file, opened only by the holder of the lock."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.job import Job
from gputui.core.scheduler import Moment, Record, Scheduler
from gputui.core.spans import MOST_SPANS, RecordedSpan, SpanRecord
from gputui.process.directories import FolderId
from gputui.process.machine import World
from gputui.session.environment import digest
from gputui.session.errors import NewerStore, SessionError, StoreDamaged, StoreTrouble
from gputui.session.layouts import Former, Layout, ranges
from gputui.session.loading import SourceRecord

# ---- SQLite's errors by what can be done about them ----


class translated:
    """SQLite's errors by what can be done about them. While something is read, any other error is damage too: what was
    written could be read."""

    def __init__(self, *, reading: bool = False) -> None:
        self._is_damage = Exception if reading else _DAMAGE

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreTrouble | StoreDamaged | SessionError):
            return
        if isinstance(error, sqlite3.OperationalError) and _passes(error):
            raise StoreTrouble(f"the queue cannot be written: {error}") from error
        if isinstance(error, self._is_damage):
            what = str(error).partition(" with text ")[0][:120]  # SQLite quotes the whole row
            raise StoreDamaged(f"the queue's file is damaged: {what}") from error


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
    """The rest is damage: what cannot be read, a file that ends too early, a table that is not there."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code not in _UNREADABLE and (code & 0xFF) in _PASSING


# ---- What the store keeps of an attempt's results ----


RESULTS_SCHEMA = """
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


# ---- The durable queue ----


T = TypeVar("T")

SCHEMA_VERSION = 4
SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE environment(digest TEXT PRIMARY KEY, variables TEXT NOT NULL);
CREATE TABLE job(id INTEGER PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE story(job INTEGER NOT NULL, at REAL NOT NULL, text TEXT NOT NULL);
CREATE INDEX story_of_job ON story(job);
CREATE TABLE request(uuid TEXT PRIMARY KEY, reply TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE span(number INTEGER PRIMARY KEY, open INTEGER NOT NULL, data TEXT NOT NULL);
"""

MEMORY = ":memory:"
"""The path of a store without a file."""
PAGES_AT_ONCE = 200
"""Of a copy: commits wait while so many are copied."""
LOCKED_FOR = 0.002
"""Seconds until a copy goes on that met a transaction."""

_encode = msgspec.json.Encoder().encode
_decode_job = msgspec.json.Decoder(Job).decode
_decode_span = msgspec.json.Decoder(RecordedSpan).decode
_decode_environment = msgspec.json.Decoder(dict[str, str]).decode
_TABLES = {statement.strip() for statement in (SCHEMA + RESULTS_SCHEMA).split(";")} - {""}
"""As SQLite keeps them."""


class Identity(msgspec.Struct, frozen=True):
    """What a session is, from its creation on."""

    uuid: str
    """By it the processes of its jobs are known; another one in each boot and in each copy."""
    created: float
    world: World
    """Where its last owner lived; every attempt under way was started there."""
    prefix: str = "job_"
    job_dir: str = ""
    made_folder: bool = False
    """gputui made the session's folder, so it may move it aside."""
    folder: FolderId | None = None
    """Of the private folder as it was when last opened; None: an older gputui did not look."""
    former: tuple[Former, ...] = ()
    """How folders were called before, for the jobs that have begun by then."""

    def laid_out(self, layout: Layout, begun: Iterable[int]) -> Identity:
        """With other names for the folders of all jobs that have not begun; `begun`: the rest, by ascending ids."""
        before = Layout(self.prefix, self.job_dir)
        if layout == before:
            return self
        stay = [job for job in begun if not any(former.covers(job) for former in self.former)]
        former = (*self.former, Former(before, ranges(stay))) if stay else self.former
        return replace(self, prefix=layout.prefix, job_dir=layout.job_dir, former=former)


class Change(msgspec.Struct):
    """What one turn makes durable."""

    jobs: Iterable[Job] = ()
    moments: Iterable[Moment] = ()
    environments: dict[str, dict[str, str]] = {}
    replies: list[tuple[str, str, float]] = []
    record: Record | None = None
    identity: Identity | None = None
    sources: list[SourceRecord] | None = None
    spans: Iterable[RecordedSpan] = ()
    results: list[ResultRow] = []
    full: bool = False
    """Flush it to the disk before going on."""

    def nothing(self) -> bool:
        lists = (self.jobs, self.moments, self.environments, self.replies, self.results, self.spans)
        return not any(lists) and self.record is None and self.identity is None and self.sources is None


class Store:
    """Raises StoreTrouble where trying again later can help, StoreDamaged where it cannot."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.on_flushed: Callable[[], None] = lambda: None
        """Called after each change that somebody was promised."""
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
        if version == SCHEMA_VERSION:
            return
        rows = f"INSERT INTO meta VALUES('schema', '{SCHEMA_VERSION}'), ('commits', '0');"
        self._db.executescript(
            f"BEGIN IMMEDIATE; {SCHEMA}{RESULTS_SCHEMA}{rows} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
        )

    def close(self) -> None:
        self._db.close()

    # Reading

    def identity(self) -> Identity | None:
        return self._meta("identity", Identity)

    def sources(self) -> list[SourceRecord]:
        return self._meta("sources", list[SourceRecord]) or []

    def load(self) -> Scheduler:
        """The scheduler as it was last committed."""
        with translated(reading=True):
            record = self._meta("record", Record) or Record()
            rows = self._db.execute("SELECT CAST(data AS BLOB) FROM job ORDER BY id")
            return Scheduler(record, _without_gaps(record.first_id, (_opened(data) for (data,) in rows)))

    def commits(self) -> int:
        """How often it was changed: of two copies the one with more knows more."""
        return self._meta("commits", int) or 0

    def check(self) -> None:
        """Reads every page and index, also of what is not loaded: damage is better found now than when it is written
        to."""
        with translated(reading=True):
            verdict = self._db.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict[0] != "ok":
                raise StoreDamaged(f"the queue's file is damaged: {verdict[0].splitlines()[-1]}")
            tables = {sql for (sql,) in self._db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
            if tables != _TABLES:
                raise StoreDamaged("the queue's file is damaged: its tables are not as they were made")
            for name, variables in self._db.execute("SELECT digest, variables FROM environment"):
                if digest(_decode_environment(variables)) != name:
                    raise StoreDamaged("the queue's file is damaged: an environment is not as it was written")
        self.spans()
        self.sources()

    def environment(self, digest: str) -> dict[str, str] | None:
        with translated(reading=True):
            row = self._one("SELECT variables FROM environment WHERE digest=?", digest)
            return _decode_environment(row) if row is not None else None

    def story(self, job: int) -> list[Moment]:
        with translated(reading=True):
            rows = self._db.execute("SELECT at, CAST(text AS BLOB) FROM story WHERE job=? ORDER BY rowid", (job,))
            return [Moment(job, at, text.decode("utf-8", "replace")) for at, text in rows]

    def spans(self) -> list[RecordedSpan]:
        """What kept jobs from starting, from the oldest that is kept on."""
        with translated(reading=True):
            return [_decode_span(data) for (data,) in self._db.execute("SELECT data FROM span ORDER BY number")]

    def span_record(self) -> SpanRecord:
        """To be gone on with."""
        with translated(reading=True):
            rows = self._db.execute("SELECT data FROM span WHERE open ORDER BY number")
            going_on = [_decode_span(data) for (data,) in rows]
            last = self._db.execute("SELECT max(number) FROM span").fetchone()[0]
        return SpanRecord(going_on, (last or 0) + 1)

    def of_results(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """What one of `result_rows` asks."""
        with translated(reading=True):
            return question(self._db)

    def reply_to(self, request: str) -> bytes | None:
        """What was answered to a request that came before, if it did."""
        row = self._one("SELECT reply FROM request WHERE uuid=?", request)
        return row.encode() if row is not None else None

    def _meta(self, key: str, kind: type[T]) -> T | None:
        with translated(reading=True):
            text = self._one("SELECT value FROM meta WHERE key=?", key)
            return msgspec.json.decode(text, type=kind) if text is not None else None

    def _one(self, query: str, *values: object) -> str | None:
        with translated(reading=True):
            row = self._db.execute(query, values).fetchone()
        return row[0] if row is not None else None

    # Writing

    def commit(self, change: Change) -> None:
        """All of it or nothing."""
        with translated():
            self._synchronous(full=change.full)
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
            rows = ((digest, _encode(verdict).decode()) for digest, verdict in change.environments.items())
            many("INSERT OR IGNORE INTO environment VALUES(?, ?)", rows)
        many("INSERT OR REPLACE INTO job VALUES(?, ?)", ((job.id, _sealed(job)) for job in change.jobs))
        if change.moments:
            many(
                "INSERT INTO story VALUES(?, ?, ?)", ((moment.job, moment.at, moment.text) for moment in change.moments)
            )
        if change.replies:
            many("INSERT OR REPLACE INTO request VALUES(?, ?, ?)", change.replies)
        if change.spans:
            spans = ((span.number, span.until is None, _encode(span).decode()) for span in change.spans)
            many("INSERT OR REPLACE INTO span VALUES(?, ?, ?)", spans)
            run("DELETE FROM span WHERE number <= (SELECT max(number) FROM span) - ?", (MOST_SPANS,))
        write_results(self._db, change.results)
        records = (("record", change.record), ("identity", change.identity), ("sources", change.sources))
        for key, value in records:
            if value is not None:
                run("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, _encode(value).decode()))

    def _synchronous(self, *, full: bool) -> None:
        if full is not self._full:
            self._db.execute(f"PRAGMA synchronous={'FULL' if full else 'NORMAL'}")
            self._full = full

    def forget_requests(self, before: float) -> None:
        with translated():
            self._db.execute("DELETE FROM request WHERE at<?", (before,))

    def make_room(self) -> None:
        """A full disk may be full of our own log."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def in_memory(self) -> Store:
        """A copy of all that is committed, without a file."""
        copy = Store(MEMORY)
        with translated():
            self._db.backup(copy._db)
        return copy

    def copy_to(self, path: str, between: Callable[[], None]) -> None:
        """A copy of all that is committed, made in steps; `between` them others may commit, and it may raise.

        Not by reading the file: to close a file a second time drops the locks that the first opening holds on it.
        """
        with translated():
            copy = sqlite3.connect(path, isolation_level=None)
            try:
                # The last step would flush it while commits wait; whoever asked for the copy flushes it.
                copy.execute("PRAGMA synchronous=OFF")
                copy.execute("PRAGMA journal_mode=OFF")
                self._db.backup(copy, pages=PAGES_AT_ONCE, progress=lambda *_: between(), sleep=LOCKED_FOR)
            finally:
                copy.close()


def _sealed(job: Job) -> str:
    """With a checksum behind it: one changed letter of a command would not show otherwise."""
    data = _encode(job)
    return f"{data.decode()}{crc32(data):08x}"


def _opened(sealed: bytes) -> Job:
    data, seal = sealed[:-8], sealed[-8:]
    if crc32(data) != int(seal, 16):
        raise StoreDamaged("the queue's file is damaged: a job is not as it was written")
    return _decode_job(data)


def ask_file(database: str, question: str) -> Any:
    """One row from the file as it is on the disk, without its log and without locking anything."""
    connection = sqlite3.connect(f"file:{_quoted(database)}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute(question).fetchone()
    finally:
        connection.close()


def _quoted(path: str) -> str:
    """For a URI; written out because urllib costs more to load than everything else here."""
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in os.fsencode(path))


def _check_header(path: str) -> None:
    """The schema's version, without opening a database that may not be ours to open."""
    try:
        with open(path, "rb") as file:
            header = file.read(64)
    except OSError:
        return
    if not header.startswith(b"SQLite format 3\0"):
        return
    if header[18] > 2:  # SQLite would take it for a newer format that it must only read
        raise StoreDamaged("the queue's file is damaged: its header is not as it was written")
    _refuse_newer(path, int.from_bytes(header[60:], "big"))


def _refuse_newer(path: str, version: int) -> None:
    if version not in (0, SCHEMA_VERSION) and _written_schema(path) == SCHEMA_VERSION:
        raise StoreDamaged("the queue's file is damaged: its header is not as it was written")
    if version > SCHEMA_VERSION:
        raise NewerStore(f"{path} was written by a newer gputui; upgrade this one")
    if 0 < version < SCHEMA_VERSION:
        raise NewerStore(f"{path} was written by an unreleased gputui; start a new session with --new")


def _written_schema(path: str) -> int | None:
    """The version as it is written a second time, in the table."""
    try:
        return int(ask_file(path, "SELECT value FROM meta WHERE key='schema'")[0])
    except (sqlite3.Error, ValueError, TypeError):
        return None


def _without_gaps(first: int, jobs: Iterable[Job]) -> Iterable[Job]:
    """Ids run on without gaps; a row that is missing was not removed by us."""
    for expected, job in enumerate(jobs, first):
        if job.id != expected:
            raise StoreDamaged(f"the queue's file is damaged: job {expected} is missing")
        yield job
