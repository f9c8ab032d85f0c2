"""Lanes in a cluster: one job each, of however many GPUs; what has not begun is taken back when nothing is to start."""

from __future__ import annotations

from typing import Any

import pytest
from support.core_validate import validate

from gputui.core.events import (
    AddJobs,
    AttemptEnded,
    Drain,
    EngineTrouble,
    Exited,
    Hold,
    NeverRan,
    NodesSeen,
    Pause,
    Refusal,
    Release,
    Resume,
    SetLanes,
    Spawned,
    Start,
    Submitted,
    Withdraw,
)
from gputui.core.job import EngineName, Held, JobSpec, Request, Running, Starting
from gputui.core.lanes import DeviceKind, Lane, NodeSize
from gputui.core.scheduler import Scheduler
from gputui.views.idle_time import expected, gaps
from gputui.views.status import Standing, Word, standing
from gputui.views.summary import summarize
from gputui.views.timeline import Timeline, running
from gputui.views.waiting import why


def spec(**changes: object) -> JobSpec:
    return JobSpec(command="true", cwd="/", environment="", **changes)  # type: ignore[arg-type]


def cluster(lanes: int = 2, largest: int | None = 4) -> Scheduler:
    scheduler = Scheduler()
    scheduler.handle(SetLanes(tuple(Lane(number, (), DeviceKind.SLURM) for number in range(lanes))), 0.0)
    if largest is not None:
        scheduler.handle(NodesSeen(NodeSize("n1", largest)), 0.0)
    return scheduler


def starts(scheduler: Scheduler, now: float = 1.0) -> list[int]:
    placed = [start.job.id for start in scheduler.place(now) if isinstance(start, Start)]
    validate(scheduler)
    return placed


def test_a_job_takes_one_lane_whatever_it_asks_for() -> None:
    scheduler = cluster(3)
    asked = (Request(gpus=4), Request(gpus=0), Request())
    scheduler.handle(AddJobs(tuple(spec(request=request) for request in asked)), 0.0)
    assert starts(scheduler) == [0, 1, 2]
    assert [scheduler.book[job].active.lanes for job in range(3)] == [(0,), (1,), (2,)]  # type: ignore[union-attr]
    assert {scheduler.book[job].active.engine for job in range(3)} == {EngineName.SLURM}  # type: ignore[union-attr]


def test_more_gpus_than_the_largest_node_has_are_refused_and_the_node_named() -> None:
    scheduler = cluster()
    with pytest.raises(Refusal, match="8 GPUs: the largest node, n1, has 4"):
        scheduler.handle(AddJobs((spec(), spec(request=Request(gpus=8)))), 0.0)
    assert len(scheduler.book) == 0


def test_named_devices_are_refused_in_a_cluster() -> None:
    with pytest.raises(Refusal, match="chooses the devices"):
        cluster().handle(AddJobs((spec(request=Request(devices=("0",))),)), 0.0)


def test_lanes_of_two_engines_are_not_mixed() -> None:
    with pytest.raises(Refusal, match="cannot be mixed"):
        Scheduler().handle(SetLanes((Lane(0, (), DeviceKind.SLURM), Lane(1, ("0",)))), 0.0)


def test_a_session_changes_its_engine_only_when_nothing_is_under_way() -> None:
    scheduler = Scheduler()
    scheduler.handle(SetLanes((Lane(0, ("0",)),)), 0.0)
    scheduler.handle(AddJobs((spec(),)), 0.0)
    starts(scheduler)
    there = SetLanes((Lane(0, (), DeviceKind.SLURM),))
    with pytest.raises(Refusal, match="1 job is under way on this machine"):
        scheduler.handle(there, 2.0)
    scheduler.handle(Spawned(job=0, attempt=1, pid=7), 2.0)
    scheduler.handle(AttemptEnded(job=0, attempt=1, outcome=Exited(0), at=3.0), 3.0)
    scheduler.handle(there, 4.0)
    assert scheduler.board.on_cluster


