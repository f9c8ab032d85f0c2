"""What the user is called for: pauses after crashes, the end of all, marked jobs; each once, nothing of the past."""

from __future__ import annotations

from msgspec.structs import replace
from support.core_world import World, spec

from gputui.core.events import Notify, Pause, Rerun, Resume, TryFirst
from gputui.views.status import Alerts

NAME = "sweep"


def looked(world: World, alerts: Alerts) -> list[str]:
    snapshot = world.scheduler.snapshot()
    return alerts.look(snapshot, range(len(snapshot.jobs)), world.now)


def test_a_pause_after_crashes_is_told_once_with_its_cause() -> None:
    world = World()
    world.add_many(5)
    alerts = Alerts(world.scheduler.snapshot(), NAME)
    for _ in range(3):
        world.run(1, "ValueError: no")
        told = looked(world, alerts)
    assert len(told) == 1
    assert told[0].startswith(f"gputui {NAME}: paused: ")
    assert "ValueError: no" in told[0]
    assert looked(world, alerts) == []


def test_what_the_user_did_is_not_told() -> None:
    world = World()
    world.add_many(2)
    alerts = Alerts(world.scheduler.snapshot(), NAME)
    world.do(Pause())
    assert looked(world, alerts) == []
    world.do(Resume())
    assert looked(world, alerts) == []


def test_the_end_of_all_is_told_with_how_many_failed() -> None:
    world = World()
    world.add_many(2)
    alerts = Alerts(world.scheduler.snapshot(), NAME)
    world.start()
    assert looked(world, alerts) == []
    world.end(0, 1)
    world.run(0)
    assert looked(world, alerts) == [f"gputui {NAME}: done: 1 ok, 1 failed"]
    assert looked(world, alerts) == []


def test_a_marked_job_is_told_when_it_ends_and_others_are_not() -> None:
    world = World()
    world.add(spec("a"), spec("b", notify=True), spec("c"))
    alerts = Alerts(world.scheduler.snapshot(), NAME)
    world.run(0)
    assert looked(world, alerts) == []
    world.run(0)
    assert looked(world, alerts) == [f"gputui {NAME}: #1 job_1: succeeded after 10 s"]
    assert looked(world, alerts) == []


def test_a_mark_can_be_set_and_taken_back_while_it_runs_and_not_after() -> None:
    world = World()
    world.add(spec("a", notify=True), spec("b"))
    world.start()
    world.do(Notify(job=0, wanted=False))
    world.do(Notify(job=1))
    alerts = Alerts(world.scheduler.snapshot(), NAME)
    world.end(0)
    assert looked(world, alerts) == []
    world.run(1, "KeyError: 3")
    assert [told for told in looked(world, alerts) if "#1" in told] == [
        f"gputui {NAME}: #1 job_1: failed after 10 s: KeyError: 3"
    ]
    assert "nothing left to tell" in world.refused(Notify(job=1))


def test_what_had_ended_before_is_not_told_by_a_later_owner() -> None:
    world = World()
    world.add(spec("a", notify=True))
    world.run(0)
    assert looked(world, Alerts(world.scheduler.snapshot(), NAME)) == []
    assert replace(world.job(0), notify=None).notify is None


def test_a_rerun_of_which_one_is_tried_first_is_no_pause_to_be_told_of() -> None:
    world = World()
    world.add_many(2)
    for _ in range(2):
        world.run(1, "ValueError: no")
    alerts = Alerts(world.scheduler.snapshot(), NAME)
    for job in (0, 1):
        world.do(Rerun(job=job))
    world.do(TryFirst((0, 1)))
    assert world.scheduler.snapshot().cautions
    assert looked(world, alerts) == []
