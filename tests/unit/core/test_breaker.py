"""The breaker: pauses after repeated errors, probes, and when jobs start again."""

from __future__ import annotations

from typing import Any

import pytest
from support.core import World, busy, slots, spec

from gputui.core import events
from gputui.core.breaker import LONGEST_WAIT, Failure, Scope, ScopeState, error_cause, joined
from gputui.core.job import CrashKind, Job, JobId, JobSpec, StateName, Terminal
from gputui.views.status import QueueStatus, StatusWord, has_pending_work, queue_status

TIMM = "ModuleNotFoundError: No module named 'timm'"
OOM = "CUDA out of memory"


def queue(gpus: str = "0", jobs: int = 40, **settings: int) -> World:
    world = World(gpus, **settings)
    world.add_many(jobs)
    return world


def crash(world: World, *signatures: str | None) -> list[JobId]:
    return [world.run(1, signature) for signature in signatures]


def cause(world: World) -> events.Cause:
    assert world.mode() is events.Mode.PAUSED
    assert world.cause().kind is events.PauseKind.CRASHES
    return world.cause()


def runs(world: World) -> bool:
    return world.mode() is events.Mode.RUNNING


def test_three_equal_errors_pause_the_scheduler() -> None:
    world = queue()
    crash(world, TIMM, TIMM, TIMM)
    assert cause(world) == events.Cause(events.PauseKind.CRASHES, f"3 jobs failed: {TIMM}", world.now, (0, 1, 2), TIMM)
    assert world.start() == []


@pytest.mark.parametrize(
    ("ends", "pause_after", "jobs"),
    [
        ([TIMM] * 2, 3, None),
        ([TIMM, TIMM, OOM, TIMM, TIMM], 3, None),
        ([TIMM, TIMM, OOM, TIMM, TIMM, TIMM], 3, (3, 4, 5)),
        ([TIMM, TIMM, 0, TIMM, TIMM], 3, None),
        ([1, 1, 2, 2], 3, None),
        ([1, 1, 2, 2, 2], 3, (2, 3, 4)),
        ([TIMM] * 20, 0, None),
        ([0, TIMM], 1, (1,)),
        ([TIMM] * 19, 20, None),
        ([TIMM] * 20, 20, tuple(range(20))),
    ],
    ids=[
        *("two", "another in between", "three in a row", "a success in between", "other exit codes", "exit codes"),
        *("never", "any", "19 of 20", "20"),
    ],
)
def test_the_same_error_in_a_row_pauses(
    ends: list[int | str], pause_after: int, jobs: tuple[JobId, ...] | None
) -> None:
    world = queue(pause_after=pause_after)
    for end in ends:
        world.run(1, end) if isinstance(end, str) else world.run(end)
    assert (world.cause().jobs if jobs else world.scheduler.cause) == jobs


def test_a_cause_names_the_only_job_or_the_common_exit_code() -> None:
    world = queue(pause_after=1)
    crash(world, TIMM)
    assert cause(world).message == f"#0 failed: {TIMM}"
    world = queue()
    crash(world, None, None, None)
    assert cause(world).message == "3 jobs failed: exit code 1"


@pytest.mark.parametrize(("gpus", "limit"), [("0", 6), ("0 1 2 3", 8), (" ".join(map(str, range(40))), 32)])
def test_many_different_errors_pause_too(gpus: str, limit: int) -> None:
    world = queue(gpus, jobs=80)
    for number in range(limit - 1):
        crash(world, f"way {number % 2}")
    assert runs(world)
    crash(world, "the last")
    message = f"{limit} jobs failed in a row with 3 different errors; last: the last"
    assert (cause(world).message, cause(world).signature) == (message, None)


def test_only_the_last_retry_counts() -> None:
    world = World("0", pause_after=1)
    world.add(spec(retries=1))
    crash(world, TIMM)
    assert runs(world)
    world.wait(2)
    crash(world, TIMM)
    assert cause(world).jobs == (0,)


