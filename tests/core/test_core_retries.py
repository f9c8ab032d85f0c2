"""Which failures are run again, when, and where: by kind, by exit code, and after a card was full."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.core_model import restored
from support.core_world import World, lanes, spec

from gputui.core.events import (
    AttemptEnded,
    DevicesSeen,
    Edit,
    Exited,
    Mode,
    NodeFailed,
    Outcome,
    Rerun,
    SetLanes,
    Vanished,
)
from gputui.core.job import CrashKind, Delayed, JobId, JobSpec, OnOom, Request, StateName, Usage
from gputui.core.lanes import DeviceFacts

GIB = 1024**3


def end(world: World, job: JobId, outcome: Outcome, kind: CrashKind | None = None, **rest: Any) -> None:
    attempt = world.job(job).issued
    world.do(AttemptEnded(job=job, attempt=attempt, outcome=outcome, at=world.now, kind=kind, **rest))


def full(world: World, job: JobId) -> None:
    end(world, job, Exited(1), CrashKind.OOM_GPU, signature="CUDA out of memory")


def seen(world: World, **totals: int) -> None:
    facts = {name[1:]: DeviceFacts(memory_total=total, memory_used=0) for name, total in totals.items()}
    world.do(DevicesSeen(facts))


def told(world: World, job: JobId) -> str:
    return "; ".join(moment.text for moment in world.scheduler.unsaved_moments if moment.job == job)


@pytest.mark.parametrize(
    ("outcome", "kind", "retry_on", "again"),
    [
        (Exited(1), CrashKind.EXCEPTION, (), True),
        (Exited(1), CrashKind.EXCEPTION, ("oom",), False),
        (Exited(1), CrashKind.EXCEPTION, ("exception",), True),
        (Exited(1), CrashKind.OOM_GPU, ("oom",), True),
        (Exited(137), CrashKind.OOM_HOST, ("oom",), True),
        (Exited(139), CrashKind.SIGNAL, ("signal",), True),
        (Exited(139), CrashKind.SIGNAL, ("exit:139",), True),
        (Exited(75), CrashKind.EXIT_ONLY, ("exit:75",), True),
        (Exited(76), CrashKind.EXIT_ONLY, ("exit:75",), False),
        (Exited(1), CrashKind.NETWORK, ("signal", "network"), True),
        (NodeFailed("node n7 failed"), None, ("node",), True),
        (NodeFailed("node n7 failed"), None, (), False),
        (Vanished("rebooted"), None, ("node", "signal"), False),
        (Vanished("rebooted"), None, (), False),
    ],
)
def test_only_the_failures_that_were_named_are_run_again(
    outcome: Outcome, kind: CrashKind | None, retry_on: tuple[str, ...], again: bool
) -> None:
    world = World()
    world.add(spec(retries=2, retry_on=retry_on))
    world.start()
    end(world, 0, outcome, kind)
    assert (world.state(0) is StateName.DELAYED) == again


def test_a_job_that_asks_for_later_waits_longer_each_time_and_not_for_ever() -> None:
    world = World()
    world.add(spec(retries=2, retry_on=("exit:75",)))
    waits = []
    for _ in range(2):
        world.start()
        end(world, 0, Exited(75))
        state = world.job(0).state
        assert isinstance(state, Delayed)
        waits.append(state.until - world.now)
        assert "asked to be run later" in (world.why(0) or "")
        world.wait(state.until - world.now)
    assert waits == [60.0, 120.0]
    world.start()
    end(world, 0, Exited(75))
    assert world.state(0) is StateName.FAILED


def test_a_job_whose_card_was_full_beside_another_runs_once_more_alone_and_counts_for_nothing() -> None:
    world = World("0 0", pause_after=1)
    world.add_many(4)
    world.start()
    full(world, 0)
    assert world.state(0) is StateName.QUEUED
    assert world.mode() is Mode.RUNNING
    assert world.job(0).failures == 0
    assert "alone on its card" in told(world, 0)
    assert world.start() == [2], "it waits for an empty card, others need not"
    assert "to itself" in (world.why(0) or "")
    world.end(1)
    world.end(2)
    assert world.start() == [0], "first in the line, and nobody beside it"
    assert world.place() == []
    full(world, 0)
    assert world.state(0) is StateName.FAILED, "once"
    assert world.mode() is Mode.PAUSED, "and now it counts"


def test_both_of_two_jobs_that_fill_a_card_together_run_again_whoever_ends_first() -> None:
    world = World("0 0")
    world.add_many(2)
    world.start()
    full(world, 0)
    world.scheduler = restored(world.scheduler)
    full(world, 1)
    assert world.states([0, 1]) == {StateName.QUEUED}
    assert world.start() == [0]
    world.end(0)
    assert world.start() == [1]


def test_the_next_owner_decides_the_same_of_an_end_that_was_not_made_durable() -> None:
    world = World("0 0")
    world.add_many(2)
    world.start()
    heir = restored(world.scheduler)
    full(world, 0)
    world.scheduler = heir
    full(world, 0)
    assert world.state(0) is StateName.QUEUED
    assert restored(world.scheduler).book[0].request.alone


@pytest.mark.parametrize("gpus", ["0", "0 1", "cpu cpu"])
def test_a_job_that_was_alone_on_its_card_fails_as_ever(gpus: str) -> None:
    world = World(gpus)
    world.add_many(2)
    world.start()
    full(world, 0)
    assert world.state(0) is StateName.FAILED


def test_a_stranger_on_the_card_is_company_too() -> None:
    world = World("0")
    world.add()
    world.start()
    world.do(DevicesSeen({"0": DeviceFacts(crowded=True, blocked="used by alice")}))
    full(world, 0)
    assert world.state(0) is StateName.QUEUED
    assert world.place() == []
    world.do(DevicesSeen({"0": DeviceFacts()}))
    assert world.place() == [0]


def test_who_wants_no_second_run_after_a_full_card_gets_none() -> None:
    world = World("0 0")
    world.add(*[spec(on_oom=OnOom.FAIL)] * 2)
    world.start()
    full(world, 0)
    assert world.state(0) is StateName.FAILED


def test_bigger_means_a_card_with_more_memory_even_for_a_job_that_was_alone() -> None:
    world = World("0 1")
    seen(world, g0=24 * GIB, g1=48 * GIB)
    world.add(spec(on_oom=OnOom.BIGGER), spec())
    world.start()
    full(world, 0)
    assert "more memory" in told(world, 0)
    assert world.place() == []
    assert "more than 24 GB" in (world.why(0) or "").replace("24.0", "24")
    world.end(1)
    assert world.start() == [0]
    assert world.gpus(0) == ("1",)


def test_bigger_is_alone_where_no_card_has_more_memory() -> None:
    world = World("0 0 1")
    seen(world, g0=24 * GIB, g1=24 * GIB)
    world.add(*[spec(on_oom=OnOom.BIGGER, devices=("0",))] * 2)
    world.start()
    full(world, 0)
    assert world.job(0).request.larger_than is None
    assert world.job(0).request.alone


def test_a_rerun_and_an_edit_of_what_it_asks_for_begin_anew() -> None:
    world = World("0 0")
    world.add_many(2)
    world.start()
    full(world, 0)
    world.do(Edit(job=0, spec=replace(world.job(0).spec, request=Request(memory=5))))
    assert not world.job(0).request.alone
    world.start()
    full(world, 0)
    world.end(1)
    world.start()
    full(world, 0)
    assert world.state(0) is StateName.FAILED
    world.do(Rerun(job=0))
    assert not world.job(0).request.alone


def test_a_job_that_wants_a_card_alone_does_not_starve_and_holds_up_one_card_only() -> None:
    world = World("0 0 1 1")
    world.add_many(4)
    world.start()
    full(world, 0)
    world.add_many(9)
    world.start()
    world.now += 301
    world.place()
    for job in (1, 2):
        world.end(job)
    started = world.start()
    assert started, "the other card is filled meanwhile"
    for job in [job for job in world.scheduler.book.active if "0" in world.gpus(job)]:
        world.end(job)
    for job in [job for job in world.scheduler.book.active if "1" in world.gpus(job)]:
        world.end(job)
    assert 0 in world.start()


def learner(**rest: Any) -> JobSpec:
    return replace(spec(**rest), request=Request(learns=True))


def test_what_the_first_of_a_group_used_is_declared_for_the_others() -> None:
    world = World("0 0 0")
    seen(world, g0=24 * GIB)
    world.add(learner(group="a"), learner(group="a"), learner(group="a"))
    world.do(SetLanes(lanes("0")))
    world.start()
    end(world, 0, Exited(0), usage=Usage(gpu_peak_memory=10 * GIB, gpu_peak_memory_each=10 * GIB))
    assert "given 11" in told(world, 0)
    world.do(SetLanes(lanes("0 0 0")))
    assert world.start() == [1, 2], "two times 11 GB fit into 24"
    world.scheduler = restored(world.scheduler)
    seen(world, g0=24 * GIB)
    world.add(learner(group="a"), learner(group="b", priority=40))
    assert world.start() == [4], "another group has learned nothing yet"
    world.end(4)
    assert world.place() == []
    assert "11 GB, as its group was seen to use" in (world.why(3) or "").replace("11.0", "11")


def test_nothing_is_learned_from_a_failure_or_where_nobody_measured() -> None:
    world = World("0")
    world.add(learner(), learner())
    world.start()
    end(world, 0, Exited(1), usage=Usage(gpu_peak_memory_each=10))
    world.start()
    end(world, 1, Exited(0), usage=Usage())
    assert world.scheduler.learned == {}
