"""The summary of a session: what it says while jobs run, and after their end."""

from __future__ import annotations

from support.core_world import lanes

from gputui.core.events import AddJobs, AttemptEnded, Exited, Spawned
from gputui.core.job import JobSpec
from gputui.core.scheduler import Record, Scheduler
from gputui.views.summary import Summary, ended_at, summarize

NOW = 1000.0
ONE = JobSpec(command="true", cwd="/", environment="")


def at_work() -> Scheduler:
    """Two jobs side by side, one of which has ended after a minute."""
    scheduler = Scheduler(Record(lanes=lanes("0 1")))
    scheduler.handle(AddJobs((ONE, ONE)), NOW)
    scheduler.place(NOW)
    for job in (0, 1):
        scheduler.handle(Spawned(job=job, attempt=1, pid=7 + job), NOW)
    end(scheduler, 0, NOW + 60)
    return scheduler


def end(scheduler: Scheduler, job: int, at: float) -> None:
    scheduler.handle(AttemptEnded(job=job, attempt=1, outcome=Exited(0), at=at), at)


def summary_of(scheduler: Scheduler, now: float) -> Summary:
    return summarize(scheduler.snapshot(), now)


def test_a_session_has_no_end_while_a_job_runs() -> None:
    scheduler = at_work()
    summary = summary_of(scheduler, NOW + 90)
    assert (summary.began, summary.ended, summary.wall) == (NOW, None, 90)
    assert ended_at(summary, NOW + 90).startswith("since ")
    end(scheduler, 1, NOW + 120)
    summary = summary_of(scheduler, NOW + 500)
    assert (summary.ended, summary.wall) == (NOW + 120, 120)
    assert " – " in ended_at(summary, NOW + 500)


def test_a_session_in_which_nothing_ran_took_no_time() -> None:
    summary = summary_of(Scheduler(Record(lanes=lanes("0"))), NOW)
    assert (summary.began, summary.ended, summary.wall, ended_at(summary, NOW)) == (None, None, 0, "")