@pytest.mark.parametrize("outcome", [events.Vanished("rebooted"), events.NoRoom("the disk is full")])
def test_lost_attempts_do_not_count(outcome: events.Outcome) -> None:
    world = queue(pause_after=1)
    for _ in range(8):
        world.run(outcome)
        world.wait(5)
    assert runs(world)


def test_a_kill_by_the_user_does_not_count() -> None:
    world = queue(pause_after=1)
    for _ in range(8):
        job = world.start()[0]
        world.do(events.Kill(job=job))
        world.end(job, 143)
    world.do(events.Kill(job=20))
    assert runs(world)


def test_refused_and_timed_out_jobs_count() -> None:
    world = queue(pause_after=2)
    world.run(events.NotStarted("its directory is gone"))
    world.run(events.NotStarted("its directory is gone"))
    assert cause(world).message == "2 jobs failed: its directory is gone"
    world.do(events.Resume())
    for job in (2, 3):
        world.do(events.Edit(job=job, spec=spec(timeout=5.0)))
        world.start()
        world.wait(5)
        world.end(job, 143)
    assert cause(world).message == "2 jobs failed: timed out after 5 s"


def test_repeated_failures_of_one_job_do_not_pause() -> None:
    world = World("0", pause_after=2)
    world.add()
    for _ in range(3):
        crash(world, TIMM)
        world.do(events.Rerun(job=0))
    assert runs(world)


def test_only_jobs_that_started_after_the_resume_count() -> None:
    world = queue("0 1 2 3 4 5")
    started = world.start()
    for job in started[:3]:
        world.end(job, 1, TIMM)
    cause(world)
    world.now += 1
    world.do(events.Resume())
    for job in started[3:]:
        world.end(job, 1, TIMM)
    assert runs(world)
    world.start()
    for job in range(6, 9):
        world.end(job, 1, TIMM)
    assert cause(world).jobs == (6, 7, 8)


def paused_with_more_running() -> World:
    """#0, #1 and #2 failed with the same error; five more are running."""
    world = queue("0 1 2 3 4 5 6 7")
    world.start()
    for job in range(3):
        world.end(job, 1, TIMM)
    return world


def test_other_errors_are_added_to_the_cause() -> None:
    world = paused_with_more_running()
    world.end(3, 1, OOM)
    assert cause(world).message == f"3 jobs failed: {TIMM}; since then #3: {OOM}"
    world.end(4, 1, TIMM)
    assert cause(world).message == f"4 jobs failed: {TIMM}; since then #3: {OOM}"
    world.end(5, 9)
    text = f"4 jobs failed: {TIMM}; since then 2 more, last: #5: exit code 9"
    assert cause(world).message == text
    assert cause(world).jobs == (0, 1, 2, 3, 4, 5)
    world.end(6, 0)
    assert cause(world).message == text


def test_errors_join_a_cause_with_several_errors() -> None:
    world = queue("0 1 2 3", pause_after=3)
    for number in range(8):
        crash(world, str(number))
    running = next(iter(world.scheduler.book.active))
    world.end(running, 1, "0")
    assert cause(world).message == "9 jobs failed in a row with 8 different errors; last: 0"


def test_a_cause_shows_the_message_and_compares_the_signature() -> None:
    failures = tuple(Failure(job, "bad shape NxN", f"bad shape {job}x9") for job in (1, 2, 3))
    cause = error_cause(failures, 5.0)
    assert (cause.message, cause.signature) == ("3 jobs failed: bad shape 3x9 · +2 variants", "bad shape NxN")
    other = Failure(4, "exit code N", "exit code 7")
    assert joined(cause, (*failures, other)).message.endswith("bad shape 3x9 · +2 variants; since then #4: exit code 7")


CLOSED, OPEN, HALF = ScopeState.RUNNING, ScopeState.PAUSED, ScopeState.PROBING
SHAPES = "RuntimeError: shapes cannot be multiplied"
PROBE = 600.0


