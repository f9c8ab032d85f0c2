"""Which job goes on which lanes."""

from __future__ import annotations

import pytest
from support.core_world import World, lanes, spec

from gputui.core.events import Hold, NoRoom, SetLanes, Settings
from gputui.core.job import Request, StateName
from gputui.core.lanes import Board, DeviceKind, Lane
from gputui.core.scheduler import Scheduler


def test_each_lane_runs_one_job_at_a_time() -> None:
    world = World("0 1")
    world.add_many(3)
    assert world.start() == [0, 1]
    assert world.start() == []
    world.end(1)
    assert world.start() == [2]
    assert world.gpus(2) == ("1",)


def test_two_lanes_on_one_device_run_two_jobs_there() -> None:
    world = World("0 0 1")
    world.add_many(4)
    assert len(world.start()) == 3
    assert sorted(world.gpus(job)[0] for job in range(3)) == ["0", "0", "1"]


def test_an_empty_device_is_taken_before_one_that_has_a_job() -> None:
    world = World("0 0 1")
    world.add_many(2)
    world.start()
    assert {world.gpus(0), world.gpus(1)} == {("0",), ("1",)}


def test_a_job_for_two_gpus_gets_two_distinct_devices() -> None:
    world = World("0 0 1")
    world.add(spec(gpus=2), spec(gpus=2))
    assert world.start() == [0]
    assert sorted(world.gpus(0)) == ["0", "1"]


def test_a_smaller_job_may_pass_one_that_does_not_fit() -> None:
    world = World("0 1")
    world.add(spec(), spec(gpus=2), spec())
    assert world.start() == [0, 2]


def test_a_group_lane_gives_all_its_devices_to_one_job() -> None:
    world = World("0+1 2+3")
    world.add(spec(), spec(gpus=2), spec())
    assert world.start() == [0, 1]
    assert {world.gpus(0), world.gpus(1)} == {("0", "1"), ("2", "3")}


def test_a_job_for_one_gpu_takes_a_single_lane_before_a_group() -> None:
    world = World("0+1 2")
    world.add(spec(gpus=1), spec(gpus=1))
    assert world.start() == [0, 1]
    assert (world.gpus(0), world.gpus(1)) == (("2",), ("0", "1"))


def test_a_job_that_names_devices_runs_nowhere_else() -> None:
    world = World("0 1")
    world.add(spec(devices=("1",)), spec(devices=("1",)), spec(gpus=1, devices=("0", "1")))
    assert world.start() == [0, 2]
    assert (world.gpus(0), world.gpus(2)) == (("1",), ("0",))


def test_a_lane_without_a_gpu_serves_jobs_that_name_none() -> None:
    world = World("cpu cpu")
    world.add(spec(), spec(gpus=1), spec(devices=("0",)))
    assert world.start() == [0, 1]
    assert world.gpus(0) == ()


def test_jobs_that_ask_for_no_gpu_run_beside_the_lanes_up_to_their_limit() -> None:
    world = World("0", cpu_jobs=2)
    world.add_many(4, gpus=0)
    world.add_many(2)
    assert world.start() == [0, 1, 4]
    world.end(0)
    assert world.start() == [2]
    world.do(Settings(cpu_jobs=1))
    world.end(1)
    assert world.start() == []


def test_a_lane_that_comes_free_is_kept_for_a_head_that_waited_long() -> None:
    world = World("0 1")
    world.add_many(2)
    world.start()
    world.add(spec(gpus=2), spec())
    world.now += 300
    world.end(0)
    assert world.start() == []
    world.end(1)
    assert world.start() == [2]


def test_before_its_patience_ends_the_head_lets_others_pass() -> None:
    world = World("0 1")
    world.add_many(2)
    world.start()
    world.add(spec(gpus=2), spec())
    world.now += 299
    world.end(0)
    assert world.start() == [3]


def test_no_lane_is_kept_for_a_job_that_no_lanes_here_could_serve() -> None:
    world = World("0 1")
    world.add(spec(gpus=3), spec(devices=("7",)), spec(), spec())
    world.now += 1000
    assert world.start() == [2, 3]


def test_a_job_that_can_never_run_does_not_end_the_guard_for_the_one_behind_it() -> None:
    world = World("0 1")
    world.add_many(2)
    world.start()
    world.add(spec(gpus=9), spec(gpus=2), spec())
    world.now += 300
    world.end(0)
    assert world.start() == []


