"""The half-open breaker, cell by cell: what each event makes of a scope that is closed, open, or half open."""

from __future__ import annotations

from typing import Any

import pytest
from support.core_model import restored
from support.core_world import World, lanes, spec

from gputui.core.breaker import LONGEST_WAIT, Scope, ScopeState
from gputui.core.events import (
    AttemptEnded,
    ClockStepped,
    Continue,
    Drain,
    Edit,
    Event,
    Exited,
    Hold,
    Kill,
    Mode,
    Move,
    MoveTarget,
    NeverRan,
    NoRoom,
    Outcome,
    Pause,
    PauseKind,
    Release,
    Requeue,
    Rerun,
    Resume,
    SetLanes,
    SetPriority,
    Settings,
    Suspend,
    TryFirst,
    Vanished,
)
from gputui.core.job import CrashKind, Job, JobId, JobSpec
from gputui.views.status import Standing, Word, goes_on, standing

CLOSED, OPEN, HALF = ScopeState.CLOSED, ScopeState.OPEN, ScopeState.HALF
SHAPES = "RuntimeError: shapes cannot be multiplied"
PROBE = 600.0


def crashing(lanes: str = "0 1 2 3", jobs: int = 10, **settings: Any) -> World:
    """All lanes run; the rest of the jobs wait."""
    world = World(lanes, **settings)
    world.add(*(spec(f"train --model vit --seed {number}") for number in range(jobs)))
    world.start()
    world.now += 30
    return world


def opened(**settings: Any) -> World:
    """#0, #1 and #2 crashed alike after 30 s, #3 runs on, #4 and others wait."""
    world = crashing(**settings)
    for job in range(3):
        world.end(job, 1, SHAPES)
    assert scope(world).state is OPEN
    return world


def halved(**settings: Any) -> World:
    """The same, and #4 is tried."""
    world = opened(**settings)
    world.wait(PROBE)
    assert world.start() == [4]
    assert scope(world).state is HALF
    return world


def scope(world: World, group: str | None = None) -> Scope:
    known = world.scheduler.breaker.at(group)
    return known if known is not None else Scope(group=group)


def tries_in(world: World) -> float | None:
    at = scope(world).probe_at
    return at - world.now if at is not None else None


# a counted failure at the limit


def test_closed_and_a_failure_at_the_limit_opens_with_the_wait_that_is_set() -> None:
    world = opened(probe=120.0)
    assert (scope(world).wait, tries_in(world), world.mode()) == (120.0, 120.0, Mode.PAUSED)
    assert world.start() == []


def test_closed_again_without_a_success_the_wait_is_doubled() -> None:
    world = halved()
    world.wait(90)  # three times the 30 s that the crashed ones lived
    assert scope(world).state is CLOSED
    crash_three_more(world)
    assert (scope(world).state, scope(world).wait) == (OPEN, 2 * PROBE)


def crash_three_more(world: World) -> None:
    for job in (5, 6, 7):
        world.start()
        world.end(job, 1, SHAPES)


def test_open_and_a_failure_joins_the_cause_and_leaves_the_clock() -> None:
    world = opened()
    world.wait(100)
    world.end(3, 1, SHAPES)
    assert world.scheduler.cause is not None
    assert (world.scheduler.cause.jobs, tries_in(world)) == ((0, 1, 2, 3), PROBE - 100)


def test_half_and_anothers_failure_joins() -> None:
    world = halved()
    world.end(3, 1, "another")
    assert (scope(world).state, scope(world).probe is not None) == (HALF, True)
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.message == f"3 jobs: {SHAPES}; since then #3: another"


@pytest.mark.parametrize("signature", [SHAPES, "another"], ids=["alike", "unlike"])
def test_half_and_the_probes_failure_doubles_the_wait(signature: str) -> None:
    world = halved()
    world.end(4, 1, signature)
    assert (scope(world).state, scope(world).wait, tries_in(world)) == (OPEN, 2 * PROBE, 2 * PROBE)
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.jobs == (0, 1, 2, 4)


def test_half_and_the_probes_failure_counts_even_with_retries_left() -> None:
    world = opened()
    world.do(Edit(job=4, spec=spec("train --model vit --seed 4", retries=2)))
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


