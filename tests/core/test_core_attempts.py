"""What becomes of an attempt: ends, retries, time limits, kills, requeues and reruns."""

from __future__ import annotations

import pytest
from support.core_world import World, spec

from gputui.core.events import (
    AttemptEnded,
    Continue,
    ContinueTree,
    Edit,
    Exited,
    IllegalTransition,
    Kill,
    KillTree,
    NeverRan,
    NoRoom,
    NotStarted,
    Outcome,
    Release,
    Requeue,
    Rerun,
    Settings,
    Spawned,
    Suspend,
    SuspendTree,
    Terminate,
    Vanished,
)
from gputui.core.job import (
    Crashed,
    Delayed,
    Failed,
    Held,
    Killed,
    Left,
    Lost,
    Purpose,
    Refused,
    State,
    StateName,
    Stopping,
    Succeeded,
)
from gputui.core.scheduler import Scheduler
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
        (Exited(0), Succeeded()),
        (Exited(1), Failed(1)),
        (Exited(128), Failed(128)),
        (Exited(129), Crashed(1)),
        (Exited(137), Crashed(9)),
        (Exited(192), Crashed(64)),
        (Exited(193), Failed(193)),
        (Vanished("rebooted"), Lost("rebooted")),
        (NotStarted("its folder is gone"), Refused("its folder is gone")),
    ],
)
def test_an_outcome_makes_the_end_it_stands_for(outcome: Outcome, state: State) -> None:
    world = running()
    world.end(0, outcome)
    assert world.job(0).state == state
    attempt = world.job(0).attempts[-1]
    assert attempt.end == state
    assert attempt.exit_code == (outcome.code if isinstance(outcome, Exited) else None)


def test_an_attempt_that_never_ran_is_issued_anew_with_a_new_number() -> None:
    world = running()
    world.end(0, NeverRan())
    assert world.state(0) is StateName.QUEUED
    assert world.job(0).attempts == ()
    world.start()
    assert world.job(0).issued == 2


def test_an_end_before_the_start_is_a_clock_that_was_set_back() -> None:
    world = running()
    world.now -= 50
    world.do(AttemptEnded(job=0, attempt=1, outcome=Exited(0), at=world.now))
    assert world.job(0).attempts[0].ended == world.job(0).attempts[0].started


def test_retries_wait_twice_as_long_each_time_and_then_the_job_has_failed() -> None:
    world = running(retries=3)
    delays = []
    for _ in range(3):
        world.end(0, 1)
        state = world.job(0).state
        assert isinstance(state, Delayed)
        delays.append(state.until - world.now)
        assert world.start() == []
        world.wait(delays[-1])
        assert world.start() == [0]
    world.end(0, 1)
    assert delays == [2, 4, 8]
    assert world.job(0).state == Failed(1)
    assert [attempt.number for attempt in world.job(0).attempts] == [1, 2, 3, 4]


def test_the_wait_before_a_retry_has_a_limit() -> None:
    world = running(retries=20)
    for _ in range(20):
        world.end(0, 1)
        world.wait(300)
        assert world.start() == [0]


@pytest.mark.parametrize("outcome", [Vanished("rebooted"), NotStarted("too long")])
def test_what_was_lost_or_refused_is_never_retried(outcome: Outcome) -> None:
    world = running(retries=3)
    world.end(0, outcome)
    assert world.state(0) in (StateName.LOST, StateName.REFUSED)


def test_a_job_out_of_time_gets_grace_then_the_kill_and_may_be_retried() -> None:
    world = running(timeout=60.0, retries=1)
    assert world.wait(59.9) == []
    assert world.wait(0.1) == [Terminate(0, 1)]
    assert world.wait(29.9) == []
    assert world.wait(0.1) == [KillTree(0, 1)]
    assert world.wait(1000) == []
    world.end(0, 137)
    assert world.job(0).attempts[0].signature == "timed out after 60 s"
    world.wait(2)
    world.start()
    assert world.wait(60) == [Terminate(0, 2)]
    world.end(0, 0)
    assert world.state(0) is StateName.TIMED_OUT


def test_without_grace_a_job_out_of_time_is_killed_at_once() -> None:
    world = running(timeout=60.0)
    world.do(Settings(grace=0.0))
    assert world.wait(60) == [Terminate(0, 1), KillTree(0, 1)]


def test_a_suspended_job_does_not_use_up_its_time() -> None:
    world = running(timeout=60.0)
    world.wait(30)
    assert world.do(Suspend(job=0)) == [SuspendTree(0, 1)]
    assert world.wait(1000) == []
    assert world.do(Continue(job=0)) == [ContinueTree(0, 1)]
    world.do(Suspend(job=0))
    world.wait(500)
    world.do(Continue(job=0))
    assert world.wait(29) == []
    assert world.wait(1) == [Terminate(0, 1)]


