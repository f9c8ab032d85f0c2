"""The log of events: what a change of the queue is reported as, and what cursors lead to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.core import World
from support.sessions import add, ended, owned, spec

from gputui.core.events import AddJobs, Kill, Pause, Refusal, Remove, Resume, SetPriority
from gputui.session.event_loop import Loop
from gputui.session.messages import Events, LoggedEvent
from gputui.session.store import store as stores
from gputui.session.store.event_log import EventRecorder, EventWaiters, read_events
from gputui.session.store.store import Change, EventLogId, Store

FIRST = EventLogId("aaaa", 1)


class Log:
    """A scheduler whose events are collected."""

    def __init__(self, slots: str = "0") -> None:
        self.world = World(slots, pause_after=1)
        self.recorder = EventRecorder(self.world.scheduler, 0)

    def take(self) -> list[tuple[object, ...]]:
        """Save, and return the kind, job, attempt and state of each event since the last call."""
        scheduler = self.world.scheduler
        events = self.recorder.collect(scheduler, 9.0)
        self.recorder.mark_saved(scheduler, events)
        scheduler.book.unsaved.clear()
        return [(str(event.event), event.job, event.attempt, event.state and str(event.state)) for _, event in events]


def test_a_job_is_added_started_and_ended() -> None:
    log = Log()
    log.world.add_many(3)
    log.take()
    log.world.start()
    assert log.take() == [("started", 0, 1, None)]
    log.world.do(SetPriority(job=0, priority=50))
    assert log.take() == []
    log.world.end(0)
    assert log.take() == [("ended", 0, 1, "succeeded")]
    assert log.take() == []


def test_changes_that_could_not_be_saved_are_reported_when_they_are() -> None:
    log = Log()
    log.world.add_many(2)
    log.world.start()
    log.world.end(0)
    assert log.recorder.collect(log.world.scheduler, 1.0) == log.recorder.collect(log.world.scheduler, 1.0)
    assert {("started", 0, 1, None), ("ended", 0, 1, "succeeded")} <= set(log.take())


def test_jobs_that_end_without_an_attempt_are_reported() -> None:
    log = Log()
    log.world.scheduler.handle(AddJobs((spec("true", name="a"), spec("true", after=("a",)))), 0.0)
    log.take()
    log.world.do(Kill(job=0))
    assert log.take() == [("ended", 0, None, "killed"), ("ended", 1, None, "skipped"), ("alert", None, None, None)]
    log.world.do(Remove(job=1))
    assert log.take() == []


def test_a_pause_after_errors_a_probe_and_a_resumption_are_reported() -> None:
    log = Log("0")
    log.world.add_many(3)
    log.world.start()
    log.take()
    log.world.end(0, 1)
    assert ("paused", None, None, None) in log.take()
    log.world.do(Resume())
    log.world.do(Pause())
    log.world.do(Resume())
    assert [kind for kind, *_ in log.take()] == ["resumed"], "what was undone before it was saved did not happen"
    log.world.do(Pause())
    assert [kind for kind, *_ in log.take()] == ["paused"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(str(tmp_path / "session.db"))) as store:
        yield store


def put(store: Store, *numbers: int) -> None:
    store.commit(Change(events=[(number, LoggedEvent(event="alert", time=1.0, job=number)) for number in numbers]))  # type: ignore[arg-type]


def read(store: Store, since: str | None, *logs: EventLogId) -> list[tuple[str, int | None]]:
    page = read_events(store, logs or (FIRST,), Events(since), now=2.0, owned=True)
    return [(event.cursor, event.job) for event in page.events]


def test_the_log_is_bounded_and_an_old_cursor_leads_to_a_gap(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_EVENTS", 1000)
    for first in range(1, 5001, 7):
        put(store, *range(first, first + 7))
    oldest, newest = store.event_numbers()
    assert newest - oldest <= 1000 + stores.EVENTS_PER_PRUNING
    assert read(store, "aaaa-17")[:2] == [(f"aaaa-{oldest - 1}", None), (f"aaaa-{oldest}", oldest)]
    assert read(store, f"aaaa-{oldest - 1}")[0] == (f"aaaa-{oldest}", oldest)
    assert read(store, None)[0] == (f"aaaa-{oldest}", oldest)
    assert read(store, f"aaaa-{newest}") == []
    assert read(store, "now") == []


def test_a_cursor_of_a_part_that_was_lost_leads_to_a_gap_and_an_earlier_one_does_not(store: Store) -> None:
    put(store, 1, 2, 3, 4)
    logs = (FIRST, EventLogId("bbbb", 3))
    assert read(store, "aaaa-1", *logs) == [("aaaa-2", 2), ("bbbb-3", 3), ("bbbb-4", 4)]
    assert read(store, "aaaa-2", *logs) == [("bbbb-3", 3), ("bbbb-4", 4)]
    assert read(store, "aaaa-3", *logs) == [("aaaa-2", None), ("bbbb-3", 3), ("bbbb-4", 4)]


def test_a_damaged_event_is_a_gap(store: Store) -> None:
    put(store, 1, 2, 3)
    store._db.execute("UPDATE event SET data=CAST(x'ff00fe' AS TEXT) WHERE number=2")
    store.check()
    assert read(store, None) == [("aaaa-1", 1), ("aaaa-2", None), ("aaaa-3", 3)]


@pytest.mark.parametrize("cursor", ["", "aaaa", "aaaa-", "aaaa-x", "aaaa--1", "cccc-1", "1"])
def test_an_unknown_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(Refusal, match="invalid cursor"):
        read(store, cursor)


def test_the_next_owner_continues_the_numbers(tmp_path: Path) -> None:
    cursors: list[str] = []
    for _ in range(2):
        with owned(tmp_path / "s") as owner:
            [job] = add(owner, spec("true"))
            ended(owner, job)
        with closing(Store(str(tmp_path / "s/.gputui/session.db"))) as store:
            identity = store.identity()
            assert identity is not None
            page = read_events(store, identity.event_logs, Events(), now=2.0, owned=False)
        assert [event.cursor for event in page.events][: len(cursors)] == cursors
        cursors = [event.cursor for event in page.events]
    numbers = [int(cursor.partition("-")[2]) for cursor in cursors]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [event.event for event in page.events].count("ended") == 2  # type: ignore[arg-type]


def test_a_request_that_waits_is_answered_at_the_next_event_or_when_its_time_is_over() -> None:
    loop, log, answers = Loop(), Log(), list[str]()
    waiters = EventWaiters(loop, log.recorder)
    waiters.add(600.0, lambda: answers.append("event"))
    waiters.look(log.world.scheduler.snapshot())
    assert answers == []
    log.world.add_many(1)
    log.take()
    waiters.look(log.world.scheduler.snapshot())
    waiters.look(log.world.scheduler.snapshot())
    assert answers == ["event"]
    waiters.add(0.0, lambda: answers.append("time"))
    loop.call_later(0.0, loop.stop)
    loop.run()
    loop.close()
    assert answers == ["event", "time"]
