"""Loading a file again: what is new, what is kept, what is rerun, and what the user is told about it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.owning import spec

from gputui.core.book import Book
from gputui.core.events import AddJobs, Edit, Rerun
from gputui.core.job import (
    Attempt,
    Blocked,
    Crashed,
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
from gputui.session.loading import Again, Results, plan

PLACED = Placed(1, (0,), ("0",), 0.0, "")
KEEP, NEVER = Again(rerun_failed=False), Again()
LOST_TOO, ALL = Again(rerun_lost=True), Again(force_rerun=True)


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
        (Crashed(9), [NEVER, LOST_TOO, ALL]),
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
def test_each_state_is_rerun_only_when_it_should_be(state: State, rerun_by: list[Again]) -> None:
    for again in (KEEP, NEVER, LOST_TOO, ALL):
        planned = plan(Book([known(state)]), [same()], again)
        assert planned.new == ()
        assert planned.jobs == (0,)
        assert [event.job for event in planned.reruns if isinstance(event, Rerun)] == ([0] if again in rerun_by else [])


def test_a_removed_job_is_left_out_even_when_all_are_to_run_again() -> None:
    planned = plan(Book([replace(known(Killed()), archived=True)]), [same()], ALL)
    assert planned.events() == []
    assert (
        planned.sentence("f") == "1 in f: 0 new, 1 removed (left out). All again: --force-rerun. Fresh session: --new"
    )


def test_the_sentence_says_all_of_it_and_says_it_twice_alike() -> None:
    states: list[State] = [Succeeded(), Succeeded(), Failed(1), Killed(), Queued(0.0)]
    jobs = [replace(known(state, f"echo {id}"), id=id) for id, state in enumerate(states)]
    specs = [same(f"echo {id}") for id in range(6)]
    planned = plan(Book(jobs), specs, Again())
    sentence = planned.sentence("jobs.txt")
    assert sentence.startswith(
        "6 in jobs.txt: 1 new, 2 done (kept), 1 queued (kept), 1 killed (kept), 1 failed (rerun)."
    )
    assert planned.sentence("jobs.txt") == sentence


def test_the_first_load_gives_no_advice() -> None:
    assert plan(Book(), [same()], Again()).sentence("f") == "1 in f: 1 new."


def test_equal_commands_are_told_apart_by_their_number() -> None:
    book = Book([known(Succeeded())])
    twice = [spec("echo a", occurrence=1), spec("echo a", occurrence=2)]
    planned = plan(book, twice, Again())
    assert planned.jobs == (0,)
    assert planned.new == (twice[1],)


def test_another_folder_is_another_job() -> None:
    assert len(plan(Book([known(Succeeded())]), [same(cwd="/tmp")], Again()).new) == 1


def test_a_line_from_a_pipe_is_always_new() -> None:
    piped = spec("echo a")
    book = Book([known(Succeeded()), replace(known(Succeeded()), id=1, spec=piped)])
    assert plan(book, [piped], Again()).new == (piped,)


@pytest.mark.parametrize("state", [Queued(0.0), Held(), Delayed(9.0, "x")])
def test_a_changed_setting_updates_a_waiting_job(state: State) -> None:
    planned = plan(Book([known(state)]), [same(priority=50)], Again())
    assert planned.edits == (Edit(job=0, spec=same(priority=50)),)


@pytest.mark.parametrize("state", [Running(PLACED, 7), Succeeded(), Killed()])
def test_a_changed_setting_leaves_a_job_alone_that_has_begun(state: State) -> None:
    assert plan(Book([known(state)]), [same(priority=50)], Again()).events() == []


def test_a_job_that_is_rerun_takes_its_new_settings_and_environment() -> None:
    changed = same(priority=50, environment="new")
    planned = plan(Book([known(Failed(1))]), [changed], Again())
    assert planned.events() == [Rerun(job=0, environment="new"), Edit(job=0, spec=changed)]


def test_a_rerun_in_another_environment_alone_is_no_edit() -> None:
    planned = plan(Book([known(Failed(1))]), [same(environment="new")], Again())
    assert planned.events() == [Rerun(job=0, environment="new")]


def test_new_jobs_are_added_in_the_order_of_the_file() -> None:
    specs = [same(f"echo {number}") for number in range(5)]
    [added] = plan(Book(), specs, Again()).events()
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
def test_what_would_only_be_skipped_again_is_kept(
    states: tuple[State, ...], again: Again, asked: list[int], sentence: str
) -> None:
    planned = plan(chain(*states), [same(f"echo {id}") for id in reversed(range(3))], again)
    assert [event.job for event in planned.reruns if isinstance(event, Rerun)] == asked
    assert sentence in planned.sentence("f")


def test_new_jobs_come_before_everything_that_a_refusal_must_not_leave_half_done() -> None:
    events = plan(Book([known(Failed(1))]), [same(), same("echo new")], Again()).events()
    assert [type(event) for event in events] == [AddJobs, Rerun]


def test_a_blocked_job_is_kept() -> None:
    first = known(Running(PLACED, 7))
    second = replace(known(Blocked(), "echo b"), id=1, after=(0,))
    assert plan(Book([first, second]), [same(), same("echo b")], ALL).events() == []


def test_a_long_chain_is_planned_without_recursion() -> None:
    count = 5000
    head: list[State] = [Failed(1)]
    book = chain(*head, *(Skipped(id) for id in range(count - 1)))
    planned = plan(book, [same(f"echo {id}") for id in range(count)], Again())
    assert len(planned.reruns) == 1
    assert planned.rerun.total() == count
    stuck = chain(Killed(), *(Skipped(id) for id in range(count - 1)))
    assert plan(stuck, [same(f"echo {id}") for id in range(count)], Again()).reruns == ()


@pytest.mark.parametrize(
    ("state", "rerun"),
    [(Succeeded(), True), (Killed(), False), (Lost("x"), False), (Failed(1), True), (Queued(0.0), False)],
)
def test_what_succeeded_and_is_gone_is_run_again(state: State, rerun: bool) -> None:
    planned = plan(Book([known(state)]), [same()], Again(), Results(gone=(0,)))
    assert bool(planned.reruns) is rerun


def test_what_is_there_and_not_known_is_not_added() -> None:
    specs = [same("echo a"), same("echo b"), same("echo c")]
    planned = plan(Book([known(Failed(1))]), specs, Again(), Results(there=(0, 1)))
    assert [new.command for new in planned.new] == ["echo c"]
    assert len(planned.reruns) == 1
    assert planned.sentence("f").startswith("3 in f: 1 new, 1 failed (rerun), 1 there before (skipped).")
    assert len(plan(Book([]), specs, ALL, Results(there=(0, 1))).new) == 3


def test_what_failed_while_the_load_was_on_its_way_has_had_its_run() -> None:
    attempt = Attempt(1, ("0",), 100.0, 110.0, Failed(1), 1, "exit code 1", "")
    book = Book([replace(known(Failed(1)), attempts=(attempt,))])
    for again in (NEVER, ALL):
        assert plan(book, [same()], replace(again, ended_before=111.0)).reruns
        assert not plan(book, [same()], replace(again, ended_before=105.0)).reruns


def test_what_failed_before_the_clock_was_set_back_is_rerun() -> None:
    attempt = Attempt(1, ("0",), 7100.0, 7110.0, Failed(1), 1, "exit code 1", "")
    book = Book([replace(known(Failed(1)), attempts=(attempt,))])
    assert plan(book, [same()], replace(ALL, ended_before=105.0), now=106.0).reruns