def crashing(slots: str = "0 1 2 3", jobs: int = 10, **settings: Any) -> World:
    """All slots are busy; the other jobs are waiting."""
    world = busy(slots, *(spec(f"train --model vit --seed {number}") for number in range(jobs)), **settings)
    world.now += 30
    return world


def opened(**settings: Any) -> World:
    """#0, #1 and #2 failed with the same error after 30 s; #3 is running, the others are waiting."""
    world = crashing(**settings)
    for job in range(3):
        world.end(job, 1, SHAPES)
    assert scope(world).state is OPEN
    return world


def halved(**settings: Any) -> World:
    """The same with #4 as the running probe."""
    world = opened(**settings)
    world.wait(PROBE)
    assert world.start() == [4]
    assert scope(world).state is HALF
    return world


def scope(world: World, group: str | None = None) -> Scope:
    known = world.scheduler.breaker.scope_of(group)
    return known if known is not None else Scope(group=group)


def tries_in(world: World) -> float | None:
    at = scope(world).probe_at
    return at - world.now if at is not None else None


# a counted failure at the limit


def test_at_the_limit_a_closed_scope_opens_with_the_configured_wait() -> None:
    world = opened(probe=120.0)
    assert (scope(world).wait, tries_in(world), world.mode()) == (120.0, 120.0, events.Mode.PAUSED)
    assert world.start() == []


def test_without_a_success_the_next_pause_is_twice_as_long() -> None:
    world = halved()
    world.wait(90)  # three times the 30 s that the crashed ones lived
    assert scope(world).state is CLOSED
    crash_three_more(world)
    assert (scope(world).state, scope(world).wait) == (OPEN, 2 * PROBE)


def crash_three_more(world: World) -> None:
    for job in (5, 6, 7):
        world.start()
        world.end(job, 1, SHAPES)


def test_a_failure_in_an_open_scope_joins_the_cause() -> None:
    world = opened()
    world.wait(100)
    world.end(3, 1, SHAPES)
    assert (world.cause().jobs, tries_in(world)) == ((0, 1, 2, 3), PROBE - 100)


def test_a_failure_during_a_probe_joins_the_cause() -> None:
    world = halved()
    world.end(3, 1, "another")
    assert (scope(world).state, scope(world).probe is not None) == (HALF, True)
    assert world.cause().message == f"3 jobs failed: {SHAPES}; since then #3: another"


@pytest.mark.parametrize("signature", [SHAPES, "another"], ids=["alike", "unlike"])
def test_a_failed_probe_doubles_the_wait(signature: str) -> None:
    world = halved()
    world.end(4, 1, signature)
    assert (scope(world).state, scope(world).wait, tries_in(world)) == (OPEN, 2 * PROBE, 2 * PROBE)
    assert world.cause().jobs == (0, 1, 2, 4)


def test_a_failed_probe_counts_even_with_retries_left() -> None:
    world = opened()
    world.do(events.Edit(job=4, spec=spec("train --model vit --seed 4", retries=2)))
    world.wait(PROBE)
    world.start()
    world.end(4, 1, SHAPES)
    assert (world.state(4), scope(world).state, scope(world).wait) == ("delayed", OPEN, 2 * PROBE)


def test_the_wait_never_exceeds_two_hours_and_none_stays_none() -> None:
    world = halved()
    for _ in range(6):
        (tried,) = world.scheduler.book.active - {3}
        world.end(tried, 1, SHAPES)
        world.wait(LONGEST_WAIT)
        world.start()
    assert scope(world).wait == LONGEST_WAIT
    at_once = opened(probe=0.0)
    for tried in (4, 5, 6):
        assert at_once.start() == [tried]
        at_once.end(tried, 1, SHAPES)
        assert (scope(at_once).wait, scope(at_once).due) == (0.0, True)


def test_without_probe_setting_no_probe_starts() -> None:
    world = opened(probe=None)
    world.wait(10 * LONGEST_WAIT)
    assert world.start() == []
    world.end(3)
    assert world.start() == []


# a success


