"""The summary of a session: what it says while jobs run, and after their end."""

from __future__ import annotations

import pytest
from support.core_world import lanes

from gputui.core.events import AddJobs, AttemptEnded, Exited, Spawned
from gputui.core.job import JobSpec
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.scheduler import Record, Scheduler
from gputui.views.summary import Summary, ended_at, headline, summarize, summary_lines

NOW = 1000.0
ONE = JobSpec(command="true", cwd="/", environment="")


def at_work(made: tuple[Lane, ...] | None = None) -> Scheduler:
    """Two jobs side by side, one of which has ended after a minute."""
    scheduler = Scheduler(Record(lanes=made or lanes("0 1")))
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


@pytest.mark.parametrize(
    ("kind", "devices", "words", "busy"),
    [
        (DeviceKind.GPU, ("0", "1"), "2 GPUs", "GPUs 75 % busy"),
        (DeviceKind.CPU, (), "2 CPU lanes", "CPU lanes 75 % busy"),
        (DeviceKind.CPU, ("-1", "-1"), "2 CPU lanes", "CPU lanes 75 % busy"),
    ],
)
def test_lanes_without_a_gpu_are_never_called_one(
    kind: DeviceKind, devices: tuple[str, ...], words: str, busy: str
) -> None:
    made = tuple(Lane(number, devices[number : number + 1], kind) for number in range(2))
    scheduler = at_work(made)
    end(scheduler, 1, NOW + 120)
    summary = summary_of(scheduler, NOW + 120)
    assert summary.device_words(len(summary.devices)) == words
    assert busy in headline(summary)
    assert bool(summary.gpu_seconds) == ("GPU" in words)
    assert all(("GPU" in line) == ("GPU" in words) for line in summary_lines(summary, NOW + 120)[-2:])
