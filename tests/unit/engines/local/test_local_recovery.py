"""Decisions about attempts of earlier owners, and the outcome of an attempt whose wrapper has ended."""

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
    LogFailed,
    Missing,
    Revoked,
    Unreadable,
    WrittenExit,
)
from gputui.engines.local.recovery import TABLE, Decision, command_may_live, decide, outcome_of
from gputui.engines.protocol import Since

ENDED: tuple[type[Claim], ...] = (WrittenExit, DirectoryGone, LogFailed)


@pytest.mark.parametrize("kind", TABLE)
def test_what_may_have_run_is_never_run_again(kind: type[Claim]) -> None:
    decisions = {decide(kind, since, alive=alive) for since in Since for alive in (True, False)}
    if kind in (*ENDED, Claimed, Missing, Garbled, Unreadable):
        assert not decisions & {Decision.REVOKE, Decision.REQUEUE}
    if kind in ENDED:
        assert decisions == {Decision.FINISHED}


@pytest.mark.parametrize("kind", TABLE)
def test_a_living_wrapper_with_a_claim_is_never_passed_over(kind: type[Claim]) -> None:
    decision = decide(kind, Since.NOTHING, alive=True)
    assert decision is not Decision.REQUEUE
    assert (decision is Decision.REVOKE) is (kind is Absent)


@pytest.mark.parametrize("since", [Since.NOTHING, Since.WORLD_ENDED])
def test_what_cannot_have_run_is_queued_again(since: Since) -> None:
    decisions = {kind: decide(kind, since, alive=False) for kind in (Absent, Revoked, Empty)}
    assert decisions == {Absent: Decision.REVOKE, Revoked: Decision.REQUEUE, Empty: Decision.REQUEUE}


@pytest.mark.parametrize("kind", TABLE)
@pytest.mark.parametrize("since", [Since.REBOOT, Since.COPY])
def test_after_a_reboot_and_in_a_copy_only_a_recorded_end_counts(kind: type[Claim], since: Since) -> None:
    expected = Decision.FINISHED if kind in ENDED else Decision.RETRY if kind is Unreadable else Decision.LOST
    assert {decide(kind, since, alive=alive) for alive in (True, False)} == {expected}


@pytest.mark.parametrize("kind", TABLE)
def test_only_a_wrapper_of_this_boot_is_adopted(kind: type[Claim]) -> None:
    assert decide(kind, Since.NOTHING, alive=False) is not Decision.ADOPT
    for alive in (True, False):
        assert decide(kind, Since.WORLD_ENDED, alive=alive) is decide(kind, Since.NOTHING, alive=False)


KILLED = -9
CASES: list[tuple[Claim, int | None, type[Outcome]]] = [
    (WrittenExit(3, 1.0), None, events.Exited), (WrittenExit(3, 1.0), KILLED, events.Exited),
    (DirectoryGone(1.0), 126, NotStarted), (Revoked(), 125, NeverRan),
    (Absent(), 125, NoRoom), (Empty(), 125, NoRoom),
    (Absent(), 0, events.Exited), (Empty(), 0, events.Exited),
    (Missing(), 0, events.Exited), (Missing(), KILLED, Vanished), (Missing(), None, Vanished),
    (Absent(), None, Vanished), (Absent(), KILLED, Vanished), (Empty(), KILLED, NeverRan),
    (Claimed(7), KILLED, Vanished), (Claimed(7), None, Vanished), (Claimed(7), 42, events.Exited),
    (Claimed(7), 125, Vanished), (Garbled(), 0, Vanished),
    (Unreadable(), 0, events.Exited), (Unreadable(), 126, Vanished),
    (Unreadable(), None, Vanished),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "status", "kind"), CASES)
def test_every_way_to_end_is_understood(claim: Claim, status: int | None, kind: type[Outcome]) -> None:
    assert type(outcome_of(claim, status, "/directory")) is kind


@pytest.mark.parametrize("complaint", [b"sh: 8: Cannot fork\n", b"x\nsh: fork: Resource temporarily unavailable\n"])
def test_a_wrapper_that_could_not_fork_is_no_failure_of_the_job(complaint: bytes) -> None:
    assert isinstance(outcome_of(Claimed(7), 2, None, complaint), NoRoom)


def test_a_job_that_only_speaks_of_forks_has_failed() -> None:
    assert outcome_of(Claimed(7), 2, None, b"train.py: no fork here\n") == events.Exited(2)


def test_the_sentence_names_the_directory_and_the_signal() -> None:
    assert outcome_of(DirectoryGone(1.0), None, "/data/x") == NotStarted("directory /data/x is gone")
    assert outcome_of(Claimed(7), KILLED, None) == Vanished("its shell was killed by signal 9")


@pytest.mark.parametrize(("status", "orphaned"), [(KILLED, True), (None, True), (125, False)])
def test_only_a_killed_wrapper_leaves_a_running_command(status: int | None, orphaned: bool) -> None:
    assert command_may_live(outcome_of(Claimed(7), status, None), status) == orphaned