def test_off_means_that_nobody_tries_by_itself() -> None:
    world = opened(probe=None)
    world.wait(10 * LONGEST_WAIT)
    assert world.start() == []
    world.end(3)
    assert world.start() == []


# a success


def test_closed_and_a_success_clears_its_groups_failures_and_no_others() -> None:
    world = World("0")
    world.add(*(spec(group="ab"[number % 2]) for number in range(20)))
    for number in range(5):
        world.run(1 - number % 2, SHAPES)
    assert (scope(world, "a").state, world.mode()) == (OPEN, Mode.RUNNING)
    assert world.start() == [5]


def test_closed_and_a_success_makes_the_wait_what_is_set() -> None:
    world = halved()
    world.wait(90)
    world.end(4)
    crash_three_more(world)
    assert (scope(world).state, scope(world).wait) == (OPEN, PROBE)


def test_open_and_a_success_of_a_job_begun_earlier_tries_one_now() -> None:
    world = opened()
    world.end(3)
    assert world.start() == [4]
    assert scope(world).state is HALF


def test_half_and_the_probes_success_closes_and_resets_all() -> None:
    world = halved()
    world.end(4)
    assert (world.scheduler.breaker.scopes, world.mode(), world.scheduler.cause) == ((), Mode.RUNNING, None)
    assert world.start() == [5, 6, 7]
    world.end(3, 1, SHAPES)
    assert world.scheduler.breaker.streak.failures == (), "it began before"


# probe_at comes


def test_open_and_the_moment_comes_an_eligible_job_is_tried_alone() -> None:
    world = opened()
    world.wait(PROBE - 1)
    assert world.start() == []
    assert world.scheduler.next_wakeup() == world.now + 1
    world.wait(1)
    assert world.start() == [4]
    assert world.start() == []
    assert standing(world.scheduler.snapshot()).word is Word.TRYING
    assert standing(world.scheduler.snapshot()).awaits == "#4 alone"


def test_open_and_no_job_fits_it_stays_due() -> None:
    world = opened()
    for job in range(4, 10):
        world.do(Hold(job=job))
    world.wait(PROBE)
    assert world.start() == []
    assert world.scheduler.next_wakeup() is None
    world.do(Release(job=7))
    assert world.start() == [7]


@pytest.mark.parametrize("waits", [spec(after=(3,)), spec(hold=True), spec(not_before=99999.0)])
def test_blocked_held_and_delayed_jobs_are_never_tried(waits: JobSpec) -> None:
    world = crashing(jobs=4)
    world.add(waits)
    for job in range(3):
        world.end(job, 1, SHAPES)
    world.wait(PROBE)
    assert world.start() == []


# the probe outlives


def test_half_and_the_probe_outlives_the_crashes_all_go_on() -> None:
    world = halved()
    assert world.scheduler.next_wakeup() == world.now + 90
    world.wait(89)
    assert scope(world).state is HALF
    world.wait(1)
    assert (scope(world).state, scope(world).wait, world.mode()) == (CLOSED, PROBE, Mode.RUNNING)
    assert world.start() == [5, 6]
    world.end(4, 1, SHAPES)
    assert world.scheduler.breaker.streak.failures == (), "its later crash does not count"


def test_a_short_life_is_outlived_after_a_minute() -> None:
    world = crashing()
    world.now -= 29
    for job in range(3):
        world.end(job, 1, SHAPES)
    assert scope(world).life == 60


def test_the_time_of_a_suspension_is_no_life() -> None:
    world = halved()
    world.wait(50)
    world.do(Suspend(job=4))
    assert world.scheduler.next_wakeup() is None
    world.wait(1000)
    assert scope(world).state is HALF
    world.do(Continue(job=4))
    world.wait(39)
    assert scope(world).state is HALF
    world.wait(1)
    assert scope(world).state is CLOSED


# the probe ends otherwise


def killed(world: World) -> None:
    world.do(Kill(job=4))
    world.end(4, 143)


def put_back(world: World) -> None:
    world.do(Requeue(job=4))
    world.end(4, 143)


