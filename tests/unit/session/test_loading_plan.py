"""Loading a file again: what is new, kept and rerun, and the message about it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.sessions import spec

from gputui.core.book import Book
from gputui.core.events import AddJobs, Edit, Rerun
from gputui.core.job import (
    Attempt,
    Delayed,
    Failed,
    Held,
    Job,
    JobSpec,
    Killed,
    Lost,
    Placed,
    Queued,
    Refused,
    Running,
    Skipped,
    Starting,
    State,
    Stopping,
    Succeeded,
    Suspended,
    TimedOut,
)
from gputui.core.job import Purpose as Why
from gputui.session.loading import RerunRules, Results, plan

PLACED = Placed(1, (0,), ("0",), 0.0, "")
KEEP, NEVER = RerunRules(rerun_failed=False), RerunRules()
LOST_TOO, ALL = RerunRules(rerun_lost=True), RerunRules(force_rerun=True)


def known(state: State, command: str = "echo a", **settings: object) -> Job:
    return Job(0, spec(command, occurrence=1, **settings), 0.0, 30, 0.0, state)


def same(command: str = "echo a", **settings: object) -> JobSpec:
    return spec(command, occurrence=1, **settings)


@pytest.mark.parametrize(
    ("state", "rerun_by"),
    [
        (Succeeded(), [ALL]),
        (Killed(), [ALL]),
        (Lost("x"), [LOST_TOO, ALL]),
        (Failed(1), [NEVER, LOST_TOO, ALL]),
        (TimedOut(5.0), [NEVER, LOST_TOO, ALL]),
        (Refused("x"), [NEVER, LOST_TOO, ALL]),
        (Queued(0.0), []),
        (Held(), []),
        (Delayed(9.0, "x"), []),
        (Starting(PLACED), []),
        (Running(PLACED, 7), []),
        (Suspended(PLACED, 7, 0.0), []),
        (Stopping(PLACED, 7, Why.KILL, 9.0), []),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_each_state_is_rerun_only_when_it_should_be(state: State, rerun_by: list[RerunRules]) -> None:
    for again in (KEEP, NEVER, LOST_TOO, ALL):
        planned = plan(Book([known(state)]), [same()], again)
        assert planned.new == ()
        assert planned.jobs == (0,)
        assert [event.job for event in planned.reruns if isinstance(event, Rerun)] == ([0] if again in rerun_by else [])


def test_a_removed_job_is_skipped_even_by_force_rerun() -> None:
    planned = plan(Book([replace(known(Killed()), archived=True)]), [same()], ALL)
    assert planned.events() == []
    assert planned.sentence("f") == "1 in f: 0 new, 1 removed (skipped)."
    assert planned.advice == "Rerun all: --force-rerun. New session: --new"


def test_the_message_counts_all_jobs() -> None:
    states: list[State] = [Succeeded(), Succeeded(), Failed(1), Killed(), Queued(0.0)]
    jobs = [replace(known(state, f"echo {id}"), id=id) for id, state in enumerate(states)]
    specs = [same(f"echo {id}") for id in range(6)]
    planned = plan(Book(jobs), specs, RerunRules())
    expected = "6 in jobs.txt: 1 new, 2 done (kept), 1 queued (kept), 1 killed (kept), 1 failed (rerun)."
    assert planned.sentence("jobs.txt") == expected
    first = plan(Book(), [same()], RerunRules())
    assert (first.sentence("f"), first.advice) == ("1 in f: 1 new.", "")


def test_equal_commands_are_distinguished_by_their_number() -> None:
    book = Book([known(Succeeded())])
    twice = [spec("echo a", occurrence=1), spec("echo a", occurrence=2)]
    planned = plan(book, twice, RerunRules())
    assert planned.jobs == (0,)
    assert planned.new == (twice[1],)
    assert len(plan(book, [same(cwd="/tmp")], RerunRules()).new) == 1, "another directory is another job"


def test_a_line_from_a_pipe_is_always_new() -> None:
    piped = spec("echo a")
    book = Book([known(Succeeded()), replace(known(Succeeded()), id=1, spec=piped)])
    assert plan(book, [piped], RerunRules()).new == (piped,)


@pytest.mark.parametrize(
    ("state", "edited"),
    [
        (Queued(0.0), True),
        (Held(), True),
        (Delayed(9.0, "x"), True),
        (Running(PLACED, 7), False),
        (Succeeded(), False),
        (Killed(), False),
    ],
)
def test_a_changed_setting_edits_only_a_waiting_job(state: State, edited: bool) -> None:
    events = plan(Book([known(state)]), [same(priority=50)], RerunRules()).events()
    assert events == ([Edit(job=0, spec=same(priority=50))] if edited else [])


def test_a_job_that_is_rerun_takes_its_new_settings_and_environment() -> None:
    changed = same(priority=50, environment="new")
    planned = plan(Book([known(Failed(1))]), [changed], RerunRules())
    assert planned.events() == [Rerun(job=0, environment="new"), Edit(job=0, spec=changed)]
    planned = plan(Book([known(Failed(1))]), [same(environment="new")], RerunRules())
    assert planned.events() == [Rerun(job=0, environment="new")]


def test_new_jobs_are_added_in_the_order_of_the_file() -> None:
    specs = [same(f"echo {number}") for number in range(5)]
    [added] = plan(Book(), specs, RerunRules()).events()
    assert added == AddJobs(tuple(specs))


def chain(*states: State) -> Book:
    """Each job waits for the one before it."""
    jobs = [replace(known(state, f"echo {id}"), id=id) for id, state in enumerate(states)]
    return Book([replace(job, after=(job.id - 1,)) if job.id else job for job in jobs])


@pytest.mark.parametrize(
    ("states", "again", "asked", "sentence"),
    [
        ((Failed(1), Skipped(0), Skipped(1)), NEVER, [0], "1 failed (rerun), 2 skipped (rerun)"),
        ((Killed(), Skipped(0), Skipped(1)), NEVER, [], "1 killed (kept), 2 skipped (kept)"),
        ((Killed(), Skipped(0), Skipped(1)), ALL, [0], "1 killed (rerun), 2 skipped (rerun)"),
        ((Lost("x"), Skipped(0), Failed(1)), NEVER, [], "1 failed (kept), 1 lost (kept), 1 skipped (kept)"),
        ((Failed(1), Failed(1), Failed(1)), NEVER, [0, 1, 2], "3 failed (rerun)"),
    ],
)
def test_jobs_that_would_be_skipped_again_are_kept(
    states: tuple[State, ...], again: RerunRules, asked: list[int], sentence: str
) -> None:
    planned = plan(chain(*states), [same(f"echo {id}") for id in reversed(range(3))], again)
    assert [event.job for event in planned.reruns if isinstance(event, Rerun)] == asked
    assert sentence in planned.sentence("f")


def test_adds_come_first_as_they_may_be_refused() -> None:
    events = plan(Book([known(Failed(1))]), [same(), same("echo new")], RerunRules()).events()
    assert [type(event) for event in events] == [AddJobs, Rerun]


def test_a_long_chain_is_planned_without_recursion() -> None:
    count = 5000
    head: list[State] = [Failed(1)]
    book = chain(*head, *(Skipped(id) for id in range(count - 1)))
    planned = plan(book, [same(f"echo {id}") for id in range(count)], RerunRules())
    assert len(planned.reruns) == 1
    assert planned.rerun.total() == count
    stuck = chain(Killed(), *(Skipped(id) for id in range(count - 1)))
    assert plan(stuck, [same(f"echo {id}") for id in range(count)], RerunRules()).reruns == ()


@pytest.mark.parametrize(
    ("state", "rerun"),
    [(Succeeded(), True), (Killed(), False), (Lost("x"), False), (Failed(1), True), (Queued(0.0), False)],
)
def test_a_succeeded_job_without_its_results_is_rerun(state: State, rerun: bool) -> None:
    planned = plan(Book([known(state)]), [same()], RerunRules(), Results(gone=(0,)))
    assert bool(planned.reruns) is rerun


def test_an_unknown_job_with_results_is_not_added() -> None:
    specs = [same("echo a"), same("echo b"), same("echo c")]
    planned = plan(Book([known(Failed(1))]), specs, RerunRules(), Results(there=(0, 1)))
    assert [new.command for new in planned.new] == ["echo c"]
    assert len(planned.reruns) == 1
    assert planned.sentence("f").startswith("3 in f: 1 new, 1 failed (rerun), 1 existing (skipped).")
    assert len(plan(Book([]), specs, ALL, Results(there=(0, 1))).new) == 3


def test_a_job_that_failed_during_the_load_is_not_rerun() -> None:
    attempt = Attempt(1, ("0",), 100.0, 110.0, Failed(1), 1, "exit code 1", "")
    book = Book([replace(known(Failed(1)), attempts=(attempt,))])
    for again in (NEVER, ALL):
        assert plan(book, [same()], replace(again, ended_before=111.0)).reruns
        assert not plan(book, [same()], replace(again, ended_before=105.0)).reruns


def test_a_job_that_failed_before_the_clock_was_set_back_is_rerun() -> None:
    attempt = Attempt(1, ("0",), 7100.0, 7110.0, Failed(1), 1, "exit code 1", "")
    book = Book([replace(known(Failed(1)), attempts=(attempt,))])
    assert plan(book, [same()], replace(ALL, ended_before=105.0), now=106.0).reruns
