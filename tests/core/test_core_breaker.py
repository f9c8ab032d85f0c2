"""The crash breaker: pauses before the whole queue goes the same way, and not for one odd crash."""

from __future__ import annotations

import pytest
from support.core_world import World, spec

from gputui.core.breaker import Failure, crash_cause, joined
from gputui.core.events import (
    Cause,
    Drain,
    Edit,
    Exited,
    Kill,
    Mode,
    NoRoom,
    NotStarted,
    Outcome,
    Pause,
    PauseKind,
    Rerun,
    Resume,
    Settings,
    Vanished,
)
from gputui.core.job import JobId

TIMM = "ModuleNotFoundError: No module named 'timm'"
OOM = "CUDA out of memory"


def queue(gpus: str = "0", jobs: int = 40, **settings: int) -> World:
    world = World(gpus, **settings)
    world.add_many(jobs)
    return world


def crash(world: World, *signatures: str | None) -> list[JobId]:
    return [world.run(1, signature) for signature in signatures]


def cause(world: World) -> Cause:
    assert world.mode() is Mode.PAUSED
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.kind is PauseKind.CRASHES
    return world.scheduler.cause


def runs(world: World) -> bool:
    return world.mode() is Mode.RUNNING


def test_three_crashes_alike_pause_the_scheduler_and_say_why() -> None:
    world = queue()
    crash(world, TIMM, TIMM)
    assert runs(world)
    crash(world, TIMM)
    assert cause(world) == Cause(PauseKind.CRASHES, f"3 jobs: {TIMM}", world.now, (0, 1, 2), TIMM)
    assert world.start() == []


def test_two_alike_and_another_do_not() -> None:
    world = queue()
    crash(world, TIMM, TIMM, OOM, TIMM, TIMM)
    assert runs(world)
    crash(world, TIMM)
    assert cause(world).jobs == (3, 4, 5)


def test_crashes_whose_log_says_nothing_are_alike_by_their_exit() -> None:
    world = queue()
    crash(world, None, None)
    world.run(2)
    assert runs(world)
    world.run(2)
    world.run(2)
    assert cause(world).message == "3 jobs: exit code 2"


def test_a_success_resets() -> None:
    world = queue()
    crash(world, TIMM, TIMM)
    world.run(0)
    crash(world, TIMM, TIMM)
    assert runs(world)


@pytest.mark.parametrize(("gpus", "limit"), [("0", 6), ("0 1 2 3", 8)])
def test_many_crashes_of_any_kind_pause_too(gpus: str, limit: int) -> None:
    world = queue(gpus)
    for number in range(limit - 1):
        crash(world, f"way {number % 2}")
    assert runs(world)
    crash(world, "the last")
    message = f"{limit} jobs crashed in a row, in 3 ways; the last: the last"
    assert (cause(world).message, cause(world).signature) == (message, None)


def test_never_means_never() -> None:
    world = queue(pause_after=0)
    crash(world, *[TIMM] * 20)
    assert runs(world)


def test_one_means_any_crash() -> None:
    world = queue(pause_after=1)
    world.run(0)
    crash(world, TIMM)
    assert cause(world).message == f"job #1 crashed: {TIMM}"


def test_retried_attempts_do_not_count_but_the_last_one_does() -> None:
    world = World("0", pause_after=1)
    world.add(spec(retries=1))
    crash(world, TIMM)
    assert runs(world)
    world.wait(2)
    crash(world, TIMM)
    assert cause(world).jobs == (0,)


@pytest.mark.parametrize("outcome", [Vanished("rebooted"), NoRoom("the disk is full")])
def test_what_is_not_the_jobs_fault_does_not_count(outcome: Outcome) -> None:
    world = queue(pause_after=1)
    for _ in range(8):
        world.run(outcome)
        world.wait(5)
    assert runs(world)


def test_a_kill_by_the_user_does_not_count() -> None:
    world = queue(pause_after=1)
    for _ in range(8):
        job = world.start()[0]
        world.do(Kill(job=job))
        world.end(job, 143)
    world.do(Kill(job=20))
    assert runs(world)


def test_jobs_that_could_not_be_started_or_ran_out_of_time_count() -> None:
    world = queue(pause_after=2)
    world.run(NotStarted("its folder is gone"))
    world.run(NotStarted("its folder is gone"))
    assert cause(world).message == "2 jobs: its folder is gone"
    world.do(Resume())
    for job in (2, 3):
        world.do(Edit(job=job, spec=spec(timeout=5.0)))
        world.start()
        world.wait(5)
        world.end(job, 143)
    assert cause(world).message == "2 jobs: timed out after 5 s"


