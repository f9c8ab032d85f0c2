"""Pictures that never change, what is still to be saved, stories, and jobs that were removed."""

from __future__ import annotations

import msgspec
from support.core_world import World, spec

from gputui.core.events import Kill, Mode, Move, MoveTarget, Remove, Rerun, SetPriority
from gputui.core.job import Job, StateName
from gputui.core.scheduler import Record, Scheduler


def test_a_snapshot_stays_as_it_was() -> None:
    world = World("0 1")
    world.add_many(3)
    world.start()
    old = world.scheduler.snapshot()
    world.end(0, 1)
    world.add()
    world.do(Kill(job=2))
    assert [job.state.name for job in old] == [StateName.RUNNING, StateName.RUNNING, StateName.QUEUED]
    assert old.counts == {StateName.RUNNING: 2, StateName.QUEUED: 1}
    assert old.active == {0, 1}
    assert set(old.holders.values()) == {0, 1}
    assert (len(old.jobs), 3 in old, old.running, old.waiting) == (3, False, 2, 1)


def test_a_snapshot_names_what_changed_since_the_one_before() -> None:
    world = World()
    world.add_many(4)
    assert world.scheduler.snapshot().changed == {0, 1, 2, 3}
    assert world.scheduler.snapshot().changed == frozenset()
    world.do(SetPriority(job=2, priority=31))
    world.do(Move(job=1, where=MoveTarget.UP))
    snapshot = world.scheduler.snapshot()
    assert snapshot.changed == {0, 1, 2}
    assert snapshot.version == 3
    assert snapshot[2].priority == 31


def test_a_snapshot_shares_the_jobs_that_did_not_change() -> None:
    world = World()
    world.add_many(100)
    old = world.scheduler.snapshot()
    world.do(Kill(job=5))
    new = world.scheduler.snapshot()
    assert [job.id for job in new if job is not old[job.id]] == [5]


def test_whatever_changed_is_unsaved_until_the_owner_says_otherwise() -> None:
    world = World()
    world.add_many(3)
    assert world.scheduler.book.unsaved == {0, 1, 2}
    world.scheduler.book.unsaved.clear()
    world.start()
    world.do(Kill(job=2))
    assert world.scheduler.book.unsaved == {0, 2}
    assert [moment.text for moment in world.scheduler.unsaved_moments] == ["killed by the user before it started"]


def test_a_session_that_was_opened_again_has_nothing_unsaved() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)))
    again = Scheduler(world.scheduler.record(), world.scheduler.book)
    assert again.book.unsaved == set()
    assert again.unsaved_moments == []


def test_record_and_jobs_survive_the_store() -> None:
    world = World("0 1+2 cpu")
    world.add(spec(retries=2, timeout=5.0, params={"lr": "0.1"}), spec(after=(0,)), spec(gpus=2))
    world.start()
    world.end(0, 139, "Segmentation fault")
    record = world.scheduler.record()
    assert msgspec.json.decode(msgspec.json.encode(record), type=Record) == record
    for job in world.scheduler.book:
        assert msgspec.json.decode(msgspec.json.encode(job), type=Job) == job


def test_a_story_tells_how_a_job_came_to_where_it_is() -> None:
    world = World()
    world.add()
    world.run(1)
    world.do(Rerun(job=0))
    texts = [moment.text for moment in world.scheduler.story(0)]
    assert texts == ["starting", "running", "failed", "rerun by the user"]


def test_a_removed_job_is_kept_but_not_counted_and_cannot_be_commanded() -> None:
    world = World()
    world.add_many(3)
    world.run()
    world.do(Remove(job=0))
    world.do(Remove(job=1))
    snapshot = world.scheduler.snapshot()
    assert [job.id for job in snapshot] == [2]
    assert snapshot.counts == {StateName.QUEUED: 1}
    assert (snapshot[0].archived, snapshot[1].state.name) == (True, StateName.KILLED)
    assert world.refused(Rerun(job=0)) == "#0 was removed"
    assert world.add() == [3], "an id was used again"
    assert world.line() == [2, 3]


def test_a_removed_dependent_stays_removed_when_what_it_waited_for_is_rerun() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)))
    world.run(1)
    world.do(Remove(job=1))
    world.do(Rerun(job=0))
    assert world.state(1) is StateName.SKIPPED
    assert world.mode() is Mode.RUNNING
