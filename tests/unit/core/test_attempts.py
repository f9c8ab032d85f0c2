"""What follows from the end of an attempt: states, retries, time limits, kills, hung jobs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.core import World, busy, restored, slots, spec

from gputui.core import events
from gputui.core import job as states
from gputui.core.job import (
    CrashKind,
    JobId,
    JobSpec,
    OnHang,
    OnOom,
    Purpose,
    Request,
    StateName,
    SurvivingProcess,
    Usage,
)
from gputui.core.policies import ActivitySample, last_activity
from gputui.core.scheduler import Scheduler
from gputui.core.slots import DeviceFacts
from gputui.views.format import silence
from gputui.views.waiting import why


def running(gpus: str = "0", **settings: object) -> World:
    """One job that runs, as attempt 1."""
    world = World(gpus)
    world.add(spec(**settings))  # type: ignore[arg-type]
    world.start()
    return world


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (events.Exited(0), states.Succeeded()),
        (events.Exited(1), states.Failed(1)),
        (events.Exited(128), states.Failed(128)),
        (events.Exited(129), states.Failed(129)),
        (events.Exited(137), states.Failed(137)),
        (events.Exited(192), states.Failed(192)),
        (events.Exited(193), states.Failed(193)),
        (events.Vanished("rebooted"), states.Lost("rebooted")),
        (events.NotStarted("its directory is gone"), states.Refused("its directory is gone")),
    ],
)
def test_an_outcome_determines_the_final_state(outcome: events.Outcome, state: states.State) -> None:
    world = running()
    world.end(0, outcome)
    assert world.job(0).state == state
    attempt = world.job(0).attempts[-1]
    assert attempt.end == state
    assert attempt.exit_code == (outcome.code if isinstance(outcome, events.Exited) else None)


def test_an_attempt_that_never_ran_is_replaced_with_a_new_number() -> None:
    world = running()
    world.end(0, events.NeverRan())
    assert world.state(0) is StateName.QUEUED
    assert world.job(0).attempts == ()
    world.start()
    assert world.job(0).issued == 2


def test_an_attempt_never_ends_before_it_started() -> None:
    world = running()
    world.now -= 50
    world.do(events.AttemptEnded(job=0, attempt=1, outcome=events.Exited(0), at=world.now))
    assert world.job(0).attempts[0].ended == world.job(0).attempts[0].started


def test_retry_delays_double_until_the_job_has_failed() -> None:
    world = running(retries=3)
    delays = []
    for _ in range(3):
        world.end(0, 1)
        state = world.job(0).state
        assert isinstance(state, states.Delayed)
        delays.append(state.until - world.now)
        assert world.start() == []
        world.wait(delays[-1])
        assert world.start() == [0]
    world.end(0, 1)
    assert delays == [2, 4, 8]
    assert world.job(0).state == states.Failed(1)
    assert [attempt.number for attempt in world.job(0).attempts] == [1, 2, 3, 4]


def test_the_retry_delay_has_a_limit() -> None:
    world = running(retries=20)
    for _ in range(20):
        world.end(0, 1)
        world.wait(300)
        assert world.start() == [0]


def test_a_timed_out_job_gets_a_grace_period_and_may_be_retried() -> None:
    world = running(timeout=60.0, retries=1)
    assert world.wait(59.9) == []
    assert world.wait(0.1) == [events.Terminate(0, 1)]
    assert world.wait(29.9) == []
    assert world.wait(0.1) == [events.KillTree(0, 1)]
    assert world.wait(1000) == []
    world.end(0, 137)
    assert world.job(0).attempts[0].signature == "timed out after 60 s"
    world.wait(2)
    world.start()
    assert world.wait(60) == [events.Terminate(0, 2)]
    world.end(0, 0)
    assert world.state(0) is StateName.TIMED_OUT


def test_without_a_grace_period_a_timed_out_job_is_killed_at_once() -> None:
    world = running(timeout=60.0)
    world.do(events.Settings(grace=0.0))
    assert world.wait(60) == [events.Terminate(0, 1), events.KillTree(0, 1)]


def test_suspended_time_does_not_count_for_the_time_limit() -> None:
    world = running(timeout=60.0)
    world.wait(30)
    assert world.do(events.Suspend(job=0)) == [events.SuspendTree(0, 1)]
    assert world.wait(1000) == []
    assert world.do(events.Continue(job=0)) == [events.ContinueTree(0, 1)]
    world.do(events.Suspend(job=0))
    world.wait(500)
    world.do(events.Continue(job=0))
    assert world.wait(29) == []
    assert world.wait(1) == [events.Terminate(0, 1)]


def test_a_kill_waits_for_the_grace_period_unless_repeated_with_now() -> None:
    world = running()
    assert world.do(events.Kill(job=0)) == [events.Terminate(0, 1)]
    assert world.do(events.Kill(job=0)) == []
    assert world.do(events.Kill(job=0, now=True)) == [events.KillTree(0, 1)]
    assert world.do(events.Kill(job=0, now=True)) == []
    assert world.wait(1000) == []
    world.end(0, 143)
    assert world.job(0).state == states.Killed()
    assert world.job(0).attempts[0].exit_code == 143


@pytest.mark.parametrize(
    ("outcome", "attempts"), [(events.Exited(143), 1), (events.NeverRan(), 0), (events.NoRoom("no disk"), 0)]
)
def test_a_job_killed_while_starting_is_not_restarted(outcome: events.Outcome, attempts: int) -> None:
    world = World()
    world.add()
    world.place()
    assert world.do(events.Kill(job=0)) == [events.Terminate(0, 1)]
    world.spawned(0)
    assert isinstance(world.job(0).state, states.Stopping)
    world.end(0, outcome)
    assert world.job(0).state == states.Killed()
    assert len(world.job(0).attempts) == attempts
    assert world.place() == []


def test_a_requeued_job_keeps_its_place_even_if_it_exits_with_0() -> None:
    world = busy(jobs=3)
    assert world.do(events.Requeue(job=0)) == [events.Terminate(0, 1)]
    world.end(0, 0)
    assert world.line() == [0, 1, 2]
    assert world.start() == [0]
    assert world.job(0).issued == 2


def test_a_rerun_is_a_new_attempt_with_new_retries() -> None:
    world = running(retries=1)
    world.end(0, 1)
    world.wait(2)
    world.start()
    world.end(0, 1)
    world.do(events.Rerun(job=0, environment="mine"))
    assert world.start() == [0]
    world.end(0, 1)
    assert world.state(0) is StateName.DELAYED
    assert [attempt.environment for attempt in world.job(0).attempts] == ["e", "e", "mine"]


def test_impossible_reports_raise_an_error_with_the_history() -> None:
    world = running()
    for event in (events.Spawned(job=0, attempt=2, pid=1), events.Spawned(job=9, attempt=1, pid=1)):
        with pytest.raises(events.IllegalTransition, match=f"#{event.job}"):
            world.do(event)


def test_a_new_scheduler_continues_to_stop_an_attempt() -> None:
    world = running()
    world.do(events.Kill(job=0))
    world.scheduler = Scheduler(world.scheduler.record(), world.scheduler.book)
    assert world.spawned(0, adopted=True) == [events.Terminate(0, 1)]
    assert world.wait(30) == [events.KillTree(0, 1)]
    assert world.spawned(0, adopted=True) == [events.KillTree(0, 1)]
    assert world.spawned(0) == []


def test_a_job_waits_for_its_start_time() -> None:
    world = World()
    world.add(spec(not_before=1100.0))
    assert world.scheduler.next_wakeup() == 1100
    world.wait(99)
    assert world.start() == []
    world.wait(1)
    assert world.start() == [0]


@pytest.mark.parametrize(
    ("asked", "state"), [(Purpose.KILL, "killed"), (Purpose.REQUEUE, "queued"), (Purpose.TIMEOUT, "timed_out")]
)
@pytest.mark.parametrize("outcome", [events.Exited(137), events.Exited(0), events.Vanished("its shell was killed")])
def test_an_end_requested_by_an_earlier_scheduler_has_its_purpose(
    asked: Purpose, state: str, outcome: events.Outcome
) -> None:
    world = running(timeout=60.0)
    world.do(events.AttemptEnded(job=0, attempt=1, outcome=outcome, at=world.now, requested=asked))
    assert world.job(0).state.name == state
    assert (len(world.scheduler.breaker.streak.failures) == 1) is (asked is Purpose.TIMEOUT)


@pytest.mark.parametrize(
    ("ask", "code", "retries", "state"),
    [
        (events.Requeue(job=0), 0, 0, "succeeded"),
        (events.Requeue(job=0), 3, 0, "failed"),
        (events.Kill(job=0), 0, 0, "succeeded"),
        (events.Kill(job=0), 3, 0, "killed"),
        (events.Kill(job=0), 3, 3, "killed"),
    ],
)
def test_a_command_does_not_change_how_an_attempt_had_already_ended(
    ask: events.Kill | events.Requeue, code: int, retries: int, state: str
) -> None:
    world = running(retries=retries)
    world.do(ask)
    world.do(events.AttemptEnded(job=0, attempt=1, outcome=events.Exited(code), at=world.now, by_itself=True))
    assert world.job(0).state.name == state


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize(("known", "asked"), [(events.Requeue, Purpose.KILL), (events.Kill, Purpose.REQUEUE)])
def test_a_kill_takes_precedence_even_if_it_was_not_stored(
    known: type[events.Kill | events.Requeue], asked: Purpose, alive: bool
) -> None:
    world = running()
    world.do(known(job=0))
    if alive:
        assert world.do(events.Spawned(job=0, attempt=1, pid=100, adopted=True, requested=asked)) == [
            events.Terminate(0, 1)
        ]
        world.end(0, 143)
    else:
        world.do(events.AttemptEnded(job=0, attempt=1, outcome=events.Exited(143), at=world.now, requested=asked))
    assert world.job(0).state.name == "killed"


@pytest.mark.parametrize(
    ("asked", "state"), [(Purpose.KILL, "killed"), (Purpose.REQUEUE, "held"), (Purpose.TIMEOUT, "timed_out")]
)
def test_no_new_attempt_starts_while_a_process_of_the_old_one_survives(asked: Purpose, state: str) -> None:
    world = running(timeout=60.0, retries=3)
    left = SurvivingProcess(7, 99, "pid 7 (sudo x) lives on")
    world.do(
        events.AttemptEnded(
            job=0, attempt=1, outcome=events.Vanished("killed"), at=world.now, requested=asked, left=(left,)
        )
    )
    job = world.job(0)
    assert job.state.name == state
    assert world.start() == []
    assert job.attempts[-1].left == (left,)
    assert left.words in [moment.text for moment in world.scheduler.history(0)]
    if isinstance(job.state, states.Held):
        assert why(world.scheduler, job, world.now) == f"{left.words}; kill it, then release the job"
        world.do(events.Release(job=0))
        assert world.start() == [0]


def test_an_attempt_keeps_the_command_it_ran_when_the_job_is_edited() -> None:
    world = World()
    world.add(spec("old"))
    world.run(1)
    world.do(events.Rerun(job=0))
    world.do(events.Edit(job=0, spec=spec("new")))
    assert [attempt.command for attempt in world.job(0).attempts] == ["old"]
    world.do(events.Edit(job=0, spec=spec("newer")))
    assert [attempt.command for attempt in world.job(0).attempts] == ["old"]


GIB = 1024**3


def end(world: World, job: JobId, outcome: events.Outcome, kind: CrashKind | None = None, **rest: Any) -> None:
    attempt = world.job(job).issued
    world.do(events.AttemptEnded(job=job, attempt=attempt, outcome=outcome, at=world.now, kind=kind, **rest))


def full(world: World, job: JobId) -> None:
    end(world, job, events.Exited(1), CrashKind.OOM_GPU, signature="CUDA out of memory")


def seen(world: World, **totals: int) -> None:
    facts = {name[1:]: DeviceFacts(memory_total=total, memory_used=0) for name, total in totals.items()}
    world.do(events.DevicesSeen(facts))


def history(world: World, job: JobId) -> str:
    return "; ".join(moment.text for moment in world.scheduler.unsaved_history if moment.job == job)


@pytest.mark.parametrize(
    ("outcome", "kind", "retry_on", "again"),
    [
        (events.Exited(1), CrashKind.EXCEPTION, (), True),
        (events.Exited(1), CrashKind.EXCEPTION, ("oom",), False),
        (events.Exited(1), CrashKind.EXCEPTION, ("exception",), True),
        (events.Exited(1), CrashKind.OOM_GPU, ("oom",), True),
        (events.Exited(137), CrashKind.OOM_HOST, ("oom",), True),
        (events.Exited(139), CrashKind.SIGNAL, ("signal",), True),
        (events.Exited(139), CrashKind.SIGNAL, ("exit:139",), True),
        (events.Exited(75), CrashKind.EXIT_ONLY, ("exit:75",), True),
        (events.Exited(76), CrashKind.EXIT_ONLY, ("exit:75",), False),
        (events.Exited(1), CrashKind.NETWORK, ("signal", "network"), True),
        (events.NodeFailed("node n7 failed"), None, ("node",), True),
        (events.NodeFailed("node n7 failed"), None, (), False),
        (events.Vanished("rebooted"), None, ("node", "signal"), False),
        (events.Vanished("rebooted"), None, (), False),
        (events.NotStarted("too long"), None, (), False),
    ],
)
def test_only_failures_named_in_retry_on_are_retried(
    outcome: events.Outcome, kind: CrashKind | None, retry_on: tuple[str, ...], again: bool
) -> None:
    world = busy("0", spec(retries=2, retry_on=retry_on))
    end(world, 0, outcome, kind)
    assert (world.state(0) is StateName.DELAYED) == again


def test_exit_code_75_is_retried_later_each_time() -> None:
    world = World()
    world.add(spec(retries=2, retry_on=("exit:75",)))
    waits = []
    for _ in range(2):
        world.start()
        end(world, 0, events.Exited(75))
        state = world.job(0).state
        assert isinstance(state, states.Delayed)
        waits.append(state.until - world.now)
        assert "it asked to be run later" in (world.why(0) or "")
        world.wait(state.until - world.now)
    assert waits == [60.0, 120.0]
    world.start()
    end(world, 0, events.Exited(75))
    assert world.state(0) is StateName.FAILED


def test_a_job_out_of_shared_gpu_memory_is_retried_once_alone() -> None:
    world = busy("0 0", pause_after=1, jobs=4)
    full(world, 0)
    assert world.state(0) is StateName.QUEUED
    assert world.mode() is events.Mode.RUNNING
    assert world.job(0).failures == 0
    assert "alone on its GPU" in history(world, 0)
    assert world.start() == [2], "it waits for an empty card, others need not"
    assert "to itself" in (world.why(0) or "")
    world.end(1)
    world.end(2)
    assert world.start() == [0], "first in the queue, and alone"
    assert world.place() == []
    full(world, 0)
    assert world.state(0) is StateName.FAILED, "once"
    assert world.mode() is events.Mode.PAUSED, "and now it counts"


def test_two_jobs_that_ran_out_of_memory_together_are_both_retried() -> None:
    world = busy("0 0", jobs=2)
    full(world, 0)
    world.scheduler = restored(world.scheduler)
    full(world, 1)
    assert world.states([0, 1]) == {StateName.QUEUED}
    assert world.start() == [0]
    world.end(0)
    assert world.start() == [1]


def test_a_new_scheduler_decides_the_same_about_an_unsaved_end() -> None:
    world = busy("0 0", jobs=2)
    heir = restored(world.scheduler)
    full(world, 0)
    world.scheduler = heir
    full(world, 0)
    assert world.state(0) is StateName.QUEUED
    assert restored(world.scheduler).book[0].request.alone


@pytest.mark.parametrize(
    ("gpus", "on_oom"),
    [("0", OnOom.ALONE), ("0 1", OnOom.ALONE), ("cpu cpu", OnOom.ALONE), ("0 0", OnOom.FAIL)],
)
def test_out_of_memory_alone_on_the_gpu_or_with_on_oom_fail_is_a_failure(gpus: str, on_oom: OnOom) -> None:
    world = busy(gpus, *[spec(on_oom=on_oom)] * 2)
    full(world, 0)
    assert world.state(0) is StateName.FAILED


def test_out_of_memory_beside_an_external_process_is_retried_alone() -> None:
    world = busy("0", spec())
    world.do(events.DevicesSeen({"0": DeviceFacts(crowded=True, blocked="used by alice")}))
    full(world, 0)
    assert world.state(0) is StateName.QUEUED
    assert world.place() == []
    world.do(events.DevicesSeen({"0": DeviceFacts()}))
    assert world.place() == [0]


def test_on_oom_bigger_waits_for_a_gpu_with_more_memory() -> None:
    world = World("0 1")
    seen(world, g0=24 * GIB, g1=48 * GIB)
    world.add(spec(on_oom=OnOom.BIGGER), spec())
    world.start()
    full(world, 0)
    assert "on a larger GPU" in history(world, 0)
    assert world.place() == []
    assert "more than 24 GiB" in (world.why(0) or "").replace("24.0", "24")
    world.end(1)
    assert world.start() == [0]
    assert world.gpus(0) == ("1",)


def test_on_oom_bigger_runs_alone_if_no_gpu_has_more_memory() -> None:
    world = World("0 0 1")
    seen(world, g0=24 * GIB, g1=24 * GIB)
    world.add(*[spec(on_oom=OnOom.BIGGER, devices=("0",))] * 2)
    world.start()
    full(world, 0)
    assert world.job(0).request.larger_than is None
    assert world.job(0).request.alone


def test_a_rerun_and_an_edited_request_forget_the_lack_of_memory() -> None:
    world = busy("0 0", jobs=2)
    full(world, 0)
    world.do(events.Edit(job=0, spec=replace(world.job(0).spec, request=Request(memory=5))))
    assert not world.job(0).request.alone
    world.start()
    full(world, 0)
    world.end(1)
    world.start()
    full(world, 0)
    assert world.state(0) is StateName.FAILED
    world.do(events.Rerun(job=0))
    assert not world.job(0).request.alone


def test_a_job_waiting_to_run_alone_reserves_one_gpu_only() -> None:
    world = busy("0 0 1 1", jobs=4)
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


def test_learned_memory_is_reserved_for_the_group() -> None:
    world = World("0 0 0")
    seen(world, g0=24 * GIB)
    world.add(learner(group="a"), learner(group="a"), learner(group="a"))
    world.do(events.SetSlots(slots("0")))
    world.start()
    end(world, 0, events.Exited(0), usage=Usage(gpu_peak_memory=10 * GIB, gpu_peak_memory_each=10 * GIB))
    assert "reserves 11" in history(world, 0)
    world.do(events.SetSlots(slots("0 0 0")))
    assert world.start() == [1, 2], "two times 11 GiB fit into 24"
    world.scheduler = restored(world.scheduler)
    seen(world, g0=24 * GIB)
    world.add(learner(group="a"), learner(group="b", priority=40))
    assert world.start() == [4], "another group has learned nothing yet"
    world.end(4)
    assert world.place() == []
    assert "11 GiB (learned from its group)" in (world.why(3) or "").replace("11.0", "11")


def test_nothing_is_learned_from_failures_or_without_measurements() -> None:
    world = busy("0", learner(), learner())
    end(world, 0, events.Exited(1), usage=Usage(gpu_peak_memory_each=10))
    world.start()
    end(world, 1, events.Exited(0), usage=Usage())
    assert world.scheduler.learned == {}


HOUR = 3600.0


def hanging(world: World, on_hang: OnHang = OnHang.NOTIFY, hang_after: float = 1800.0) -> JobId:
    (job,) = world.add(spec(on_hang=on_hang, hang_after=hang_after))
    world.start()
    return job


def quiet(world: World, job: JobId, seconds: float, *, may_end: bool = False) -> None:
    """The job shows no activity for this long."""
    since = world.now
    world.now += seconds
    world.do(events.Silence(job=job, attempt=world.job(job).issued, since=since, may_end=may_end))


def hung(world: World, job: JobId) -> str:
    return silence(world.scheduler.snapshot(), world.job(job), world.now)


def test_a_job_counts_as_hung_after_hang_after_and_never_if_that_is_0() -> None:
    world = World()
    job = hanging(world)
    quiet(world, job, 1799.0)
    assert hung(world, job) == ""
    world.do(events.Silence(job=job, attempt=1, since=world.now - 2040.0))
    assert hung(world, job) == "silent 34:00"
    never = World()
    job = hanging(never, hang_after=0.0)
    quiet(never, job, 100 * HOUR)
    assert hung(never, job) == ""


def test_a_job_that_is_active_again_is_no_longer_hung() -> None:
    world = World()
    job = hanging(world)
    quiet(world, job, 2040.0)
    world.do(events.Silence(job=job, attempt=1, since=None))
    assert hung(world, job) == ""
    texts = [moment.text for moment in world.scheduler.unsaved_history if moment.job == job]
    assert any(text.startswith("no output or activity for 34 min") for text in texts)
    assert "active again after 34 min of silence" in texts


def test_a_suspended_job_is_not_hung() -> None:
    world = World()
    job = hanging(world)
    quiet(world, job, HOUR)
    world.do(events.Suspend(job=job))
    quiet(world, job, HOUR)
    assert hung(world, job) == ""
    world.do(events.Continue(job=job))
    assert hung(world, job) == ""


@pytest.mark.parametrize(("on_hang", "after"), [(OnHang.KILL, states.TimedOut), (OnHang.REQUEUE, states.Delayed)])
def test_a_hung_job_is_stopped_once_its_stack_trace_is_saved(on_hang: OnHang, after: type) -> None:
    world = World()
    job = hanging(world, on_hang)
    quiet(world, job, HOUR)
    assert isinstance(world.job(job).state, states.Running), "first its stack"
    world.do(events.Silence(job=job, attempt=1, since=world.now - HOUR, may_end=True))
    assert isinstance(world.job(job).state, states.Stopping)
    world.do(events.AttemptEnded(job=job, attempt=1, outcome=events.Exited(143), at=world.now))
    assert isinstance(world.job(job).state, after)
    assert "no activity for 1800 s" in (world.job(job).attempts[-1].reason or "")


def test_the_start_of_a_hang_is_stored_and_follows_the_clock() -> None:
    world = World()
    job = hanging(world)
    quiet(world, job, HOUR)
    world.now += 10 * HOUR
    world.do(events.ClockStepped(10 * HOUR))
    assert hung(world, job) == "silent 1:00:00"
    assert silence(restored(world.scheduler).snapshot(), world.job(job), world.now) == "silent 1:00:00"


BEFORE = ActivitySample(at=100.0, output=(5,), gpu_age=0.5, gpu_work=1.0, cpu_seconds=7.0)


@pytest.mark.parametrize(
    ("now", "life"),
    [
        (replace(BEFORE, at=110.0), 50.0),
        (replace(BEFORE, at=110.0, output=(6,), output_age=3.0), 107.0),
        (replace(BEFORE, at=110.0, output=(6,), output_age=5000.0), 100.0),
        (replace(BEFORE, at=110.0, output=(6,), output_age=-9.0), 110.0),
        (replace(BEFORE, at=110.0, gpu_work=2.0, gpu_work_age=1.0), 109.0),
        (replace(BEFORE, at=110.0, cpu_seconds=17.0), 50.0),
        (replace(BEFORE, at=110.0, gpu_age=None, cpu_seconds=17.0), 110.0),
        (replace(BEFORE, at=110.0, gpu_age=60.0, cpu_seconds=17.0), 110.0),
        (replace(BEFORE, at=110.0, gpu_age=None, cpu_seconds=7.05), 50.0),
        (replace(BEFORE, at=110.0, gpu_age=None, cpu_seconds=None), 110.0),
    ],
    ids=[
        "nothing at all",
        "it printed",
        "a file with an old date",
        "a file with a future date",
        "GPU load",
        "CPU time beside a GPU reading does not count",
        "without a GPU reading CPU time counts",
        "an old reading of the driver does not count",
        "very little CPU time does not count",
        "unknown CPU time counts as activity",
    ],
)
def test_activity_is_output_gpu_load_or_cpu_time(now: ActivitySample, life: float) -> None:
    assert last_activity(now, BEFORE, 50.0) == life