def card_was_full(world: World) -> None:
    attempt = world.job(4).issued
    world.do(AttemptEnded(job=4, attempt=attempt, outcome=Exited(1), at=world.now, kind=CrashKind.OOM_GPU))
    assert world.state(4) == "queued"


@pytest.mark.parametrize("how", [killed, put_back, lambda world: world.end(4, Vanished("gone")), card_was_full])
def test_half_and_the_probe_is_killed_requeued_lost_or_its_card_was_full_opens_with_the_same_wait(how: Any) -> None:
    world = halved(at_most=None)
    if how is card_was_full:
        world = World("0 0 0 0")
        world.add_many(10)
        world.start()
        world.now += 30
        for job in range(3):
            world.end(job, 1, SHAPES)
        world.wait(PROBE)
        assert world.start() == [4]
    how(world)
    assert (scope(world).state, scope(world).wait, tries_in(world)) == (OPEN, PROBE, PROBE)


@pytest.mark.parametrize("outcome", [NeverRan(), NoRoom("no processes")])
def test_half_and_the_probe_is_revoked_or_finds_no_room_opens_and_is_due(outcome: Outcome) -> None:
    world = halved()
    world.end(4, outcome)
    assert (scope(world).state, scope(world).due, scope(world).wait) == (OPEN, True, PROBE)
    world.wait(5)
    assert len(world.start()) == 1


# resume


def test_closed_and_resume_is_refused() -> None:
    assert crashing().refused(Resume()) == "the scheduler is not paused"


@pytest.mark.parametrize("begin", [opened, halved])
def test_open_or_half_and_resume_closes_and_resets_all(begin: Any) -> None:
    world = begin()
    world.now += 1
    world.do(Resume())
    assert (world.scheduler.breaker.scopes, world.mode()) == ((), Mode.RUNNING)
    assert world.start()
    if begin is halved:
        world.end(4, 1, SHAPES)
        assert world.scheduler.breaker.streak.failures == ()


# a pause by the user, a drain, a stop, an interrupt

LEAVING: list[Event] = [Pause(), Drain(), Pause(PauseKind.STOPPED), Pause(PauseKind.INTERRUPTED)]


@pytest.mark.parametrize("event", LEAVING, ids=str)
@pytest.mark.parametrize("begin", [opened, halved])
def test_open_or_half_and_the_user_pauses_or_leaves_nothing_is_tried(event: Event, begin: Any) -> None:
    world = begin()
    world.do(event)
    cause = world.scheduler.cause
    assert cause is not None
    assert (cause.kind, scope(world).state, scope(world).probe_at) == (PauseKind.CRASHES, OPEN, None)
    assert cause.on_purpose is (event != Pause())
    world.wait(10 * LONGEST_WAIT)
    world.end(3)
    assert world.start() == [], "a success of a job begun earlier does not undo it"
    assert "paused already" in world.refused(Pause())


def test_half_and_the_user_pauses_the_probe_runs_on_and_only_joins() -> None:
    world = halved()
    world.do(Pause())
    world.end(4, 1, SHAPES)
    assert world.scheduler.cause is not None
    assert (world.scheduler.cause.jobs, scope(world).wait, scope(world).probe_at) == ((0, 1, 2, 4), PROBE, None)
    other = halved()
    other.do(Pause())
    other.end(4)
    assert (scope(other).state, other.start()) == (OPEN, [])


@pytest.mark.parametrize("event", LEAVING, ids=str)
def test_closed_and_the_user_pauses_or_leaves_crashes_open_nothing(event: Event) -> None:
    world = crashing()
    world.do(event)
    for job in range(4):
        world.end(job, 1, SHAPES)
    assert world.scheduler.breaker.scopes == ()
    assert world.mode() is Mode.PAUSED


@pytest.mark.parametrize("event", LEAVING, ids=str)
def test_a_pause_stands_while_a_group_is_open(event: Event) -> None:
    world = two_groups()
    world.do(event)
    world.wait(10 * LONGEST_WAIT)
    for job in sorted(world.scheduler.book.active):
        world.end(job)
    assert (world.start(), scope(world, "a").state) == ([], OPEN)
    world.do(Resume())
    assert world.start()


# r, R, R R