def test_a_success_clears_the_failures_of_its_group_only() -> None:
    world = World("0")
    world.add(*(spec(group="ab"[number % 2]) for number in range(20)))
    for number in range(5):
        world.run(1 - number % 2, SHAPES)
    assert (scope(world, "a").state, world.mode()) == (OPEN, events.Mode.RUNNING)
    assert world.start() == [5]


def test_a_success_resets_the_wait() -> None:
    world = halved()
    world.wait(90)
    world.end(4)
    crash_three_more(world)
    assert (scope(world).state, scope(world).wait) == (OPEN, PROBE)


def test_a_success_in_an_open_scope_starts_a_probe() -> None:
    world = opened()
    world.end(3)
    assert world.start() == [4]
    assert scope(world).state is HALF


def test_a_successful_probe_closes_the_scope() -> None:
    world = halved()
    world.end(4)
    assert (world.scheduler.breaker.scopes, world.mode(), world.scheduler.cause) == ((), events.Mode.RUNNING, None)
    assert world.start() == [5, 6, 7]
    world.end(3, 1, SHAPES)
    assert world.scheduler.breaker.streak.failures == (), "it began before"


# probe_at comes


def test_a_due_probe_starts_alone() -> None:
    world = opened()
    world.wait(PROBE - 1)
    assert world.start() == []
    assert world.scheduler.next_wakeup() == world.now + 1
    world.wait(1)
    assert world.start() == [4]
    assert world.start() == []
    assert queue_status(world.scheduler.snapshot()).word is StatusWord.PROBING
    assert queue_status(world.scheduler.snapshot()).awaits == "#4 alone"


def test_a_due_probe_waits_for_a_job_that_fits() -> None:
    world = opened()
    for job in range(4, 10):
        world.do(events.Hold(job=job))
    world.wait(PROBE)
    assert world.start() == []
    assert world.scheduler.next_wakeup() is None
    world.do(events.Release(job=7))
    assert world.start() == [7]


@pytest.mark.parametrize("waits", [spec(after=(3,)), spec(hold=True), spec(not_before=99999.0)])
def test_blocked_held_and_delayed_jobs_are_not_probes(waits: JobSpec) -> None:
    world = crashing(jobs=4)
    world.add(waits)
    for job in range(3):
        world.end(job, 1, SHAPES)
    world.wait(PROBE)
    assert world.start() == []


# the probe outlives


def test_a_probe_that_outlives_the_failed_jobs_closes_the_scope() -> None:
    world = halved()
    assert world.scheduler.next_wakeup() == world.now + 90
    world.wait(89)
    assert scope(world).state is HALF
    world.wait(1)
    assert (scope(world).state, scope(world).wait, world.mode()) == (CLOSED, PROBE, events.Mode.RUNNING)
    assert world.start() == [5, 6]
    world.end(4, 1, SHAPES)
    assert world.scheduler.breaker.streak.failures == (), "its later crash does not count"


def test_a_probe_runs_for_at_least_a_minute() -> None:
    world = crashing()
    world.now -= 29
    for job in range(3):
        world.end(job, 1, SHAPES)
    assert scope(world).life == 60


def test_suspended_time_does_not_count_for_a_probe() -> None:
    world = halved()
    world.wait(50)
    world.do(events.Suspend(job=4))
    assert world.scheduler.next_wakeup() is None
    world.wait(1000)
    assert scope(world).state is HALF
    world.do(events.Continue(job=4))
    world.wait(39)
    assert scope(world).state is HALF
    world.wait(1)
    assert scope(world).state is CLOSED


# the probe ends otherwise


def killed(world: World) -> None:
    world.do(events.Kill(job=4))
    world.end(4, 143)


def put_back(world: World) -> None:
    world.do(events.Requeue(job=4))
    world.end(4, 143)


def card_was_full(world: World) -> None:
    attempt = world.job(4).issued
    world.do(
        events.AttemptEnded(job=4, attempt=attempt, outcome=events.Exited(1), at=world.now, kind=CrashKind.OOM_GPU)
    )
    assert world.state(4) == "queued"