def test_the_same_job_crashing_again_is_one_job() -> None:
    world = World("0", pause_after=2)
    world.add()
    for _ in range(3):
        crash(world, TIMM)
        world.do(Rerun(job=0))
    assert runs(world)


def test_a_rerun_resets() -> None:
    world = queue()
    crash(world, TIMM, TIMM)
    world.do(Rerun(job=0))
    crash(world, TIMM, TIMM)
    assert runs(world)


def test_only_jobs_that_started_after_the_resume_count() -> None:
    world = queue("0 1 2 3 4 5")
    started = world.start()
    for job in started[:3]:
        world.end(job, 1, TIMM)
    cause(world)
    world.now += 1
    world.do(Resume())
    for job in started[3:]:
        world.end(job, 1, TIMM)
    assert runs(world)
    world.start()
    for job in range(6, 9):
        world.end(job, 1, TIMM)
    assert cause(world).jobs == (6, 7, 8)


def paused_with_more_running() -> World:
    """#0, #1 and #2 crashed alike; five more run."""
    world = queue("0 1 2 3 4 5 6 7")
    world.start()
    for job in range(3):
        world.end(job, 1, TIMM)
    return world


def test_crashes_that_arrive_while_paused_join_the_cause() -> None:
    world = paused_with_more_running()
    since = cause(world).since
    world.now += 5
    world.end(3, 1, TIMM)
    assert cause(world) == Cause(PauseKind.CRASHES, f"4 jobs: {TIMM}", since, (0, 1, 2, 3), TIMM)


def test_other_crashes_join_without_being_called_alike() -> None:
    world = paused_with_more_running()
    world.end(3, 1, OOM)
    assert cause(world).message == f"3 jobs: {TIMM}; since then #3: {OOM}"
    world.end(4, 1, TIMM)
    assert cause(world).message == f"4 jobs: {TIMM}; since then #3: {OOM}"
    world.end(5, 9)
    text = f"4 jobs: {TIMM}; since then 2 others, the last #5: exit code 9"
    assert cause(world).message == text
    assert cause(world).jobs == (0, 1, 2, 3, 4, 5)
    world.end(6, 0)
    assert cause(world).message == text


def test_crashes_join_a_cause_of_many_kinds() -> None:
    world = queue("0 1 2 3", pause_after=3)
    for number in range(8):
        crash(world, str(number))
    running = next(iter(world.scheduler.book.active))
    world.end(running, 1, "0")
    assert cause(world).message == "9 jobs crashed in a row, in 8 ways; the last: 0"


def test_a_pause_by_the_user_is_not_turned_into_one_by_crashes() -> None:
    world = queue("0 1 2")
    started = world.start()
    world.do(Pause())
    for job in started:
        world.end(job, 1, TIMM)
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.kind is PauseKind.USER
    world.now += 1
    world.do(Resume())
    assert runs(world)


def test_leaving_does_not_hide_why_the_scheduler_is_paused() -> None:
    world = paused_with_more_running()
    world.do(Pause(PauseKind.INTERRUPTED))
    assert cause(world).signature == TIMM


def test_a_drain_is_not_cut_short_by_crashes() -> None:
    world = queue("0 1 2 3")
    started = world.start()
    world.do(Drain())
    for job in started:
        world.end(job, 1, TIMM)
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.kind is PauseKind.DRAINED


def test_a_higher_limit_outlives_a_long_row() -> None:
    world = queue(pause_after=20)
    crash(world, *[TIMM] * 19)
    assert runs(world)
    crash(world, TIMM)
    assert len(cause(world).jobs) == 20


def test_the_row_is_remembered_by_a_new_owner() -> None:
    world = queue()
    crash(world, TIMM, TIMM)
    world.scheduler = type(world.scheduler)(world.scheduler.record(), world.scheduler.book)
    crash(world, TIMM)
    assert cause(world).jobs == (0, 1, 2)


def test_a_limit_below_zero_is_refused() -> None:
    world = queue()
    assert "-1" in world.refused(Settings(pause_after=-1))
    assert world.run(Exited(1)) == 0
    assert runs(world)


def test_the_cause_is_told_in_the_words_of_a_job_and_compared_without_its_numbers() -> None:
    failures = tuple(Failure(job, "bad shape NxN", f"bad shape {job}x9") for job in (1, 2, 3))
    cause = crash_cause(failures, 5.0)
    assert (cause.message, cause.signature) == ("3 jobs: bad shape 3x9 · +2 variants", "bad shape NxN")
    other = Failure(4, "exit code N", "exit code 7")
    assert joined(cause, (*failures, other)).message.endswith("bad shape 3x9 · +2 variants; since then #4: exit code 7")