def test_closed_and_a_rerun_clears_its_group() -> None:
    world = crashing()
    world.end(0, 1, SHAPES)
    world.end(1, 1, SHAPES)
    world.do(Rerun(job=0))
    assert world.scheduler.breaker.streak.failures == ()


def test_open_and_a_rerun_is_the_next_to_be_tried_now() -> None:
    world = opened()
    world.do(Rerun(job=1))
    assert world.start() == [1]
    assert scope(world).state is HALF


def test_open_and_stopped_a_rerun_still_tries_but_no_clock_follows() -> None:
    world = opened()
    world.do(Pause(PauseKind.INTERRUPTED))
    world.do(Rerun(job=1))
    assert world.start() == [1]
    world.end(1, 1, SHAPES)
    assert (scope(world).state, scope(world).probe_at) == (OPEN, None)


def test_half_and_a_rerun_is_queued() -> None:
    world = halved()
    world.do(Rerun(job=1))
    assert (world.start(), world.state(1), scope(world).state) == ([], "queued", HALF)


def rerun(world: World, *jobs: JobId) -> None:
    for job in jobs:
        world.do(Rerun(job=job))
    world.do(TryFirst(jobs))


@pytest.mark.parametrize("begin", [opened, crashing])
def test_of_many_reruns_one_is_tried_first_and_the_rest_follow(begin: Any) -> None:
    world = begin(jobs=4) if begin is crashing else begin()
    if begin is crashing:
        for job in range(2):
            world.end(job, 1, SHAPES)
        world.do(Settings(pause_after=5))
        world.end(2, 1, SHAPES)
        assert scope(world).state is CLOSED
    world.now += 10
    rerun(world, 2, 0, 1)
    assert world.start() == [2]
    assert scope(world).state is HALF
    world.end(2)
    assert set(world.start()) >= {0, 1}


def test_half_and_many_reruns_are_queued() -> None:
    world = halved()
    rerun(world, 0, 1)
    assert (world.start(), scope(world).state) == ([], HALF)


@pytest.mark.parametrize("begin", [opened, halved])
def test_reruns_and_a_resume_release_all(begin: Any) -> None:
    world = begin()
    for job in (0, 1, 2):
        world.do(Rerun(job=job))
    world.do(Resume())
    assert len(world.start()) == (2 if begin is halved else 3)


def test_a_rerun_that_crashes_again_leaves_the_others_waiting() -> None:
    world = opened()
    rerun(world, 0, 1, 2)
    world.start()
    world.end(0, 1, SHAPES)
    assert (scope(world).state, world.start(), world.states([1, 2])) == (OPEN, [], {"queued"})
    assert len(world.job(0).attempts) == 2


def test_without_a_breaker_reruns_just_run() -> None:
    world = crashing(pause_after=0)
    for job in range(3):
        world.end(job, 1, SHAPES)
    rerun(world, 0, 1, 2)
    assert len(world.start()) == 3


# add, edit, hold, move, lanes

NOTHING_TO_IT: list[Event] = [
    Edit(job=5, spec=spec("other")),
    Hold(job=5),
    Move(job=6, where=MoveTarget.BOTTOM),
    SetPriority(job=6, priority=50),
    SetLanes(lanes("0 1 2 3 4 5")),
]


@pytest.mark.parametrize("begin", [crashing, opened, halved])
def test_what_is_added_edited_held_moved_and_other_lanes_change_nothing(begin: Any) -> None:
    world = begin()
    before = world.scheduler.breaker
    for event in NOTHING_TO_IT:
        world.do(event)
    world.add(spec("from cron"))
    assert world.scheduler.breaker == before


# takeover


@pytest.mark.parametrize("begin", [crashing, opened, halved])
def test_a_new_owner_goes_on_where_the_last_one_was(begin: Any) -> None:
    world = begin()
    before = world.scheduler.breaker
    world.scheduler = restored(world.scheduler)
    assert world.scheduler.breaker == before
    world.wait(PROBE + 90)
    if begin is opened:
        assert world.start() == [4], "past its moment: due now"
    if begin is halved:
        assert scope(world).state is CLOSED, "adopted, and it lived"


def test_the_clock_of_the_breaker_is_not_moved_by_the_wall_clock() -> None:
    world = opened()
    world.wait(100)
    world.now += 7200
    world.do(ClockStepped(7200))
    assert tries_in(world) == PROBE - 100


