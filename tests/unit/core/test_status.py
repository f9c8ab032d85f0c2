"""The status of a session in one word, and when the user is notified."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.core import World, busy, spec

from gputui.core import events
from gputui.core.job import JobSpec
from gputui.views.status import Alerts, QueueStatus, StatusWord, first_waiting_reason, queue_status


def status(world: World, *, owned: bool = True) -> QueueStatus:
    awaits = first_waiting_reason(world.scheduler, world.now)
    return queue_status(replace(world.scheduler.snapshot(), awaits=awaits), owned=owned)


def test_the_status_is_what_the_jobs_do() -> None:
    assert status(World()) == QueueStatus(StatusWord.IDLE)
    world = busy("0", spec(), spec())
    assert status(world) == QueueStatus(StatusWord.RUNNING)
    world.do(events.Suspend(job=0))
    assert status(world) == QueueStatus(StatusWord.SUSPENDED, "1 suspended job; to continue: gputui continue")
    world.end(0)
    assert status(world, owned=False) == QueueStatus(StatusWord.IDLE, "no scheduler is running")
    world.run()
    assert status(world) == QueueStatus(StatusWord.DONE)


@pytest.mark.parametrize(
    ("specs", "awaits"),
    [
        ((spec(hold=True), spec(hold=True)), "2 held jobs; to start: gputui release"),
        ((spec(gpus=2),), "needs 2 GPUs; this session has GPU 0"),
        ((spec(not_before=2000.0),), "#0 is waiting: start time not reached"),
    ],
)
def test_a_waiting_session_says_what_it_waits_for(specs: tuple[JobSpec, ...], awaits: str) -> None:
    assert status(busy("0", *specs)) == QueueStatus(StatusWord.WAITING, awaits)


@pytest.mark.parametrize(
    "gone", [events.Hold(job=0), events.Remove(job=0), events.SetPriority(job=0, priority=40)], ids=str
)
def test_the_next_delayed_job_is_named(gone: events.Event) -> None:
    world = busy("0", spec(not_before=1060.0), spec(not_before=1600.0))
    world.do(gone)
    assert status(world).awaits.startswith("#0" if isinstance(gone, events.SetPriority) else "#1")


@pytest.mark.parametrize("event", [events.Pause(), events.Drain()], ids=["paused", "draining"])
def test_a_pause_or_drain_is_the_status(event: events.Event) -> None:
    world = busy("0", spec())
    world.do(event)
    paused = isinstance(event, events.Pause)
    assert status(world) == QueueStatus(StatusWord.PAUSED if paused else StatusWord.DRAINING)


def watched(*specs: JobSpec) -> tuple[World, Alerts]:
    world = World()
    world.add(*specs)
    return world, Alerts(world.scheduler.snapshot(), "sweep")


def alerts_of(world: World, alerts: Alerts) -> list[str]:
    snapshot = world.scheduler.snapshot()
    return alerts.update(snapshot, range(len(snapshot.jobs)), world.now)


def test_a_pause_after_errors_is_notified_once() -> None:
    world, alerts = watched(*[spec()] * 5)
    for _ in range(3):
        world.run(1, "ValueError: no")
        messages = alerts_of(world, alerts)
    assert messages == ["gputui sweep: paused: 3 jobs failed: ValueError: no"]
    assert alerts_of(world, alerts) == []


def test_the_users_own_pause_is_not_notified() -> None:
    world, alerts = watched(spec(), spec())
    for event in (events.Pause(), events.Resume()):
        world.do(event)
        assert alerts_of(world, alerts) == []


def test_the_end_of_all_jobs_is_notified() -> None:
    world, alerts = watched(spec(), spec())
    world.start()
    assert alerts_of(world, alerts) == []
    world.end(0, 1)
    world.run(0)
    assert alerts_of(world, alerts) == ["gputui sweep: done: 1 ok, 1 failed"]
    assert alerts_of(world, alerts) == []


def test_only_jobs_with_notify_are_notified() -> None:
    world, alerts = watched(spec("a"), spec("b", notify=True), spec("c"))
    world.run(0)
    assert alerts_of(world, alerts) == []
    world.run(0)
    assert alerts_of(world, alerts) == ["gputui sweep: #1 job_1: succeeded after 10 s"]
    assert alerts_of(world, alerts) == []
    assert alerts_of(world, Alerts(world.scheduler.snapshot(), "sweep")) == [], "earlier ends are not repeated"


def test_notify_can_be_changed_until_the_job_ends() -> None:
    world, alerts = watched(spec("a", notify=True), spec("b"), spec("c", hold=True))
    world.start()
    world.do(events.Notify(job=0, wanted=False))
    world.do(events.Notify(job=1))
    world.end(0)
    assert alerts_of(world, alerts) == []
    world.run(1, "KeyError: 3")
    assert "gputui sweep: #1 job_1: failed after 10 s: KeyError: 3" in alerts_of(world, alerts)
    assert "already ended" in world.refused(events.Notify(job=1))


def test_a_probe_for_reruns_is_not_notified() -> None:
    world, alerts = watched(spec(), spec())
    for _ in range(2):
        world.run(1, "ValueError: no")
    alerts = Alerts(world.scheduler.snapshot(), "sweep")
    for job in (0, 1):
        world.do(events.Rerun(job=job))
    world.do(events.TryFirst((0, 1)))
    assert world.scheduler.snapshot().paused_scopes
    assert alerts_of(world, alerts) == []