def test_a_kill_gives_grace_and_a_second_one_can_end_it() -> None:
    world = running()
    assert world.do(Kill(job=0)) == [Terminate(0, 1)]
    assert world.do(Kill(job=0)) == []
    assert world.do(Kill(job=0, now=True)) == [KillTree(0, 1)]
    assert world.do(Kill(job=0, now=True)) == []
    assert world.wait(1000) == []
    world.end(0, 143)
    assert world.job(0).state == Killed()
    assert world.job(0).attempts[0].exit_code == 143


def test_a_kill_at_once_gives_no_grace() -> None:
    world = running()
    assert world.do(Kill(job=0, now=True)) == [KillTree(0, 1)]
    assert world.wait(1000) == []


@pytest.mark.parametrize(("outcome", "attempts"), [(Exited(143), 1), (NeverRan(), 0), (NoRoom("no disk"), 0)])
def test_a_job_killed_while_starting_stays_down(outcome: Outcome, attempts: int) -> None:
    world = World()
    world.add()
    world.place()
    assert world.do(Kill(job=0)) == [Terminate(0, 1)]
    world.spawned(0)
    assert isinstance(world.job(0).state, Stopping)
    world.end(0, outcome)
    assert world.job(0).state == Killed()
    assert len(world.job(0).attempts) == attempts
    assert world.place() == []


def test_killing_a_waiting_job_needs_no_engine() -> None:
    world = World()
    world.add_many(2)
    assert world.do(Kill(job=1)) == []
    assert world.state(1) is StateName.KILLED


def test_a_requeued_job_comes_back_at_its_place_even_if_it_ended_well() -> None:
    world = World()
    world.add_many(3)
    world.start()
    assert world.do(Requeue(job=0)) == [Terminate(0, 1)]
    world.end(0, 0)
    assert world.line() == [0, 1, 2]
    assert world.start() == [0]
    assert world.job(0).issued == 2


def test_a_kill_overrules_a_requeue() -> None:
    world = running()
    world.do(Requeue(job=0))
    world.do(Kill(job=0))
    world.end(0, 143)
    assert world.state(0) is StateName.KILLED


def test_a_rerun_is_a_new_attempt_that_keeps_the_old_one_and_counts_retries_anew() -> None:
    world = running(retries=1)
    world.end(0, 1)
    world.wait(2)
    world.start()
    world.end(0, 1)
    world.do(Rerun(job=0, environment="mine"))
    assert world.start() == [0]
    world.end(0, 1)
    assert world.state(0) is StateName.DELAYED
    assert [attempt.environment for attempt in world.job(0).attempts] == ["e", "e", "mine"]


def test_late_and_double_news_of_an_attempt_change_nothing() -> None:
    world = running()
    world.end(0, 1)
    before = world.job(0)
    world.do(AttemptEnded(job=0, attempt=1, outcome=Exited(0), at=world.now))
    world.do(Spawned(job=0, attempt=1, pid=7))
    assert world.job(0) is before
    world.do(Rerun(job=0))
    world.start()
    world.do(AttemptEnded(job=0, attempt=1, outcome=Exited(0), at=world.now))
    assert world.state(0) is StateName.RUNNING


def test_news_that_cannot_be_are_a_defect_and_come_with_the_story() -> None:
    world = running()
    for event in (Spawned(job=0, attempt=2, pid=1), Spawned(job=9, attempt=1, pid=1)):
        with pytest.raises(IllegalTransition, match=f"#{event.job}"):
            world.do(event)


def test_a_new_owner_goes_on_stopping_what_the_old_one_was_stopping() -> None:
    world = running()
    world.do(Kill(job=0))
    world.scheduler = Scheduler(world.scheduler.record(), world.scheduler.book)
    assert world.spawned(0, adopted=True) == [Terminate(0, 1)]
    assert world.wait(30) == [KillTree(0, 1)]
    assert world.spawned(0, adopted=True) == [KillTree(0, 1)]
    assert world.spawned(0) == []


def test_a_start_time_is_waited_for() -> None:
    world = World()
    world.add(spec(not_before=1100.0))
    assert world.scheduler.next_wakeup() == 1100
    world.wait(99)
    assert world.start() == []
    world.wait(1)
    assert world.start() == [0]