# nothing left


def test_nothing_left_in_the_scope_no_clock_the_cause_stays_and_a_keeper_may_end() -> None:
    world = crashing(jobs=4)
    for job in range(3):
        world.end(job, 1, SHAPES)
    world.end(3)
    snapshot = world.scheduler.snapshot()
    assert snapshot.cause is not None
    assert not goes_on(snapshot)


def test_a_try_that_is_to_come_is_work() -> None:
    world = opened()
    world.do(Kill(job=3))
    world.end(3, 143)
    assert goes_on(world.scheduler.snapshot())
    world.do(Settings(probe=None))
    assert not goes_on(world.scheduler.snapshot())
    world.do(Settings(probe=60.0))
    assert tries_in(world) == 60
    world.do(Pause())
    assert not goes_on(world.scheduler.snapshot())


# scopes


def two_groups() -> World:
    """Three of group a crashed; b runs on."""
    world = World("0 1 2 3 4 5")
    world.add(*(spec(f"train --seed {number}", group="ab"[number % 2]) for number in range(16)))
    world.start()
    world.now += 30
    for job in (0, 2, 4):
        world.end(job, 1, SHAPES)
    return world


def test_when_one_of_several_groups_crashes_only_that_one_is_paused() -> None:
    world = two_groups()
    assert (scope(world, "a").state, world.mode(), world.scheduler.cause) == (OPEN, Mode.RUNNING, None)
    assert world.start() == [7, 9, 11]
    assert standing(world.scheduler.snapshot()).word is Word.RUNNING
    assert standing(world.scheduler.snapshot()).awaits == "a is paused"
    assert world.why(6) == f"its group is paused: 3 jobs: {SHAPES}; tries #6 in 10:00"
    assert world.why(13) == "waiting for a GPU: all 6 busy"


def test_failures_of_several_groups_pause_all() -> None:
    world = World("0 1 2 3")
    world.add(*(spec(group="abc"[number % 3]) for number in range(9)))
    world.start()
    for job in range(3):
        world.end(job, 1, SHAPES)
    assert (scope(world).state, world.mode()) == (OPEN, Mode.PAUSED)


def test_a_group_without_others_that_wait_is_all() -> None:
    world = World("0 1 2 3")
    world.add(*(spec(group="b" if number == 0 else "a") for number in range(9)))
    world.start()
    for job in range(1, 4):
        world.end(job, 1, SHAPES)
    assert scope(world).state is OPEN


def test_several_scopes_try_independently() -> None:
    world = two_groups()
    world.add_many(3, group="c")
    world.now += 100
    for job in (1, 3, 5):
        world.end(job, 1, "another")
    assert {one.group for one in world.scheduler.breaker.cautious} == {"a", "b"}
    for job in world.start():
        world.end(job)
    world.wait(PROBE - 100)
    assert world.start() == [6]
    world.wait(60)
    world.end(6)
    assert set(world.start()) >= {8, 10}
    world.wait(40)
    assert world.start() == [7]
    assert {one.state for one in world.scheduler.breaker.cautious} == {HALF}


def test_all_take_the_place_of_a_group_that_was_paused_and_its_jobs_are_in_the_cause() -> None:
    world = two_groups()
    world.add_many(12, group="c")
    world.now += 1
    for job in (1, 3, 5):
        world.end(job)
    started = world.start()
    assert {world.job(job).spec.group for job in started} == {"b", "c"}
    for job in reversed(started):
        world.end(job, 1, "another")
    assert world.scheduler.cause is not None
    assert {0, 2, 4} < set(world.scheduler.cause.jobs)
    assert [one.group for one in world.scheduler.breaker.cautious] == [None]


def test_while_all_that_waits_is_paused_the_session_is() -> None:
    world = two_groups()
    while world.scheduler.book.active:
        for job in sorted(world.scheduler.book.active):
            world.end(job)
        world.start()
    assert standing(world.scheduler.snapshot()) == Standing(Word.PAUSED, "a is paused")
    world.wait(PROBE)
    world.start()
    assert standing(world.scheduler.snapshot()) == Standing(Word.TRYING, "#6 alone")


