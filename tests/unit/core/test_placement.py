"""Which job starts on which slots: on a shared machine too, and urgent jobs first."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.core import World, busy, slots, spec

from gputui.core.events import DevicesSeen, Edit, Hold, NoRoom, SetPriority, SetSlots, Settings, Suspend, Terminate
from gputui.core.job import JobId, JobSpec, Purpose, Queued, Request, Running, StateName, Stopping
from gputui.core.scheduler import Scheduler
from gputui.core.slots import Board, DeviceFacts, DeviceKind, Slot
from gputui.views.status import has_pending_work
from gputui.views.waiting import why


@pytest.mark.parametrize(
    ("gpus", "specs", "placed"),
    [
        ("0 0 1", [spec()] * 4, {0: "0", 1: "1", 2: "0"}),
        ("0 0 1", [spec(gpus=2)] * 2, {0: "0 1"}),
        ("0 1", [spec(), spec(gpus=2), spec()], {0: "0", 2: "1"}),
        ("0+1 2+3", [spec(), spec(gpus=2), spec()], {0: "0 1", 1: "2 3"}),
        ("0+1 2", [spec(gpus=1)] * 2, {0: "2", 1: "0 1"}),
        ("0 1", [spec(devices=("1",)), spec(devices=("1",)), spec(gpus=1, devices=("0", "1"))], {0: "1", 2: "0"}),
        ("cpu cpu", [spec(), spec(gpus=1), spec(devices=("0",))], {0: "", 1: ""}),
    ],
    ids=["shared device", "distinct devices", "smaller job passes", "GPU sets", "single before set", "named", "CPU"],
)
def test_jobs_are_placed_on_the_least_loaded_slots_that_fit(
    gpus: str, specs: list[JobSpec], placed: dict[JobId, str]
) -> None:
    world = World(gpus)
    world.add(*specs)
    assert {job: " ".join(world.gpus(job)) for job in world.start()} == placed


def test_jobs_that_ask_for_no_gpu_run_beside_the_slots_up_to_their_limit() -> None:
    world = World("0", cpu_jobs=2)
    world.add_many(4, gpus=0)
    world.add_many(2)
    assert world.start() == [0, 1, 4]
    world.end(0)
    assert world.start() == [2]
    world.do(Settings(cpu_jobs=1))
    world.end(1)
    assert world.start() == []


@pytest.mark.parametrize(
    ("waiting", "seconds", "started"),
    [
        ([spec(gpus=2), spec()], 299, [3]),
        ([spec(gpus=2), spec()], 300, []),
        ([spec(gpus=9), spec(gpus=2), spec()], 300, []),
        ([spec(gpus=2), spec(gpus=9), spec()], 300, []),
        ([spec(gpus=3), spec(devices=("7",)), spec()], 1000, [4]),
        ([spec(devices=("1",)), spec()], 1000, [3]),
        ([spec(gpus=2), spec(gpus=0)], 1000, [3]),
    ],
    ids=[
        "before its patience",
        "after",
        "behind one that can never run",
        "before one that can never run",
        "can never run",
        "another GPU",
        "a CPU job",
    ],
)
def test_slots_are_reserved_for_the_first_job_after_its_patience(
    waiting: list[JobSpec], seconds: float, started: list[JobId]
) -> None:
    world = busy("0 1", jobs=2)
    world.add(*waiting)
    world.now += seconds
    world.end(0)
    assert world.start() == started


def test_a_held_job_frees_its_reserved_slots() -> None:
    world = busy("0 1", spec())
    world.add(spec(gpus=2), spec())
    world.now += 1000
    assert world.start() == []
    world.do(Hold(job=1))
    assert world.start() == [2]


def test_slots_taken_away_while_busy_leave_when_their_jobs_have_ended() -> None:
    world = busy("0 1", jobs=4)
    world.do(SetSlots(slots("1")))
    snapshot = world.scheduler.snapshot()
    assert [slot.devices for slot in snapshot.leaving] == [("0",)]
    assert snapshot.holders[snapshot.slots[0].id] == 1
    world.end(0)
    assert world.start() == []
    assert world.scheduler.snapshot().leaving == ()
    world.end(1)
    assert world.start() == [2]


def test_fewer_slots_on_a_device_never_run_more_jobs_than_wanted() -> None:
    world = busy("0 0 0", jobs=5)
    world.end(0)
    world.do(SetSlots(slots("0")))
    assert world.start() == []
    world.end(1)
    assert world.start() == []
    world.end(2)
    assert world.start() == [3]


def test_a_slot_that_comes_back_while_its_job_still_runs_is_the_same_slot() -> None:
    world = busy("0 1", jobs=3)
    world.do(SetSlots(slots("1")))
    world.do(SetSlots(slots("0 1")))
    assert world.scheduler.board.leaving() == []
    assert world.start() == []


def test_removed_slots_in_use_are_stored() -> None:
    world = World()
    world.do(SetSlots((Slot(0, ("0",), DeviceKind.SIMULATED),)))
    world.add()
    world.start()
    world.do(SetSlots(slots("1")))
    again = Scheduler(world.scheduler.record(), world.scheduler.book)
    assert again.board.leaving() == world.scheduler.board.leaving()
    assert again.board.leaving()[0].kind is DeviceKind.SIMULATED


def test_a_job_on_an_unknown_slot_keeps_its_devices() -> None:
    world = busy("0+1 2", jobs=2)
    again = Scheduler(jobs=world.scheduler.book)
    assert sorted(slot.devices for slot in again.board.leaving()) == [("0", "1"), ("2",)]


@pytest.mark.parametrize("gpus", ["0 1", "0"])
def test_without_resources_nothing_starts_for_a_while(gpus: str) -> None:
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


def test_ids_decide_which_of_equal_slots_are_removed() -> None:
    board = Board([Slot(number, (), DeviceKind.CPU) for number in range(3)])
    board.take(7, [board.slots[0]], Request())
    board.replace([board.slots[1], board.slots[2]], these=True)
    assert [slot.id for slot in board.slots] == [1, 2]
    assert [slot.id for slot in board.leaving()] == [0]
    board.replace([*board.slots, Slot(0, (), DeviceKind.CPU)], these=True)
    assert sorted(slot.id for slot in board.slots) == [0, 1, 2]
    assert board.leaving() == []


ALICE = "used by alice (pid 4121, 38.0 GiB, 5 h)"
GB = 1024**3


def hungry(memory: int | None = None, *, share: float | None = None, gpus: int | None = None) -> JobSpec:
    return JobSpec(command="train", cwd="/", environment="e", request=Request(gpus, (), memory, share))


def sees(world: World, **devices: DeviceFacts) -> None:
    """`gpu1=…` is device 1."""
    world.do(DevicesSeen({name.removeprefix("gpu"): facts for name, facts in devices.items()}))


def card(used: int = 0, total: int = 40, ours: dict[int, int] | None = None) -> DeviceFacts:
    mine = {job: used * GB for job, used in (ours or {}).items()}
    return DeviceFacts(memory_total=total * GB, memory_used=used * GB, ours=mine)


def test_a_gpu_in_use_by_an_external_process_takes_no_job() -> None:
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


def test_no_slot_is_reserved_beside_a_blocked_gpu() -> None:
    world = World("0 1")
    world.add(spec(gpus=2), spec())
    sees(world, gpu1=DeviceFacts(blocked=ALICE))
    world.now += 10_000
    assert world.start() == [1], "GPU 0 would be idle until alice goes home"


def test_no_slot_is_reserved_beyond_max_gpus() -> None:
    world = World("0 1 2", max_gpus=2)
    world.add(spec(gpus=3), spec(), spec())
    world.now += 10_000
    assert world.start() == [1, 2]


def test_requested_memory_is_reserved_before_it_is_allocated() -> None:
    world = World("0 0")
    sees(world, gpu0=card(total=40))
    world.add(hungry(30 * GB), hungry(30 * GB), hungry(10 * GB))
    assert world.start() == [0, 2]
    assert world.why(1) == "waiting for a GPU with 30.0 GiB: 0 busy"


def test_requested_and_allocated_memory_counts_once() -> None:
    world = World("0 0")
    sees(world, gpu0=card(total=40))
    world.add(hungry(20 * GB), hungry(20 * GB))
    world.do(Settings(max_gpus=1))
    assert world.start() == [0, 1]
    world.end(0)
    world.add(hungry(20 * GB))
    sees(world, gpu0=card(used=20, ours={1: 20}))
    assert world.start() == [2]


def test_a_memory_share_is_relative_to_each_gpu() -> None:
    world = World("0 1")
    sees(world, gpu0=card(used=30), gpu1=card(used=30, total=80))
    world.add(hungry(share=0.5))
    world.start()
    assert world.gpus(0) == ("1",)


def test_no_slot_is_reserved_for_a_job_larger_than_every_gpu() -> None:
    world = World("0")
    sees(world, gpu0=card(total=40))
    world.add(hungry(80 * GB), spec())
    world.now += 1000
    assert world.why(0) == "needs a slot with 80.0 GiB; this session has GPU 0"
    assert world.start() == [1]


@pytest.mark.parametrize("settings", [{"max_gpus": 2}, {"keep_free": 1}])
def test_max_gpus_and_keep_free_limit_the_devices_in_use(settings: dict[str, int]) -> None:
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


def test_devices_in_use_are_reused_within_the_limit() -> None:
    world = busy("0 0 1 1 2 2", max_gpus=2, jobs=1)
    world.add(spec(gpus=2), spec(), spec())
    assert world.start() == [1, 2], "one device in use and one more are two"
    assert set(world.gpus(1)) == {*world.gpus(0), *world.gpus(1)}


def test_a_gpu_set_beyond_the_limit_does_not_hide_other_slots() -> None:
    world = World("0+1 2", max_gpus=1)
    world.add_many(2)
    assert world.start() == [0]
    assert world.gpus(0) == ("2",)


def test_gpus_in_use_by_others_do_not_count_as_kept_free() -> None:
    world = World("0 1 2", keep_free=1)
    sees(world, gpu1=DeviceFacts(blocked=ALICE))
    world.add_many(3)
    assert world.start() == [0]


def urgent(**settings: Any) -> JobSpec:
    return spec(**{"priority": 90, "preempt": True} | settings)


def run_each(world: World, *specs: JobSpec) -> list[JobId]:
    """Each runs a minute longer than the next."""
    jobs = []
    for each in specs:
        jobs += world.add(each)
        world.start()
        world.now += 60.0
    return jobs


def preempted(world: World) -> list[JobId]:
    """Place and preempt as in a turn; return the preempted jobs."""
    world.start()
    instructions = world.scheduler.preempt(world.now)
    assert world.scheduler.preempt(world.now) == [], "no job is preempted twice"
    return [instruction.job for instruction in instructions if isinstance(instruction, Terminate)]


def test_the_newest_checkpointing_job_is_preempted_and_continues_later() -> None:
    world = World("0 1")
    old, young = run_each(world, spec(checkpoint=True), spec(checkpoint=True))
    (job,) = world.add(urgent())
    assert preempted(world) == [young]
    assert world.state(old) is StateName.RUNNING
    assert f"preempting #{young}" in (why(world.scheduler, world.job(job), world.now) or "")
    assert "preempted by an urgent job" in (why(world.scheduler, world.job(young), world.now) or "")
    world.end(young, 143)
    assert world.start() == [job]
    assert isinstance(world.job(young).state, Queued), "it waits again, and has not failed"
    world.end(job)
    assert world.start() == [young]
    texts = {moment.job: moment.text for moment in world.scheduler.unsaved_history if "preempt" in moment.text}
    assert texts == {young: f"preempted by urgent #{job}", job: f"preempting #{young}"}


@pytest.mark.parametrize(
    ("running", "waiting"),
    [
        (spec(), urgent()),
        (spec(checkpoint=True), spec(priority=99)),
        (spec(checkpoint=True, priority=95), urgent(priority=95)),
        (spec(checkpoint=True, priority=90, preempt=True), urgent(priority=99)),
        (spec(checkpoint=True), urgent(gpus=2)),
        (spec(checkpoint=True), urgent(devices=("7",))),
    ],
    ids=["no checkpoint", "not urgent", "as urgent", "urgent itself", "too large all the same", "elsewhere"],
)
def test_other_jobs_are_not_preempted(running: JobSpec, waiting: JobSpec) -> None:
    world = World("0")
    run_each(world, running)
    world.add(waiting)
    assert preempted(world) == []


def test_a_free_slot_is_used_before_preempting() -> None:
    world = World("0 1")
    run_each(world, spec(checkpoint=True))
    (job,) = world.add(urgent())
    assert preempted(world) == []
    assert world.state(job) is StateName.RUNNING


def test_as_few_jobs_as_needed_are_preempted() -> None:
    world = World("0 1 2 3")
    jobs = run_each(world, *(spec(checkpoint=True) for _ in range(4)))
    world.add(urgent(gpus=2))
    assert sorted(preempted(world)) == jobs[2:]
    world = World("0 1 2 3")
    jobs = run_each(world, *(spec(checkpoint=True) for _ in range(4)))
    world.add(urgent(devices=("1",)))
    assert preempted(world) == [jobs[1]], "the younger ones hold other cards"
    world = World("0 0 0")
    sees(world, gpu0=card(total=55))
    jobs = run_each(world, *(replace(hungry(memory * GB), checkpoint=True) for memory in (30, 10, 10)))
    world.add(replace(hungry(40 * GB), preempt=True, priority=90))
    assert sorted(preempted(world)) == [jobs[0], jobs[2]], "of two that are alike the younger one"


def test_several_urgent_jobs_preempt_different_jobs() -> None:
    world = World("0 1")
    jobs = run_each(world, spec(checkpoint=True), spec(checkpoint=True))
    world.add(urgent(), urgent(), urgent())
    assert sorted(preempted(world)) == jobs


def test_the_memory_of_preempted_jobs_counts_as_free() -> None:
    world = World("0")
    (job,) = run_each(world, spec(checkpoint=True))
    world.do(DevicesSeen({"0": DeviceFacts(memory_total=80, memory_used=70, ours={job: 60})}))
    world.add(replace(urgent(), request=Request(memory=75)))
    assert preempted(world) == [], "others use 10 of 80"
    world.add(replace(urgent(), request=Request(memory=65)))
    assert preempted(world) == [job]


def test_cpu_jobs_preempt_cpu_jobs_only() -> None:
    world = World("0", cpu_jobs=1)
    cpu, gpu = run_each(world, spec(checkpoint=True, gpus=0), spec(checkpoint=True))
    world.add(urgent(gpus=0))
    assert preempted(world) == [cpu]
    assert isinstance(world.job(gpu).state, Running)


def test_suspended_and_raised_jobs_are_not_preempted() -> None:
    world = World("0 1")
    first, second = run_each(world, spec(checkpoint=True), spec(checkpoint=True))
    world.do(Suspend(job=second))
    world.do(SetPriority(job=first, priority=95))
    world.add(urgent())
    assert preempted(world) == []


def test_a_preempted_job_gets_its_grace_period() -> None:
    world = World("0", grace=30.0)
    (job,) = run_each(world, spec(checkpoint=True))
    world.add(urgent())
    preempted(world)
    state = world.job(job).state
    assert isinstance(state, Stopping)
    assert (state.purpose, state.deadline, state.hard) == (Purpose.PREEMPT, world.now + 30.0, False)


# Budgets


def test_a_group_starts_no_job_after_its_budget_and_others_go_on() -> None:
    world = World("0 1")
    limited = [spec(group="sweep", gpus=1, budget=100.0) for _ in range(3)]
    world.add(*limited, spec(group="other", gpus=1))
    assert world.start() == [0, 1]
    world.now += 60
    world.end(0)
    assert world.start() == [3], "#0 and #1 have used 120 GPU-seconds"
    assert world.why(2) == "group sweep has used its budget: 0.0333 of 0.0278 GPU-hours"
    world.end(1)
    world.end(3)
    assert world.start() == []
    assert not has_pending_work(world.scheduler.snapshot())
    world.do(Edit(job=2, spec=spec(group="sweep", gpus=1, budget=1000.0)))
    assert world.start() == [2]


def test_a_session_starts_no_job_on_a_gpu_after_its_budget() -> None:
    world = World("0", budget=100.0)
    world.add(spec(), spec(), spec(gpus=0))
    assert world.start() == [0, 2]
    world.now += 100
    world.end(0)
    assert world.start() == []
    assert world.why(1) == "the session has used its budget: 0.0278 of 0.0278 GPU-hours"
    world.do(Settings(budget=200.0))
    assert world.start() == [1]


def test_no_job_is_preempted_for_one_whose_budget_is_used_up() -> None:
    world = World("0")
    world.add(spec(group="sweep", budget=50.0))
    world.start()
    world.now += 60
    world.end(0)
    world.add(spec(checkpoint=True))
    world.start()
    world.add(spec(group="sweep", budget=50.0, preempt=True, priority=95))
    assert world.scheduler.preempt(world.now) == []
