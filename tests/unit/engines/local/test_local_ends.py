"""The outcome of an attempt whose wrapper has ended."""

from __future__ import annotations

import pytest

from gputui.core import events
from gputui.core.events import NeverRan, NoRoom, NotStarted, Outcome, Vanished
from gputui.engines.claims import (
    Absent,
    Claim,
    Claimed,
    DirectoryGone,
    Empty,
    Garbled,
    Missing,
    Revoked,
    Unreadable,
    WrittenExit,
)
from gputui.engines.local.recovery import WaitStatus, command_may_live, outcome_of

KILLED = WaitStatus(signal=9)
CASES: list[tuple[Claim, WaitStatus | None, type[Outcome]]] = [
    (WrittenExit(3, 1.0), None, events.Exited), (WrittenExit(3, 1.0), KILLED, events.Exited),
    (DirectoryGone(1.0), WaitStatus(code=126), NotStarted), (Revoked(), WaitStatus(code=125), NeverRan),
    (Absent(), WaitStatus(code=125), NoRoom), (Empty(), WaitStatus(code=125), NoRoom),
    (Absent(), WaitStatus(code=0), events.Exited), (Empty(), WaitStatus(code=0), events.Exited),
    (Missing(), WaitStatus(code=0), events.Exited), (Missing(), KILLED, Vanished), (Missing(), None, Vanished),
    (Absent(), None, Vanished), (Absent(), KILLED, Vanished), (Empty(), KILLED, NeverRan),
    (Claimed(7), KILLED, Vanished), (Claimed(7), None, Vanished), (Claimed(7), WaitStatus(code=42), events.Exited),
    (Claimed(7), WaitStatus(code=125), Vanished), (Garbled(), WaitStatus(code=0), Vanished),
    (Unreadable("EIO"), WaitStatus(code=0), events.Exited), (Unreadable("EIO"), WaitStatus(code=126), Vanished),
    (Unreadable("EIO"), None, Vanished),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "status", "kind"), CASES)
def test_every_way_to_end_is_understood(claim: Claim, status: WaitStatus | None, kind: type[Outcome]) -> None:
    assert type(outcome_of(claim, status, "/directory")) is kind


@pytest.mark.parametrize("complaint", [b"sh: 8: Cannot fork\n", b"x\nsh: fork: Resource temporarily unavailable\n"])
def test_a_wrapper_that_could_not_fork_is_no_failure_of_the_job(complaint: bytes) -> None:
    assert isinstance(outcome_of(Claimed(7), WaitStatus(code=2), None, complaint), NoRoom)


def test_a_job_that_only_speaks_of_forks_has_failed() -> None:
    assert outcome_of(Claimed(7), WaitStatus(code=2), None, b"train.py: no fork here\n") == events.Exited(2)


def test_the_sentence_names_the_directory_and_the_signal() -> None:
    assert outcome_of(DirectoryGone(1.0), None, "/data/x") == NotStarted("directory /data/x is gone")
    assert outcome_of(Claimed(7), KILLED, None) == Vanished("its shell was killed by signal 9")


@pytest.mark.parametrize(("status", "orphaned"), [(KILLED, True), (None, True), (WaitStatus(code=125), False)])
def test_only_a_killed_wrapper_leaves_a_running_command(status: WaitStatus | None, orphaned: bool) -> None:
    assert command_may_live(outcome_of(Claimed(7), status, None), status) == orphaned
