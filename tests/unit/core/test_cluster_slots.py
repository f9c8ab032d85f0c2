"""Slots in a cluster: each runs one job of any number of GPUs; submitted jobs are withdrawn if they may not start."""

from __future__ import annotations

from typing import Any

import pytest
from support.core import World, spec

from gputui.core import events
from gputui.core.job import EngineName, Held, JobId, Running
from gputui.core.slots import DeviceKind, NodeSize, Slot
from gputui.views.idle_time import expected, gaps
from gputui.views.status import QueueStatus, StatusWord, queue_status
from gputui.views.summary import summarize
from gputui.views.timeline import Timeline, running

REASON = "not enough free GPUs, CPUs or memory in gpu (Resources)"


def slurm_slots(count: int) -> events.SetSlots:
    return events.SetSlots(tuple(Slot(number, (), DeviceKind.SLURM) for number in range(count)))


def cluster(slots: int = 2, jobs: int = 1, **settings: Any) -> World:
    """Slots in Slurm's queue, where the largest node has 4 GPUs, with submitted jobs."""
    world = World("")
    world.do(slurm_slots(slots))
    world.do(events.NodesSeen(NodeSize("n1", 4)))
    if jobs:
        world.add_many(jobs, **settings)
    world.place()
    return world


def submitted(world: World, job: JobId, why: str = "") -> list[events.Instruction]:
    return world.do(events.Submitted(job=job, attempt=world.job(job).issued, why=why))


def started(world: World, job: JobId, gpu: str = "n1:0") -> None:
    world.do(events.Spawned(job=job, attempt=1, pid=None, started=world.now, gpus=(gpu,), slurm_job=88))


def test_a_job_takes_one_slot_for_any_number_of_gpus() -> None:
    world = cluster(3, jobs=0)
    world.add(spec(gpus=4), spec(gpus=0), spec())
    assert world.place() == [0, 1, 2]
    placed = [job.active for job in world.scheduler.book if job.active is not None]
    assert [attempt.slots for attempt in placed] == [(0,), (1,), (2,)]
    assert {attempt.engine for attempt in placed} == {EngineName.SLURM}


def test_requests_that_the_cluster_cannot_serve_are_refused() -> None:
    world = cluster(jobs=0)
    assert "8 GPUs: the largest node (n1) has 4" in world.refused(events.AddJobs((spec(), spec(gpus=8))))
    assert "Slurm assigns the GPUs" in world.refused(events.AddJobs((spec(devices=("0",)),)))


def test_a_session_changes_its_engine_only_without_active_jobs() -> None:
    world = World("0")
    mixed = events.SetSlots((Slot(0, (), DeviceKind.SLURM), Slot(1, ("0",))))
    assert "cannot mix" in world.refused(mixed)
    world.add()
    world.start()
    assert "1 job is still active on this machine" in world.refused(slurm_slots(1))
    assert "#0 is" in world.refused(events.Hold(job=0))
    world.end(0)
    world.do(slurm_slots(1))
    assert world.scheduler.board.on_cluster


def test_times_and_gpus_are_those_of_the_real_start() -> None:
    world = cluster(timeout=10.0)
    assert world.scheduler.next_wakeup() is None
    world.now = 1500.0
    started(world, 0, "n2:1")
    placed = world.job(0).active
    assert placed is not None
    assert (placed.since, placed.gpus, placed.slurm_job) == (1500.0, ("n2:1",), 88)
    assert world.scheduler.next_wakeup() == 1510.0
    world.end(0)
    [attempt] = world.job(0).attempts
    assert (attempt.started, attempt.gpus, attempt.slurm_job) == (1500.0, ("n2:1",), 88)


def test_the_reason_of_a_submitted_job_is_shown_but_not_stored() -> None:
    world = cluster()
    world.scheduler.book.unsaved.clear()
    submitted(world, 0, REASON)
    assert world.why(0) == REASON
    assert not world.scheduler.book.unsaved
    assert 0 in world.scheduler.snapshot().changed


@pytest.mark.parametrize("order", [events.Pause(), events.Drain()])
def test_a_pause_withdraws_submitted_jobs(order: events.Event) -> None:
    world = cluster(jobs=3)
    started(world, 0)
    assert world.do(order) == [events.Withdraw(1, 1)]
    assert submitted(world, 1) == [events.Withdraw(1, 1)]
    world.end(1, events.NeverRan())
    assert world.place() == []
    world.do(events.Resume())
    assert world.place() == [1]
    assert not world.job(1).attempts


def test_the_breaker_withdraws_submitted_jobs_except_the_probe() -> None:
    world = cluster(4, jobs=8)
    withdrawn: list[events.Instruction] = []
    for job in range(3):
        started(world, job)
        withdrawn += world.end(job, 1, "boom")
    assert withdrawn == [events.Withdraw(3, 1)]
    world.end(3, events.NeverRan())
    world.wait(600)
    [probe] = world.place()
    assert submitted(world, probe) == []


def test_an_unavailable_engine_starts_nothing_and_says_why() -> None:
    world = cluster(jobs=0)
    world.add()
    world.do(events.EngineTrouble("Slurm not responding since 14:02"))
    assert world.place() == []
    assert world.why(0) == "Slurm not responding since 14:02"
    world.do(events.EngineTrouble(""))
    assert world.place() == [0]


def test_submitted_jobs_are_not_running() -> None:
    world = cluster(4, jobs=4)
    for job in range(4):
        submitted(world, job, REASON)
    snapshot = world.scheduler.snapshot()
    assert (snapshot.running, snapshot.waiting, snapshot.not_begun) == (0, 0, 4)
    assert queue_status(snapshot) == QueueStatus(StatusWord.WAITING, REASON)
    summary = summarize(snapshot, 1050.0)
    assert (summary.running, summary.waiting, summary.gpu_seconds, summary.devices) == (0, 4, 0, ())


def test_the_timeline_of_a_cluster_has_a_row_for_each_gpu_used() -> None:
    world = cluster(4, jobs=4)
    started(world, 0, "n10:0")
    started(world, 1, "n2:1")
    world.now += 10
    world.end(0)
    started(world, 2, "n10:0")
    snapshot = world.scheduler.snapshot()
    assert (snapshot.running, snapshot.not_begun) == (2, 1)
    timeline = Timeline()
    timeline.read(snapshot)
    timeline.settle(snapshot)
    places = timeline.places(snapshot)
    assert [place.device_key for place in places] == ["n2:1", "n10:0"]
    assert {place.device_key: bar.job for place, bar in running(snapshot)} == {"n2:1": 1, "n10:0": 2}
    window: dict[str, Any] = {"now": 1200.0, "shortest": 1.0, "active": None}
    assert [gap for place in places for gap in gaps(timeline, place, (), 1000.0, 1200.0, **window)] == []
    assert expected(timeline, snapshot, 1200.0, 1400.0, {}) == {}
    assert [device.device for device in summarize(snapshot, 1080.0).devices] == ["n2:1", "n10:0"]


def test_holding_a_submitted_job_withdraws_it_unless_it_has_started() -> None:
    world = cluster(jobs=2)
    for job in (0, 1):
        assert world.do(events.Hold(job=job)) == [events.Withdraw(job, 1)]
    assert submitted(world, 0) == [events.Withdraw(0, 1)], "reported to the next scheduler"
    world.end(0, events.NeverRan())
    assert world.job(0).state == Held()
    started(world, 1)
    assert isinstance(world.job(1).state, Running)
    assert world.place() == []
    world.do(events.Release(job=0))
    assert world.place() == [0]