@pytest.mark.parametrize("how", [killed, put_back, lambda world: world.end(4, events.Vanished("gone")), card_was_full])
def test_a_probe_without_a_verdict_keeps_the_wait(how: Any) -> None:
    world = halved(max_gpus=None)
    if how is card_was_full:
        world = busy("0 0 0 0", jobs=10)
        world.now += 30
        for job in range(3):
            world.end(job, 1, SHAPES)
        world.wait(PROBE)
        assert world.start() == [4]
    how(world)
    assert (scope(world).state, scope(world).wait, tries_in(world)) == (OPEN, PROBE, PROBE)


@pytest.mark.parametrize("outcome", [events.NeverRan(), events.NoRoom("no processes")])
def test_a_probe_that_never_ran_is_due_again(outcome: events.Outcome) -> None:
    world = halved()
    world.end(4, outcome)
    assert (scope(world).state, scope(world).due, scope(world).wait) == (OPEN, True, PROBE)
    world.wait(5)
    assert len(world.start()) == 1


# resume


@pytest.mark.parametrize("begin", [opened, halved])
def test_resume_closes_all_scopes(begin: Any) -> None:
    world = begin()
    world.now += 1
    world.do(events.Resume())
    assert (world.scheduler.breaker.scopes, world.mode()) == ((), events.Mode.RUNNING)
    assert world.start()
    if begin is halved:
        world.end(4, 1, SHAPES)
        assert world.scheduler.breaker.streak.failures == ()


# a pause by the user, a drain, a stop, an interrupt

LEAVING: list[events.Event] = [
    events.Pause(),
    events.Drain(),
    events.Pause(events.PauseKind.STOPPED),
    events.Pause(events.PauseKind.INTERRUPTED),
]


@pytest.mark.parametrize("event", LEAVING, ids=str)
@pytest.mark.parametrize("begin", [opened, halved])
def test_after_a_pause_by_the_user_no_probe_starts(event: events.Event, begin: Any) -> None:
    world = begin()
    world.do(event)
    cause = world.scheduler.cause
    assert cause is not None
    assert (cause.kind, scope(world).state, scope(world).probe_at) == (events.PauseKind.CRASHES, OPEN, None)
    assert cause.on_purpose is (event != events.Pause())
    world.wait(10 * LONGEST_WAIT)
    world.end(3)
    assert world.start() == [], "a success of a job begun earlier does not undo it"
    assert "the scheduler is already paused" in world.refused(events.Pause())


def test_a_pause_by_the_user_lets_a_running_probe_end() -> None:
    world = halved()
    world.do(events.Pause())
    world.end(4, 1, SHAPES)
    assert (world.cause().jobs, scope(world).wait, scope(world).probe_at) == ((0, 1, 2, 4), PROBE, None)
    other = halved()
    other.do(events.Pause())
    other.end(4)
    assert (scope(other).state, other.start()) == (OPEN, [])


@pytest.mark.parametrize("event", LEAVING, ids=str)
def test_errors_during_a_pause_by_the_user_open_no_scope(event: events.Event) -> None:
    world = crashing()
    world.do(event)
    for job in range(4):
        world.end(job, 1, SHAPES)
    assert world.scheduler.breaker.scopes == ()
    assert world.mode() is events.Mode.PAUSED


@pytest.mark.parametrize("event", LEAVING, ids=str)
def test_a_pause_by_the_user_covers_paused_groups(event: events.Event) -> None:
    world = two_groups()
    world.do(event)
    world.wait(10 * LONGEST_WAIT)
    for job in sorted(world.scheduler.book.active):
        world.end(job)
    assert (world.start(), scope(world, "a").state) == ([], OPEN)
    world.do(events.Resume())
    assert world.start()


# r, R, R R


def test_a_rerun_clears_the_failures_of_its_group() -> None:
    world = crashing()
    world.end(0, 1, SHAPES)
    world.end(1, 1, SHAPES)
    world.do(events.Rerun(job=0))
    assert world.scheduler.breaker.streak.failures == ()


