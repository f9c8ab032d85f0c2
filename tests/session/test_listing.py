"""What is listed of jobs: their stories."""

from __future__ import annotations

from msgspec.structs import replace
from support.queues import job

from gputui.core.job import Attempt, Failed, Placed, Running
from gputui.core.scheduler import Moment
from gputui.session.control.answers import story_lines


def test_a_story_is_told_in_the_order_it_happened_also_within_one_turn() -> None:
    attempts = (
        Attempt(1, ("0",), 10.0, 12.0, Failed(1), 1, "exit code 1", "e"),
        Attempt(2, ("0",), 12.0, 12.0, Failed(1), 1, "exit code 1", "e"),
    )
    active = Running(Placed(3, (0,), ("1",), 20.0, "e"), 77)
    told = replace(job(0, active), added=5.0, attempts=attempts)
    moments = [
        Moment(0, 5.0, "held by the user"),
        Moment(0, 10.0, "released by the user"),
        Moment(0, 12.0, "retry 1 of 1"),
        Moment(0, 20.0, "rerun by the user"),
    ]
    assert [line.text for line in story_lines(told, moments)] == [
        "added",
        "held by the user",
        "released by the user",
        "attempt 1 started on GPU 0",
        "attempt 1 failed: exit code 1",
        "retry 1 of 1",
        "attempt 2 started on GPU 0",
        "attempt 2 failed: exit code 1",
        "rerun by the user",
        "attempt 3 started on GPU 1",
    ]