def test_only_lanes_that_can_serve_the_head_are_kept_for_it() -> None:
    world = World("0 1")
    world.add_many(2)
    world.start()
    world.add(spec(devices=("1",)), spec())
    world.now += 1000
    assert world.gpus(0) == ("0",)
    world.end(0)
    assert world.start() == [3], "GPU 0 stood idle for a job that wants GPU 1"


def test_a_cpu_job_is_not_held_up_by_lanes_kept_for_another() -> None:
    world = World("0 1")
    world.add()
    world.start()
    world.add(spec(gpus=2), spec(gpus=0))
    world.now += 1000
    assert world.start() == [2]


def test_a_held_head_frees_the_lanes_kept_for_it() -> None:
    world = World("0 1")
    world.add()
    world.start()
    world.add(spec(gpus=2), spec())
    world.now += 1000
    assert world.start() == []
    world.do(Hold(job=1))
    assert world.start() == [2]


def test_lanes_taken_away_while_busy_leave_when_their_jobs_have_ended() -> None:
    world = World("0 1")
    world.add_many(4)
    world.start()
    world.do(SetLanes(lanes("1")))
    snapshot = world.scheduler.snapshot()
    assert [lane.devices for lane in snapshot.leaving] == [("0",)]
    assert snapshot.holders[snapshot.lanes[0].id] == 1
    world.end(0)
    assert world.start() == []
    assert world.scheduler.snapshot().leaving == ()
    world.end(1)
    assert world.start() == [2]


def test_fewer_lanes_on_a_device_never_run_more_jobs_than_wanted() -> None:
    world = World("0 0 0")
    world.add_many(5)
    world.start()
    world.end(0)
    world.do(SetLanes(lanes("0")))
    assert world.start() == []
    world.end(1)
    assert world.start() == []
    world.end(2)
    assert world.start() == [3]


def test_a_lane_that_comes_back_while_its_job_still_runs_is_the_same_lane() -> None:
    world = World("0 1")
    world.add_many(3)
    world.start()
    world.do(SetLanes(lanes("1")))
    world.do(SetLanes(lanes("0 1")))
    assert world.scheduler.board.leaving() == []
    assert world.start() == []


def test_a_new_owner_knows_the_lanes_that_are_leaving() -> None:
    world = World()
    world.do(SetLanes((Lane(0, ("0",), DeviceKind.SIMULATED),)))
    world.add()
    world.start()
    world.do(SetLanes(lanes("1")))
    again = Scheduler(world.scheduler.record(), world.scheduler.book)
    assert again.board.leaving() == world.scheduler.board.leaving()
    assert again.board.leaving()[0].kind is DeviceKind.SIMULATED


def test_a_running_job_whose_lane_the_store_has_forgotten_still_holds_its_devices() -> None:
    world = World("0+1 2")
    world.add_many(2)
    world.start()
    again = Scheduler(jobs=world.scheduler.book)
    assert sorted(lane.devices for lane in again.board.leaving()) == [("0", "1"), ("2",)]


@pytest.mark.parametrize("gpus", ["0 1", "0"])
def test_a_machine_without_room_is_left_alone_for_a_while(gpus: str) -> None:
    world = World(gpus)
    world.add_many(4)
    started = world.start()
    world.end(0, NoRoom("the disk is full"))
    assert world.state(0) is StateName.DELAYED
    assert world.start() == [], "every job of the queue would fail to start"
    wakeup = world.scheduler.next_wakeup()
    assert wakeup == world.now + 5
    world.wait(5)
    assert world.start() == [0]
    assert len(started) == len(gpus.split())


def test_of_several_equal_lanes_those_that_are_meant_stay_busy_or_not() -> None:
    board = Board([Lane(number, (), DeviceKind.CPU) for number in range(3)])
    board.take(7, [board.lanes[0]], Request())
    board.replace([board.lanes[1], board.lanes[2]], these=True)
    assert [lane.id for lane in board.lanes] == [1, 2]
    assert [lane.id for lane in board.leaving()] == [0]
    board.replace([*board.lanes, Lane(0, (), DeviceKind.CPU)], these=True)
    assert sorted(lane.id for lane in board.lanes) == [0, 1, 2]
    assert board.leaving() == []