def test_a_rerun_job_is_the_next_probe() -> None:
    world = opened()
    world.do(events.Rerun(job=1))
    assert world.start() == [1]
    assert scope(world).state is HALF


def test_after_a_pause_by_the_user_a_rerun_still_starts_a_probe() -> None:
    world = opened()
    world.do(events.Pause(events.PauseKind.INTERRUPTED))
    world.do(events.Rerun(job=1))
    assert world.start() == [1]
    world.end(1, 1, SHAPES)
    assert (scope(world).state, scope(world).probe_at) == (OPEN, None)


def rerun(world: World, *jobs: JobId) -> None:
    for job in jobs:
        world.do(events.Rerun(job=job))
    world.do(events.TryFirst(jobs))


@pytest.mark.parametrize("begin", [opened, crashing])
def test_one_of_many_rerun_jobs_is_probed_first(begin: Any) -> None:
    world = begin(jobs=4) if begin is crashing else begin()
    if begin is crashing:
        for job in range(2):
            world.end(job, 1, SHAPES)
        world.do(events.Settings(pause_after=5))
        world.end(2, 1, SHAPES)
        assert scope(world).state is CLOSED
    world.now += 10
    rerun(world, 2, 0, 1)
    assert world.start() == [2]
    assert scope(world).state is HALF
    world.end(2)
    assert set(world.start()) >= {0, 1}


def test_many_reruns_during_a_probe_are_queued() -> None:
    world = halved()
    rerun(world, 0, 1)
    assert (world.start(), scope(world).state) == ([], HALF)


@pytest.mark.parametrize("begin", [opened, halved])
def test_resume_starts_all_rerun_jobs(begin: Any) -> None:
    world = begin()
    for job in (0, 1, 2):
        world.do(events.Rerun(job=job))
    world.do(events.Resume())
    assert len(world.start()) == (2 if begin is halved else 3)


def test_a_rerun_that_fails_again_keeps_the_others_waiting() -> None:
    world = opened()
    rerun(world, 0, 1, 2)
    world.start()
    world.end(0, 1, SHAPES)
    assert (scope(world).state, world.start(), world.states([1, 2])) == (OPEN, [], {"queued"})
    assert len(world.job(0).attempts) == 2


def test_without_a_breaker_reruns_start_at_once() -> None:
    world = crashing(pause_after=0)
    for job in range(3):
        world.end(job, 1, SHAPES)
    rerun(world, 0, 1, 2)
    assert len(world.start()) == 3


# add, edit, hold, move, slots

NOTHING_TO_IT: list[events.Event] = [
    events.Edit(job=5, spec=spec("other")),
    events.Hold(job=5),
    events.Move(job=6, where=events.MoveTarget.BOTTOM),
    events.SetPriority(job=6, priority=50),
    events.SetSlots(slots("0 1 2 3 4 5")),
]


@pytest.mark.parametrize("begin", [crashing, opened, halved])
def test_commands_on_jobs_and_slots_do_not_change_the_breaker(begin: Any) -> None:
    world = begin()
    before = world.scheduler.breaker
    for event in NOTHING_TO_IT:
        world.do(event)
    world.add(spec("from cron"))
    assert world.scheduler.breaker == before


def test_setting_the_clock_does_not_move_the_next_probe() -> None:
    world = opened()
    world.wait(100)
    world.now += 7200
    world.do(events.ClockStepped(7200))
    assert tries_in(world) == PROBE - 100


# nothing left


def test_a_pause_without_waiting_jobs_is_no_pending_work() -> None:
    world = crashing(jobs=4)
    for job in range(3):
        world.end(job, 1, SHAPES)
    world.end(3)
    snapshot = world.scheduler.snapshot()
    assert snapshot.cause is not None
    assert not has_pending_work(snapshot)