# which one is tried


def tried_of(*commands: str, crashed: str = "train --model vit --bs 256 --seed {}", **more: Any) -> Job:
    """The one that would be tried when three of a command crashed."""
    world = World("0 1 2")
    world.add(*(spec(crashed.format(number)) for number in range(3)))
    world.start()
    world.add(*(spec(command, **more) for command in commands))
    for job in range(3):
        world.end(job, 1, SHAPES)
    world.wait(PROBE)
    (job,) = world.start()
    return world.job(job)


def test_a_job_without_what_the_crashed_share_is_tried() -> None:
    alike = "train --model vit --bs 256 --seed 7"
    assert tried_of(alike, alike, "train --model swin --bs 256 --seed 1").spec.command.endswith("seed 1")
    assert tried_of(alike, "train --model swin --bs 64 --seed 2").spec.command.endswith("seed 2")


def test_a_job_of_another_group_is_tried() -> None:
    world = World("0 1 2")
    world.add_many(3)
    world.start()
    world.add_many(2)
    world.add(spec(group="other", hold=True))
    for job in range(3):
        world.end(job, 1, SHAPES)
    world.do(Release(job=5))
    world.wait(PROBE)
    assert world.start() == [5]


def test_else_the_head_of_the_line_is_tried() -> None:
    assert tried_of("train --model vit --bs 256 --seed 7", "train --model vit --bs 256 --seed 8").id == 3


def test_what_others_have_succeeded_with_is_no_reason() -> None:
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


def test_one_that_fits_is_tried_before_one_that_does_not() -> None:
    world = World("0 1 2")
    world.add_many(2)
    world.add(spec("long"))
    world.start()
    world.add(spec("train --big 1", gpus=3), spec())
    world.do(Settings(pause_after=2))
    for job in range(2):
        world.end(job, 1, SHAPES)
    world.wait(PROBE)
    assert world.start() == [4]


def test_many_lanes_do_not_make_it_blind() -> None:
    world = World(" ".join(map(str, range(40))))
    world.add_many(80)
    world.start()
    for job in range(32):
        assert world.mode() is Mode.RUNNING
        world.end(job, 1, f"way {job}")
    assert world.mode() is Mode.PAUSED


# in words


def test_the_cause_is_a_true_message_and_says_how_many_others_there_are() -> None:
    world = crashing()
    for job in range(3):
        attempt = world.job(job).issued
        told: dict[str, Any] = {"signature": "shapes NxN", "message": f"shapes cannot be multiplied ({job}x512)"}
        world.do(AttemptEnded(job=job, attempt=attempt, outcome=Exited(1), at=world.now, **told))
    assert world.scheduler.cause is not None
    assert world.scheduler.cause.message == "3 jobs: shapes cannot be multiplied (2x512) · +2 variants"


def test_a_waiting_job_says_which_one_is_tried_and_when() -> None:
    world = opened()
    paused = f"the scheduler is paused: 3 jobs: {SHAPES}"
    assert world.why(5) == f"{paused}; tries #4 in 10:00 or at a success"
    world.wait(PROBE)
    assert world.why(5) == f"{paused}; #4 is tried as soon as it fits"
    world.start()
    assert world.why(5) == f"{paused}; #4 is tried alone"
    world.do(Pause())
    assert world.why(5) == f"{paused}; resume or rerun goes on"


def test_the_story_of_the_one_that_is_tried_tells_why() -> None:
    world = halved()
    world.end(4)
    told = [moment.text for moment in world.scheduler.unsaved_moments if moment.job == 4]
    assert told == ["tried alone, for 3 jobs crashed", "it succeeded alone: all go on"]


def test_a_cause_stays_short_however_many_crash() -> None:
    world = World("0", probe=0.0)
    world.add_many(700)
    for _ in range(700):
        (start,) = world.scheduler.place(world.now)
        end = AttemptEnded(job=start.job.id, attempt=1, outcome=Exited(1), at=world.now, signature=SHAPES)
        world.scheduler.handle(end, world.now)
    cause = world.scheduler.cause
    assert cause is not None
    assert (cause.count, len(cause.jobs)) == (700, 500)
    assert cause.message == f"700 jobs: {SHAPES}"