def test_an_edited_job_runs_as_edited() -> None:
    world = World("0 1")
    world.add(spec(not_before=5000.0))
    world.do(Edit(job=0, spec=spec("other", gpus=2)))
    assert world.start() == [0]
    assert len(world.gpus(0)) == 2


@pytest.mark.parametrize(
    ("asked", "state"), [(Purpose.KILL, "killed"), (Purpose.REQUEUE, "queued"), (Purpose.TIMEOUT, "timed_out")]
)
@pytest.mark.parametrize("outcome", [Exited(137), Exited(0), Vanished("the shell around it was killed")])
def test_an_end_that_an_earlier_owner_had_ordered_is_what_it_was_ordered_for(
    asked: Purpose, state: str, outcome: Outcome
) -> None:
    world = running(timeout=60.0)
    world.do(AttemptEnded(job=0, attempt=1, outcome=outcome, at=world.now, asked=asked))
    assert world.job(0).state.name == state
    assert (len(world.scheduler.breaker.streak.failures) == 1) is (asked is Purpose.TIMEOUT)


@pytest.mark.parametrize(
    ("ask", "code", "state"),
    [
        (Requeue(job=0), 0, "succeeded"),
        (Requeue(job=0), 3, "failed"),
        (Kill(job=0), 0, "succeeded"),
        (Kill(job=0), 3, "killed"),
    ],
)
def test_what_was_asked_of_a_job_that_had_ended_by_then_does_not_change_its_end(
    ask: Kill | Requeue, code: int, state: str
) -> None:
    world = running()
    world.do(ask)
    world.do(AttemptEnded(job=0, attempt=1, outcome=Exited(code), at=world.now, by_itself=True))
    assert world.job(0).state.name == state


def test_a_job_that_was_killed_as_it_failed_is_not_retried() -> None:
    world = running(retries=3)
    world.do(Kill(job=0))
    world.do(AttemptEnded(job=0, attempt=1, outcome=Exited(3), at=world.now, by_itself=True))
    assert world.job(0).state.name == "killed"


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize(("known", "asked"), [(Requeue, Purpose.KILL), (Kill, Purpose.REQUEUE)])
def test_a_kill_is_the_last_word_whether_it_was_made_durable_or_not(
    known: type[Kill | Requeue], asked: Purpose, alive: bool
) -> None:
    world = running()
    world.do(known(job=0))
    if alive:
        assert world.do(Spawned(job=0, attempt=1, pid=100, adopted=True, asked=asked)) == [Terminate(0, 1)]
        world.end(0, 143)
    else:
        world.do(AttemptEnded(job=0, attempt=1, outcome=Exited(143), at=world.now, asked=asked))
    assert world.job(0).state.name == "killed"


def test_an_attempt_that_an_earlier_owner_was_ending_is_ended_by_the_next() -> None:
    world = running()
    orders = world.do(Spawned(job=0, attempt=1, pid=100, adopted=True, asked=Purpose.REQUEUE))
    assert orders == [Terminate(0, 1)]
    assert isinstance(state := world.job(0).state, Stopping)
    assert (state.purpose, state.deadline) == (Purpose.REQUEUE, world.now + 30)
    world.end(0, 143)
    assert world.job(0).state.name == "queued"


@pytest.mark.parametrize(
    ("asked", "state"), [(Purpose.KILL, "killed"), (Purpose.REQUEUE, "held"), (Purpose.TIMEOUT, "timed_out")]
)
def test_no_new_attempt_is_issued_while_something_of_the_old_one_lives_on(asked: Purpose, state: str) -> None:
    world = running(timeout=60.0, retries=3)
    left = Left(7, 99, "pid 7 (sudo x) lives on")
    world.do(AttemptEnded(job=0, attempt=1, outcome=Vanished("killed"), at=world.now, asked=asked, left=(left,)))
    job = world.job(0)
    assert job.state.name == state
    assert world.start() == []
    assert job.attempts[-1].left == (left,)
    assert left.words in [moment.text for moment in world.scheduler.story(0)]
    if isinstance(job.state, Held):
        assert why(world.scheduler, job, world.now) == f"{left.words}; end it, then release the job"
        world.do(Release(job=0))
        assert world.start() == [0]


def test_an_attempt_remembers_the_command_it_ran_when_the_job_is_given_another() -> None:
    world = World()
    world.add(spec("old"))
    world.run(1)
    world.do(Rerun(job=0))
    world.do(Edit(job=0, spec=spec("new")))
    assert [attempt.command for attempt in world.job(0).attempts] == ["old"]
    world.do(Edit(job=0, spec=spec("newer")))
    assert [attempt.command for attempt in world.job(0).attempts] == ["old"]