def test_a_coming_probe_is_pending_work() -> None:
    world = opened()
    world.do(events.Kill(job=3))
    world.end(3, 143)
    assert has_pending_work(world.scheduler.snapshot())
    world.do(events.Settings(probe=None))
    assert not has_pending_work(world.scheduler.snapshot())
    world.do(events.Settings(probe=60.0))
    assert tries_in(world) == 60
    world.do(events.Pause())
    assert not has_pending_work(world.scheduler.snapshot())


# scopes


def two_groups() -> World:
    """Three jobs of group a have failed; b is running."""
    world = busy("0 1 2 3 4 5", *(spec(f"train --seed {number}", group="ab"[number % 2]) for number in range(16)))
    world.now += 30
    for job in (0, 2, 4):
        world.end(job, 1, SHAPES)
    return world


def test_errors_of_one_group_pause_only_that_group() -> None:
    world = two_groups()
    assert (scope(world, "a").state, world.mode(), world.scheduler.cause) == (OPEN, events.Mode.RUNNING, None)
    assert world.start() == [7, 9, 11]
    assert queue_status(world.scheduler.snapshot()).word is StatusWord.RUNNING
    assert queue_status(world.scheduler.snapshot()).awaits == "a is paused"
    assert world.why(6) == f"group paused: 3 jobs failed: {SHAPES}; probe #6 in 10:00"
    assert world.why(13) == "waiting for a GPU: all 6 busy"


def test_failures_of_several_groups_pause_all() -> None:
    world = busy("0 1 2 3", *(spec(group="abc"[number % 3]) for number in range(9)))
    for job in range(3):
        world.end(job, 1, SHAPES)
    assert (scope(world).state, world.mode()) == (OPEN, events.Mode.PAUSED)


def test_errors_of_the_only_waiting_group_pause_all() -> None:
    world = busy("0 1 2 3", *(spec(group="b" if number == 0 else "a") for number in range(9)))
    for job in range(1, 4):
        world.end(job, 1, SHAPES)
    assert scope(world).state is OPEN


def test_scopes_are_probed_independently() -> None:
    world = two_groups()
    world.add_many(3, group="c")
    world.now += 100
    for job in (1, 3, 5):
        world.end(job, 1, "another")
    assert {one.group for one in world.scheduler.breaker.paused_scopes} == {"a", "b"}
    for job in world.start():
        world.end(job)
    world.wait(PROBE - 100)
    assert world.start() == [6]
    world.wait(60)
    world.end(6)
    assert set(world.start()) >= {8, 10}
    world.wait(40)
    assert world.start() == [7]
    assert {one.state for one in world.scheduler.breaker.paused_scopes} == {HALF}


def test_a_pause_of_all_jobs_replaces_those_of_groups() -> None:
    world = two_groups()
    world.add_many(12, group="c")
    world.now += 1
    for job in (1, 3, 5):
        world.end(job)
    started = world.start()
    assert {world.job(job).spec.group for job in started} == {"b", "c"}
    for job in reversed(started):
        world.end(job, 1, "another")
    assert {0, 2, 4} < set(world.cause().jobs)
    assert [one.group for one in world.scheduler.breaker.paused_scopes] == [None]


def test_a_session_is_paused_while_all_waiting_jobs_are() -> None:
    world = two_groups()
    while world.scheduler.book.active:
        for job in sorted(world.scheduler.book.active):
            world.end(job)
        world.start()
    assert queue_status(world.scheduler.snapshot()) == QueueStatus(StatusWord.PAUSED, "a is paused")
    world.wait(PROBE)
    world.start()
    assert queue_status(world.scheduler.snapshot()) == QueueStatus(StatusWord.PROBING, "#6 alone", (6,))


# which one is tried


def tried_of(*commands: str, crashed: str = "train --model vit --bs 256 --seed {}", **more: Any) -> Job:
    """The probe after three jobs of a command have failed."""
    world = busy("0 1 2", *(spec(crashed.format(number)) for number in range(3)))
    world.add(*(spec(command, **more) for command in commands))
    for job in range(3):
        world.end(job, 1, SHAPES)
    world.wait(PROBE)
    (job,) = world.start()
    return world.job(job)