def test_time_and_place_count_from_the_real_start() -> None:
    scheduler = cluster()
    scheduler.handle(AddJobs((spec(timeout=10.0),)), 0.0)
    starts(scheduler)
    assert scheduler.next_wakeup() is None
    scheduler.handle(Spawned(job=0, attempt=1, pid=None, started=500.0, gpus=("n2:1",), slurm_job=88), 501.0)
    placed = scheduler.book[0].active
    assert placed is not None
    assert (placed.since, placed.gpus, placed.slurm_job) == (500.0, ("n2:1",), 88)
    assert scheduler.next_wakeup() == 510.0
    scheduler.handle(AttemptEnded(job=0, attempt=1, outcome=Exited(0), at=505.0), 506.0)
    [attempt] = scheduler.book[0].attempts
    assert (attempt.started, attempt.gpus, attempt.slurm_job) == (500.0, ("n2:1",), 88)
    validate(scheduler)


def test_a_submitted_job_says_what_it_waits_for_and_nothing_is_stored_of_it() -> None:
    scheduler = cluster()
    scheduler.handle(AddJobs((spec(),)), 0.0)
    starts(scheduler)
    scheduler.book.unsaved.clear()
    scheduler.handle(
        Submitted(job=0, attempt=1, why="not enough free GPUs, CPUs or memory in gpu (Resources)", slurm_job=5), 2.0
    )
    assert why(scheduler, scheduler.book[0], 3.0) == "not enough free GPUs, CPUs or memory in gpu (Resources)"
    assert not scheduler.book.unsaved
    assert 0 in scheduler.snapshot().changed


@pytest.mark.parametrize("order", [Pause(), Drain()])
def test_what_has_not_begun_is_taken_back_when_nothing_is_to_start(order: Pause | Drain) -> None:
    scheduler = cluster()
    scheduler.handle(AddJobs((spec(), spec(), spec())), 0.0)
    assert starts(scheduler) == [0, 1]
    scheduler.handle(Spawned(job=0, attempt=1, pid=None), 2.0)
    assert scheduler.handle(order, 3.0) == [Withdraw(1, 1)]
    assert scheduler.handle(Submitted(job=1, attempt=1, why=""), 3.0) == [Withdraw(1, 1)]
    scheduler.handle(AttemptEnded(job=1, attempt=1, outcome=NeverRan(), at=4.0), 4.0)
    assert starts(scheduler) == []
    scheduler.handle(Resume(), 5.0)
    assert starts(scheduler) == [1]
    assert not scheduler.book[1].attempts


def test_the_breaker_takes_back_what_has_not_begun_and_spares_the_one_it_tries() -> None:
    scheduler = cluster(4)
    scheduler.handle(AddJobs(tuple(spec() for _ in range(8))), 0.0)
    starts(scheduler)
    taken: list[object] = []
    for job in range(3):
        scheduler.handle(Spawned(job=job, attempt=1, pid=None, started=1.0), 1.0)
        end = AttemptEnded(job=job, attempt=1, outcome=Exited(1), at=2.0, signature="boom")
        taken += scheduler.handle(end, 2.0)
    assert taken == [Withdraw(3, 1)]
    scheduler.handle(AttemptEnded(job=3, attempt=1, outcome=NeverRan(), at=3.0), 3.0)
    wakeup = scheduler.next_wakeup()
    if wakeup is not None:
        from gputui.core.events import Tick

        scheduler.handle(Tick(), wakeup)
        for probe in starts(scheduler, wakeup):
            assert scheduler.handle(Submitted(job=probe, attempt=scheduler.book[probe].issued, why=""), wakeup) == []


def test_an_engine_in_trouble_starts_nothing_and_says_why() -> None:
    scheduler = cluster()
    scheduler.handle(AddJobs((spec(),)), 0.0)
    scheduler.handle(EngineTrouble("Slurm does not answer since 14:02"), 1.0)
    assert starts(scheduler) == []
    assert why(scheduler, scheduler.book[0], 1.0) == "Slurm does not answer since 14:02"
    scheduler.handle(EngineTrouble(""), 2.0)
    assert starts(scheduler) == [0]
    assert isinstance(scheduler.book[0].state, Starting)


