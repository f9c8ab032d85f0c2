"""The store: all of a change or nothing, flushed when it must be, and read back as it was written."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.core_validate import validate
from support.owning import spec

from gputui.core.events import AddJobs, AttemptEnded, Exited, Mode, Pause, Remove, SetLanes, Spawned
from gputui.core.job import Job
from gputui.core.lanes import Lane
from gputui.core.scheduler import Moment, Scheduler
from gputui.core.spans import MOST_SPANS, RecordedSpan, SpanKind
from gputui.process.machine import this_world
from gputui.session.errors import NewerStore, StoreDamaged, StoreTrouble
from gputui.session.store.store import Change, Identity, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(str(tmp_path / "session.db"))
    yield store
    store.close()


def again(store: Store) -> Store:
    store.close()
    return Store(store.path)


def busy_scheduler() -> Scheduler:
    """One job has failed, one runs, one waits for it, one was removed."""
    scheduler = Scheduler()
    scheduler.handle(SetLanes((Lane(0, ("0",)),)), 1.0)
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
    return Change(jobs=list(scheduler.book), moments=scheduler.unsaved_moments, record=scheduler.record())


def test_a_scheduler_is_read_back_as_it_was_committed(store: Store) -> None:
    scheduler = busy_scheduler()
    store.commit(whole(scheduler))
    store = again(store)
    loaded = store.load()
    validate(loaded)
    assert list(loaded.book) == list(scheduler.book)
    assert loaded.record() == scheduler.record()
    assert [moment.text for moment in store.story(3)]
    store.close()


def test_ids_of_removed_jobs_are_never_given_out_again(store: Store) -> None:
    scheduler = busy_scheduler()
    store.commit(whole(scheduler))
    store = again(store)
    loaded = store.load()
    loaded.handle(AddJobs((spec("echo e"),)), 8.0)
    assert loaded.book.next_id == 5
    store.close()


def test_a_change_that_fails_half_way_leaves_nothing_behind(store: Store) -> None:
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


def test_an_environment_is_stored_once_and_the_first_one_stays(store: Store, tmp_path: Path) -> None:
    for _ in range(3):
        store.commit(Change(environments={"x": {"A": "1"}, "y": {"B": "ü"}}))
    assert store.environment("x") == {"A": "1"}
    assert store.environment("y") == {"B": "ü"}
    assert store.environment("z") is None
    store.close()
    connection = sqlite3.connect(tmp_path / "session.db")
    assert connection.execute("SELECT count(*) FROM environment").fetchone() == (2,)
    connection.close()


def test_what_users_ask_for_is_flushed_and_starts_and_ends_are_not(store: Store) -> None:
    def synchronous() -> int:
        return int(store._db.execute("PRAGMA synchronous").fetchone()[0])

    full, normal = 2, 1
    store.commit(Change(full=True))
    assert synchronous() == full
    store.commit(Change())
    assert synchronous() == normal
    store.commit(Change(full=True))
    assert synchronous() == full


def test_replies_are_remembered_until_they_are_old(store: Store) -> None:
    store.commit(Change(replies=[("a", "yes", 1.0), ("b", "no", 5.0)]))
    assert store.reply_to("a") == b"yes"
    store.forget_requests(before=3.0)
    assert store.reply_to("a") is None
    assert store.reply_to("b") == b"no"


def test_a_full_disk_is_trouble_that_passes(store: Store) -> None:
    pages = int(store._db.execute("PRAGMA page_count").fetchone()[0])
    store._db.execute(f"PRAGMA max_page_count={pages}")
    big = [Moment(0, 0.0, "x" * 100_000)]
    with pytest.raises(StoreTrouble, match="full"):
        store.commit(Change(moments=big))
    assert store.story(0) == []
    store._db.execute(f"PRAGMA max_page_count={pages + 1000}")
    store.commit(Change(moments=big))
    assert store.story(0) == big


def test_a_row_that_is_missing_is_damage(store: Store) -> None:
    store.commit(whole(busy_scheduler()))
    store._db.execute("DELETE FROM job WHERE id=1")
    with pytest.raises(StoreDamaged, match="job 1 is missing"):
        store.load()


def test_a_record_that_cannot_be_read_is_damage(store: Store) -> None:
    identity = Identity("uuid", 0.0, this_world())
    store.commit(Change(identity=identity))
    assert store.identity() == identity
    store._db.execute("UPDATE meta SET value='{'")
    with pytest.raises(StoreDamaged):
        store.identity()


def test_a_newer_store_is_refused_before_it_is_opened(store: Store, tmp_path: Path) -> None:
    store._db.execute("PRAGMA user_version=99")
    store._db.execute("UPDATE meta SET value=99 WHERE key='schema'")
    store.close()
    before = (tmp_path / "session.db").read_bytes()
    with pytest.raises(NewerStore):
        Store(store.path)
    assert (tmp_path / "session.db").read_bytes() == before


def test_a_copy_made_while_others_commit_is_whole(store: Store, tmp_path: Path) -> None:
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
        store.commit(Change(moments=[Moment(0, float(number), "y" * 2000)]))
        number += 1
    over.set()
    copier.join()
    for path in copies:
        backup = Store(str(path))
        backup.check()
        assert list(backup.load().book) == list(scheduler.book)
        backup.close()


def test_a_copy_can_be_given_up_between_its_steps(store: Store, tmp_path: Path) -> None:
    def give_up() -> None:
        raise KeyboardInterrupt

    store.commit(Change(moments=[Moment(0, float(number), "x" * 4000) for number in range(1000)]))
    with pytest.raises(KeyboardInterrupt):
        store.copy_to(str(tmp_path / "copy.db"), give_up)
    store.commit(whole(busy_scheduler()))
    store.check()


def paused(number: int, until: float | None = None) -> RecordedSpan:
    return RecordedSpan(number=number, kind=SpanKind.PAUSE, since=float(number), until=until, text="paused by you")


def test_what_kept_jobs_from_starting_is_read_back_and_gone_on_with(store: Store) -> None:
    store.commit(Change(spans=[paused(1, 2.0), paused(2)]))
    store.commit(Change(spans=[paused(2, 9.0), paused(3)]))
    store = again(store)
    assert store.spans() == [paused(1, 2.0), paused(2, 9.0), paused(3)]
    record = store.span_record()
    record.mode(Mode.RUNNING, None, 20.0)
    assert list(record.unsaved.values()) == [paused(3, 20.0)]


def test_only_so_many_spans_are_kept(store: Store) -> None:
    store.commit(Change(spans=[paused(number, 1e9) for number in range(1, MOST_SPANS + 11)]))
    assert [span.number for span in store.spans()][:: MOST_SPANS - 1] == [11, MOST_SPANS + 10]
