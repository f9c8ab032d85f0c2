"""The history of a job."""

from __future__ import annotations

from msgspec.structs import replace
from support.app import job

from gputui.core.job import Attempt, Failed, Placed, Running
from gputui.core.scheduler import HistoryEntry
from gputui.session.control.handlers import history_lines


def test_a_history_is_in_order_also_within_one_turn() -> None:
    attempts = (
        Attempt(1, ("0",), 10.0, 12.0, Failed(1), 1, "exit code 1", "e"),
        Attempt(2, ("0",), 12.0, 12.0, Failed(1), 1, "exit code 1", "e"),
    )
    active = Running(Placed(3, (0,), ("1",), 20.0, "e"), 77)
    shown = replace(job(0, active), added=5.0, attempts=attempts)
    moments = [
        HistoryEntry(0, 5.0, "held by the user"),
        HistoryEntry(0, 10.0, "released by the user"),
        HistoryEntry(0, 12.0, "retry 1 of 1"),
        HistoryEntry(0, 20.0, "rerun by the user"),
    ]
    assert [line.text for line in history_lines(shown, moments)] == [
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
