"""The store and its backups: a change is committed whole or not at all, and read back as it was written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.core import validate
from support.sessions import add, owned, spec

from gputui.core.events import AddJobs, AttemptEnded, Exited, Mode, Pause, Remove, SetSlots, Spawned
from gputui.core.job import Job, Queued
from gputui.core.scheduler import HistoryEntry, Scheduler
from gputui.core.slots import Slot
from gputui.core.spans import MOST_SPANS, RecordedSpan, SpanKind
from gputui.process.directories import DirectoryId
from gputui.process.machine import this_host
from gputui.session.errors import NewerStore, StoreDamaged, StoreTrouble
from gputui.session.event_loop import Loop
from gputui.session.session_dir import Journal, Paths
from gputui.session.store import backup
from gputui.session.store.backup import Backups
from gputui.session.store.store import Change, Identity, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(str(tmp_path / "session.db"))
    yield store
    store.close()


def busy_scheduler() -> Scheduler:
    """One job has failed, one runs, one waits for it, one was removed."""
    scheduler = Scheduler()
    scheduler.handle(SetSlots((Slot(0, ("0",)),)), 1.0)
    names = ("a", "b", "c", "d")
    specs = tuple(spec(f"echo {name}", name=name, after=("b",) if name == "c" else ()) for name in names)
    scheduler.handle(AddJobs(specs), 2.0)
    scheduler.handle(Remove(job=3), 3.0)
    for job, code in ((0, 3), (1, None)):
        assert [start.job.id for start in scheduler.place(4.0)] == [job]
        scheduler.handle(Spawned(job=job, attempt=1, pid=77), 5.0)
        if code is not None:
            scheduler.handle(AttemptEnded(job=job, attempt=1, outcome=Exited(code), at=6.0), 6.0)
    scheduler.handle(Pause(), 7.0)
    return scheduler


def whole(scheduler: Scheduler) -> Change:
    return Change(jobs=list(scheduler.book), moments=scheduler.unsaved_history, record=scheduler.record())


def test_a_scheduler_is_read_back_as_it_was_committed(store: Store) -> None:
    scheduler = busy_scheduler()
    store.commit(whole(scheduler))
    store.close()
    with closing(Store(store.path)) as store:
        loaded = store.load()
        assert [moment.text for moment in store.history(3)]
    validate(loaded)
    assert list(loaded.book) == list(scheduler.book)
    assert loaded.record() == scheduler.record()
    loaded.handle(AddJobs((spec("echo e"),)), 8.0)
    assert loaded.book.next_id == 5, "the id of a removed job is not used again"


def test_a_change_that_fails_half_way_changes_nothing(store: Store) -> None:
    scheduler = busy_scheduler()

    def jobs() -> Iterator[Job]:
        yield scheduler.book[0]
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError):
        store.commit(Change(jobs=jobs(), environments={"x": {}}))
    assert len(store.load().book) == 0
    assert store.environment("x") is None
    store.commit(whole(scheduler))
    assert len(store.load().book) == 4


def test_an_environment_is_stored_once(store: Store) -> None:
    for _ in range(3):
        store.commit(Change(environments={"x": {"A": "1"}, "y": {"B": "ü"}}))
    assert [store.environment(name) for name in "xyz"] == [{"A": "1"}, {"B": "ü"}, None]
    assert store._db.execute("SELECT count(*) FROM environment").fetchone() == (2,)


def test_only_full_commits_are_flushed(store: Store) -> None:
    for full in (True, False, True):
        store.commit(Change(full=full))
        assert store._db.execute("PRAGMA synchronous").fetchone()[0] == (2 if full else 1)


def test_a_users_request_is_flushed_before_it_is_answered(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        flushed: list[bool] = []
        owner.store.on_flushed = lambda: flushed.append(True)
        add(owner, spec("true"))
        assert flushed


def test_replies_are_remembered_until_they_are_old(store: Store) -> None:
    store.commit(Change(replies=[("a", "yes", 1.0), ("b", "no", 5.0)]))
    assert store.reply_to("a") == b"yes"
    store.forget_requests(before=3.0)
    assert store.reply_to("a") is None
    assert store.reply_to("b") == b"no"


def test_commits_succeed_again_once_a_full_disk_has_space(store: Store) -> None:
    pages = int(store._db.execute("PRAGMA page_count").fetchone()[0])
    store._db.execute(f"PRAGMA max_page_count={pages}")
    big = [HistoryEntry(0, 0.0, "x" * 100_000)]
    with pytest.raises(StoreTrouble, match="full"):
        store.commit(Change(moments=big))
    assert store.history(0) == []
    store._db.execute(f"PRAGMA max_page_count={pages + 1000}")
    store.commit(Change(moments=big))
    assert store.history(0) == big


def test_missing_and_invalid_rows_are_damage(store: Store) -> None:
    identity = Identity("uuid", this_host(), DirectoryId(1, 2))
    store.commit(Change(identity=identity))
    assert store.identity() == identity
    store.commit(whole(busy_scheduler()))
    store._db.execute("DELETE FROM job WHERE id=1")
    with pytest.raises(StoreDamaged, match="job 1 is missing"):
        store.load()
    store._db.execute("UPDATE meta SET value='{'")
    with pytest.raises(StoreDamaged):
        store.identity()


def test_a_newer_store_is_refused_and_not_changed(store: Store, tmp_path: Path) -> None:
    store._db.execute("PRAGMA user_version=99")
    store._db.execute("UPDATE meta SET value=99 WHERE key='schema'")
    store.close()
    before = (tmp_path / "session.db").read_bytes()
    with pytest.raises(NewerStore, match="was written by a newer gputui; upgrade this one"):
        Store(store.path)
    assert (tmp_path / "session.db").read_bytes() == before


def test_a_copy_made_during_commits_is_complete(store: Store, tmp_path: Path) -> None:
    over = threading.Event()
    copies: list[Path] = []

    def copy_all_the_time() -> None:
        while not over.is_set():
            target = tmp_path / f"copy{len(copies)}.db"
            store.copy_to(str(target), lambda: time.sleep(0.001))
            copies.append(target)

    scheduler = busy_scheduler()
    store.commit(whole(scheduler))
    copier = threading.Thread(target=copy_all_the_time)
    copier.start()
    number = 0
    while len(copies) < 5:
        store.commit(Change(moments=[HistoryEntry(0, float(number), "y" * 2000)]))
        number += 1
    over.set()
    copier.join()
    for path in copies:
        with closing(Store(str(path))) as copy:
            copy.check()
            assert list(copy.load().book) == list(scheduler.book)


def test_a_copy_can_be_abandoned_between_its_steps(store: Store, tmp_path: Path) -> None:
    def give_up() -> None:
        raise KeyboardInterrupt

    store.commit(Change(moments=[HistoryEntry(0, float(number), "x" * 4000) for number in range(1000)]))
    with pytest.raises(KeyboardInterrupt):
        store.copy_to(str(tmp_path / "copy.db"), give_up)
    store.commit(whole(busy_scheduler()))
    store.check()


def paused(number: int, until: float | None = None) -> RecordedSpan:
    return RecordedSpan(number=number, kind=SpanKind.PAUSE, since=float(number), until=until, text="paused by you")


def test_pauses_are_read_back_and_continued_and_only_the_newest_are_kept(store: Store) -> None:
    store.commit(Change(spans=[paused(1, 2.0), paused(2)]))
    store.commit(Change(spans=[paused(2, 9.0), paused(3)]))
    assert store.spans() == [paused(1, 2.0), paused(2, 9.0), paused(3)]
    record = store.span_record()
    record.mode(Mode.RUNNING, None, 20.0)
    assert list(record.unsaved.values()) == [paused(3, 20.0)]
    store.commit(Change(spans=[paused(number, 1e9) for number in range(1, MOST_SPANS + 11)]))
    assert [span.number for span in store.spans()][:: MOST_SPANS - 1] == [11, MOST_SPANS + 10]


def make_backup(paths: Paths, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "FIRST_AFTER", 0.0)
    loop = Loop()
    backups = Backups(loop, store, paths, Journal(paths.log))
    made = backups._made

    def stop(trouble: str | None) -> None:
        made(trouble)
        loop.stop()

    monkeypatch.setattr(backups, "_made", stop)
    loop.run()
    loop.close()


def test_damage_on_the_disk_never_replaces_a_good_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths(str(tmp_path))
    paths.create()
    # More than SQLite keeps in memory, where it would not notice the damage.
    jobs = [Job(id, spec(f"echo {id} {'x' * 4000}"), 0.0, 30, float(id), Queued(0.0)) for id in range(2000)]
    with closing(Store(paths.database)) as store:
        store.commit(Change(jobs=jobs))
        store.checkpoint()
        make_backup(paths, store, monkeypatch)
        good = Path(paths.backup).read_bytes()
        with open(paths.database, "r+b") as file:
            file.seek(4096 * 100)
            file.write(b"\xa5" * 4096 * 100)
        make_backup(paths, store, monkeypatch)
    assert Path(paths.backup).read_bytes() == good
    assert "the queue database on disk is damaged" in Path(paths.log).read_text()
    with closing(Store(paths.backup)) as copy:
        assert list(copy.load().book) == jobs
