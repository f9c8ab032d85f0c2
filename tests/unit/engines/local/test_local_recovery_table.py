"""Promises of the recovery table."""

from __future__ import annotations

import pytest

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
from gputui.engines.local.recovery import TABLE, Decision, Wrapper, decide
from gputui.engines.protocol import Since

ENDED: tuple[type[Claim], ...] = (WrittenExit, DirectoryGone, LogFailed)


@pytest.mark.parametrize("kind", TABLE)
def test_what_may_have_run_is_never_run_again(kind: type[Claim]) -> None:
    decisions = {decide(kind, since, wrapper) for since in Since for wrapper in Wrapper}
    if kind in (*ENDED, Claimed, Missing, Garbled, Unreadable):
        assert not decisions & {Decision.REVOKE, Decision.REQUEUE}
    if kind in ENDED:
        assert decisions == {Decision.FINISHED}


@pytest.mark.parametrize("kind", TABLE)
def test_a_living_wrapper_with_a_claim_is_never_passed_over(kind: type[Claim]) -> None:
    decision = decide(kind, Since.NOTHING, Wrapper.ALIVE)
    assert decision is not Decision.REQUEUE
    assert (decision is Decision.REVOKE) is (kind is Absent)


@pytest.mark.parametrize("since", [Since.NOTHING, Since.WORLD_ENDED])
def test_what_cannot_have_run_is_queued_again(since: Since) -> None:
    decisions = {kind: decide(kind, since, Wrapper.DEAD) for kind in (Absent, Revoked, Empty)}
    assert decisions == {Absent: Decision.REVOKE, Revoked: Decision.REQUEUE, Empty: Decision.REQUEUE}


@pytest.mark.parametrize("kind", TABLE)
@pytest.mark.parametrize("since", [Since.REBOOT, Since.COPY])
def test_after_a_reboot_and_in_a_copy_only_a_recorded_end_counts(kind: type[Claim], since: Since) -> None:
    expected = Decision.FINISHED if kind in ENDED else Decision.RETRY if kind is Unreadable else Decision.LOST
    assert {decide(kind, since, wrapper) for wrapper in Wrapper} == {expected}


@pytest.mark.parametrize("kind", TABLE)
def test_only_a_wrapper_of_this_boot_is_adopted(kind: type[Claim]) -> None:
    assert decide(kind, Since.NOTHING, Wrapper.DEAD) is not Decision.ADOPT
    for wrapper in Wrapper:
        assert decide(kind, Since.WORLD_ENDED, wrapper) is decide(kind, Since.NOTHING, Wrapper.DEAD)
