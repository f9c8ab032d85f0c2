"""On a shared machine: strangers are left alone, memory is promised once, and some devices may stay free."""

from __future__ import annotations

import pytest
from support.core_world import World, spec

from gputui.core.events import DevicesSeen, Settings
from gputui.core.job import JobSpec, Request
from gputui.core.lanes import DeviceFacts

ALICE = "used by alice (pid 4121, 38.0 GB, 5 h)"
GB = 1024**3


def hungry(memory: int | None = None, *, share: float | None = None, gpus: int | None = None) -> JobSpec:
    return JobSpec(command="train", cwd="/", environment="e", request=Request(gpus, (), memory, share))


def sees(world: World, **devices: DeviceFacts) -> None:
    """`gpu1=…` is device 1."""
    world.do(DevicesSeen({name.removeprefix("gpu"): facts for name, facts in devices.items()}))


def card(used: int = 0, total: int = 40, ours: dict[int, int] | None = None) -> DeviceFacts:
    mine = {job: used * GB for job, used in (ours or {}).items()}
    return DeviceFacts(memory_total=total * GB, memory_used=used * GB, ours=mine)


def test_a_device_that_a_stranger_holds_takes_no_job_and_the_job_says_who_it_is() -> None:
    world = World("0 1")
    sees(world, gpu1=DeviceFacts(blocked=ALICE))
    world.add_many(2)
    assert world.start() == [0]
    assert world.gpus(0) == ("0",)
    assert world.why(1) == f"waiting for a GPU: 0 busy, 1 {ALICE}"
    assert world.scheduler.snapshot().blocked == {1}
    sees(world, gpu1=DeviceFacts())
    assert world.scheduler.snapshot().blocked == set()
    assert world.start() == [1]


def test_no_lane_stands_idle_for_a_job_that_a_stranger_keeps_waiting() -> None:
    world = World("0 1")
    world.add(spec(gpus=2), spec())
    sees(world, gpu1=DeviceFacts(blocked=ALICE))
    world.now += 10_000
    assert world.start() == [1], "GPU 0 would be idle until alice goes home"


def test_no_lane_is_kept_for_a_job_that_wants_more_devices_than_we_may_use() -> None:
    world = World("0 1 2", at_most=2)
    world.add(spec(gpus=3), spec(), spec())
    world.now += 10_000
    assert world.start() == [1, 2]


def test_two_jobs_never_race_into_the_memory_of_one_card() -> None:
    world = World("0 0")
    sees(world, gpu0=card(total=40))
    world.add(hungry(30 * GB), hungry(30 * GB), hungry(10 * GB))
    assert world.start() == [0, 2]
    assert world.why(1) == "waiting for a GPU with 30.0 GB: 0 busy"


def test_memory_that_a_job_declared_and_has_allocated_counts_once() -> None:
    world = World("0 0")
    sees(world, gpu0=card(total=40))
    world.add(hungry(20 * GB), hungry(20 * GB))
    world.do(Settings(at_most=1))
    assert world.start() == [0, 1]
    world.end(0)
    world.add(hungry(20 * GB))
    sees(world, gpu0=card(used=20, ours={1: 20}))
    assert world.start() == [2]


def test_a_share_of_the_memory_is_a_share_of_that_card() -> None:
    world = World("0 1")
    sees(world, gpu0=card(used=30), gpu1=card(used=30, total=80))
    world.add(hungry(share=0.5))
    world.start()
    assert world.gpus(0) == ("1",)


def test_a_job_larger_than_every_card_keeps_nothing_waiting() -> None:
    world = World("0")
    sees(world, gpu0=card(total=40))
    world.add(hungry(80 * GB), spec())
    world.now += 1000
    assert world.why(0) == "needs a lane with 80.0 GB; this session has GPU 0"
    assert world.start() == [1]


@pytest.mark.parametrize("settings", [{"at_most": 2}, {"keep_free": 1}])
def test_no_more_devices_are_used_than_we_may(settings: dict[str, int]) -> None:
    world = World("0 1 2", **settings)
    world.add_many(3)
    assert world.start() == [0, 1]
    reason = world.why(2)
    assert reason in (
        "waiting for a GPU: at most 2 GPUs are used at once",
        "waiting for a GPU: 1 GPU is kept free for others",
    )
    world.end(0)
    assert world.start() == [2]


def test_devices_in_use_already_are_used_further_within_the_limit() -> None:
    world = World("0 0 1 1 2 2", at_most=2)
    world.add_many(1)
    world.start()
    world.add(spec(gpus=2), spec(), spec())
    assert world.start() == [1, 2], "one device in use and one more are two"
    assert set(world.gpus(1)) == {*world.gpus(0), *world.gpus(1)}


def test_a_group_too_large_for_the_limit_does_not_hide_a_lane_within_it() -> None:
    world = World("0+1 2", at_most=1)
    world.add_many(2)
    assert world.start() == [0]
    assert world.gpus(0) == ("2",)


def test_cards_that_others_hold_are_not_the_ones_we_keep_free() -> None:
    world = World("0 1 2", keep_free=1)
    sees(world, gpu1=DeviceFacts(blocked=ALICE))
    world.add_many(3)
    assert world.start() == [0]