def test_a_probe_differs_from_the_failed_jobs() -> None:
    alike = "train --model vit --bs 256 --seed 7"
    assert tried_of(alike, alike, "train --model swin --bs 256 --seed 1").spec.command.endswith("seed 1")
    assert tried_of(alike, "train --model vit --bs 256 --seed 8").id == 3, "else the first of the queue"
    assert tried_of(alike, "train --model swin --bs 64 --seed 2").spec.command.endswith("seed 2")


def test_a_probe_may_be_of_another_group() -> None:
    world = busy("0 1 2", jobs=3)
    world.add_many(2)
    world.add(spec(group="other", hold=True))
    for job in range(3):
        world.end(job, 1, SHAPES)
    world.do(events.Release(job=5))
    world.wait(PROBE)
    assert world.start() == [5]


def test_parameters_of_succeeded_jobs_are_not_suspect() -> None:
    world = World("0 1 2 3")
    world.add(spec("train --model resnet --lr 0.3 --seed 0"))
    world.run(0)
    world.add(*(spec(f"train --model vit --lr 0.3 --seed {number}") for number in range(1, 4)))
    world.start()
    world.add(spec("train --model vit --lr 0.1 --seed 4"), spec("train --model swin --lr 0.3 --seed 5"))
    for job in range(1, 4):
        world.end(job, 1, SHAPES)
    assert scope(world).common == {"model": "vit"}
    world.wait(PROBE)
    world.start()
    assert world.state(5) == "running"


def test_a_probe_that_fits_is_preferred() -> None:
    world = World("0 1 2")
    world.add_many(2)
    world.add(spec("long"))
    world.start()
    world.add(spec("train --big 1", gpus=3), spec())
    world.do(events.Settings(pause_after=2))
    for job in range(2):
        world.end(job, 1, SHAPES)
    world.wait(PROBE)
    assert world.start() == [4]


# in words


def test_a_waiting_job_names_the_probe_and_its_time() -> None:
    world = opened()
    paused = f"scheduler paused: 3 jobs failed: {SHAPES}"
    assert world.why(5) == f"{paused}; probe #4 in 10:00 or on a success"
    world.wait(PROBE)
    assert world.why(5) == f"{paused}; probe #4 starts when it fits"
    world.start()
    assert world.why(5) == f"{paused}; probe #4 is running"
    world.do(events.Pause())
    assert world.why(5) == f"{paused}; resume or rerun to continue"


def test_the_history_of_a_probe_says_why_it_ran_alone() -> None:
    world = halved()
    world.end(4)
    texts = [moment.text for moment in world.scheduler.unsaved_history if moment.job == 4]
    assert texts == ["runs alone as a probe: 3 jobs failed", "probe succeeded: resuming"]


def test_a_cause_lists_a_limited_number_of_jobs() -> None:
    world = World("0", probe=0.0)
    world.add_many(700)
    for _ in range(700):
        (start,) = world.scheduler.place(world.now)
        end = events.AttemptEnded(job=start.job.id, attempt=1, outcome=events.Exited(1), at=world.now, signature=SHAPES)
        world.scheduler.handle(end, world.now)
    cause = world.scheduler.cause
    assert cause is not None
    assert (cause.count, len(cause.jobs)) == (700, 500)
    assert cause.message == f"700 jobs failed: {SHAPES}"


def test_interactive_jobs_neither_pause_a_queue_nor_probe_it() -> None:
    """Whoever types in a terminal makes errors that say nothing about the jobs that wait."""
    world, terminal = World(pause_after=1), Terminal("a socket")
    world.add(spec(terminal=terminal), spec())
    world.run(1, TIMM)
    assert runs(world)
    crash(world, TIMM)
    assert cause(world).jobs == (1,)
    [interactive] = world.add(spec(terminal=terminal, priority=80))
    [job] = world.add(spec())
    world.wait(LONGEST_WAIT)
    assert world.start() == [job]
    assert world.job(interactive).state.name is StateName.QUEUED