def test_what_only_waits_in_slurm_is_not_running_and_what_ran_is_told_by_its_gpus() -> None:
    scheduler = cluster(lanes=4)
    scheduler.handle(AddJobs((spec(),) * 4), 0.0)
    assert starts(scheduler) == [0, 1, 2, 3]
    reason = "not enough free GPUs, CPUs or memory in gpu (Resources)"
    for job in range(4):
        scheduler.handle(Submitted(job=job, attempt=1, why=reason), 1.0)
    only_submitted = scheduler.snapshot()
    assert (only_submitted.running, only_submitted.waiting, only_submitted.not_begun) == (0, 0, 4)
    assert standing(only_submitted) == Standing(Word.WAITING, reason)
    summary = summarize(only_submitted, 50.0)
    assert (summary.running, summary.waiting, summary.gpu_seconds, summary.devices) == (0, 4, 0, ())
    for job, gpu in ((0, "n10:0"), (1, "n2:1")):
        scheduler.handle(Spawned(job=job, attempt=1, pid=None, started=50.0, gpus=(gpu,)), 50.0)
    scheduler.handle(AttemptEnded(job=0, attempt=1, outcome=Exited(0), at=60.0), 60.0)
    scheduler.handle(Spawned(job=2, attempt=1, pid=None, started=70.0, gpus=("n10:0",)), 70.0)
    snapshot = scheduler.snapshot()
    assert (snapshot.running, snapshot.not_begun) == (2, 1)
    timeline = Timeline()
    timeline.read(snapshot)
    timeline.settle(snapshot)
    shown = timeline.places(snapshot)
    assert [place.slot for place in shown] == ["n2:1", "n10:0"]
    assert {place.slot: bar.job for place, bar in running(snapshot)} == {"n2:1": 1, "n10:0": 2}
    window: dict[str, Any] = {"now": 200.0, "shortest": 1.0, "active": None}
    assert [gap for place in shown for gap in gaps(timeline, place, (), 0.0, 200.0, **window)] == []
    assert expected(timeline, snapshot, 200.0, 400.0, {}) == {}
    assert [device.device for device in summarize(snapshot, 80.0).devices] == ["n2:1", "n10:0"]


def test_a_job_that_waits_in_slurm_is_taken_back_and_held_unless_it_has_begun() -> None:
    scheduler = cluster(lanes=2)
    scheduler.handle(AddJobs((spec(),) * 2), 0.0)
    assert starts(scheduler) == [0, 1]
    for job in (0, 1):
        assert scheduler.handle(Hold(job=job), 1.0) == [Withdraw(job, 1)]
    assert scheduler.handle(Submitted(job=0, attempt=1, why=""), 2.0) == [Withdraw(0, 1)], (
        "as a next owner learns of it"
    )
    scheduler.handle(AttemptEnded(job=0, attempt=1, outcome=NeverRan(), at=3.0), 3.0)
    assert scheduler.book[0].state == Held()
    scheduler.handle(Spawned(job=1, attempt=1, pid=None), 3.0)
    assert isinstance(scheduler.book[1].state, Running), "lower case never touches running work"
    assert starts(scheduler) == []
    scheduler.handle(Release(job=0), 4.0)
    assert starts(scheduler) == [0]


def test_a_job_that_starts_on_this_machine_cannot_be_held() -> None:
    scheduler = Scheduler()
    scheduler.handle(SetLanes((Lane(0, ("0",)),)), 0.0)
    scheduler.handle(AddJobs((spec(),)), 0.0)
    assert starts(scheduler) == [0]
    with pytest.raises(Refusal, match="#0 is starting: only a waiting job can be held"):
        scheduler.handle(Hold(job=0), 1.0)
