"""How a session stands: RUNNING is said only while something runs, and what it waits for is told by name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.core_validate import validate
from support.core_world import lanes

from gputui.core.events import (
    AddJobs,
    AttemptEnded,
    Drain,
    Event,
    Exited,
    Hold,
    Pause,
    PauseKind,
    Remove,
    SetPriority,
    Spawned,
    Suspend,
)
from gputui.core.job import JobSpec, Request
from gputui.core.scheduler import Record, Scheduler
from gputui.views.status import Standing, Word, awaited, standing

NOW = 1000.0
ONE = JobSpec(command="true", cwd="/", environment="")


def after(*events: Event, placing: bool = True, on: str = "0", owned: bool = True) -> Standing:
    """How a session stands when these have happened, and an owner has placed what it could."""
    scheduler = Scheduler(Record(lanes=lanes(on)))
    for event in events:
        scheduler.handle(event, NOW)
        if placing:
            scheduler.place(NOW)
    validate(scheduler)
    snapshot = scheduler.snapshot()
    return standing(replace(snapshot, awaits=awaited(scheduler, NOW)), owned=owned)


def test_a_session_without_jobs_is_idle() -> None:
    assert after() == Standing(Word.IDLE)


def test_a_session_is_running_while_a_job_runs_whatever_waits() -> None:
    assert after(AddJobs((ONE, ONE))) == Standing(Word.RUNNING)


def test_a_session_whose_jobs_have_all_ended_is_done() -> None:
    over = AttemptEnded(job=0, attempt=1, outcome=Exited(0), at=NOW)
    assert after(AddJobs((ONE,)), Spawned(job=0, attempt=1, pid=7), over) == Standing(Word.DONE)


def test_held_jobs_are_what_it_waits_for() -> None:
    held = (Hold(job=0), Hold(job=1))
    assert after(AddJobs((ONE, ONE)), *held, placing=False) == Standing(
        Word.WAITING, "2 held jobs; release lets them start"
    )


def test_a_job_that_no_lane_fits_says_what_it_needs() -> None:
    big = JobSpec(command="true", cwd="/", environment="", request=Request(gpus=2))
    assert after(AddJobs((big,))) == Standing(Word.WAITING, "needs 2 GPUs; this session has GPU 0")


def test_a_delayed_job_says_why_it_is_delayed() -> None:
    again = JobSpec(command="false", cwd="/", environment="", retries=1)
    failed = AttemptEnded(job=0, attempt=1, outcome=Exited(1), at=NOW)
    stands = after(AddJobs((again,)), Spawned(job=0, attempt=1, pid=7), failed)
    assert stands.word is Word.WAITING
    assert stands.awaits.startswith("#0 waits: ")


@pytest.mark.parametrize("gone", [Hold(job=0), Remove(job=0), SetPriority(job=0, priority=40)])
def test_the_next_delayed_job_is_told_whatever_became_of_an_earlier_one(gone: Event) -> None:
    soon, later = (replace(ONE, not_before=NOW + seconds) for seconds in (60, 600))
    stands = after(AddJobs((soon, later)), gone)
    assert stands.awaits.startswith("#0" if isinstance(gone, SetPriority) else "#1")


def test_a_suspended_job_does_not_run() -> None:
    stands = after(AddJobs((ONE,)), Spawned(job=0, attempt=1, pid=7), Suspend(job=0))
    assert stands == Standing(Word.SUSPENDED, "1 suspended job; continue lets it go on")


def test_waiting_jobs_that_nobody_schedules_are_idle() -> None:
    stands = after(AddJobs((ONE,)), placing=False, owned=False)
    assert stands == Standing(Word.IDLE, "nobody schedules it")


@pytest.mark.parametrize(
    ("event", "word"), [(Pause(PauseKind.USER), Word.PAUSED), (Drain(), Word.DRAINING)], ids=["paused", "draining"]
)
def test_a_pause_and_a_drain_are_told_before_anything_else(event: Event, word: Word) -> None:
    assert after(AddJobs((ONE,)), event) == Standing(word)
