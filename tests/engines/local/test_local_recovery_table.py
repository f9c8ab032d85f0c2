"""Every row of the recovery table."""

from __future__ import annotations

from typing import get_args

import pytest

from gputui.engines.claims import (
    Absent,
    BatchBegun,
    Claim,
    Claimed,
    Empty,
    FolderGone,
    Garbled,
    LogFailed,
    Missing,
    Revoked,
    Unreadable,
    WrittenExit,
)
from gputui.engines.local.recovery import TABLE, Decision, Wrapper, decide
from gputui.engines.protocol import Since

ROWS: list[tuple[Claim, Decision, Decision, Decision]] = [
    # claim, wrapper alive, wrapper dead, another boot or a copy
    (WrittenExit(0, 1.0), Decision.FINISHED, Decision.FINISHED, Decision.FINISHED),
    (FolderGone(1.0), Decision.FINISHED, Decision.FINISHED, Decision.FINISHED),
    (Absent(), Decision.REVOKE, Decision.REVOKE, Decision.LOST),
    (Revoked(), Decision.ADOPT, Decision.REQUEUE, Decision.LOST),
    (Empty(), Decision.LOOK_AGAIN, Decision.REQUEUE, Decision.LOST),
    (Claimed(7), Decision.ADOPT, Decision.LOST, Decision.LOST),
    (Missing(), Decision.ADOPT, Decision.LOST, Decision.LOST),
    (Garbled(), Decision.ADOPT, Decision.LOST, Decision.LOST),
    (Unreadable("EIO"), Decision.LOOK_AGAIN, Decision.LOOK_AGAIN, Decision.LOOK_AGAIN),
    (BatchBegun(7, "n1", 5.0, ("n1:0",)), Decision.LOST, Decision.LOST, Decision.LOST),
    (LogFailed(5.0), Decision.FINISHED, Decision.FINISHED, Decision.FINISHED),
]


@pytest.mark.parametrize(("claim", "alive", "dead", "other"), ROWS)
def test_each_claim_has_its_verdict(claim: Claim, alive: Decision, dead: Decision, other: Decision) -> None:
    assert decide(claim, Since.NOTHING, Wrapper.ALIVE) is alive
    assert decide(claim, Since.NOTHING, Wrapper.DEAD) is dead
    for wrapper in Wrapper:
        assert decide(claim, Since.WORLD_ENDED, wrapper) is dead
        assert decide(claim, Since.REBOOT, wrapper) is other
        assert decide(claim, Since.COPY, wrapper) is other


def test_the_table_knows_every_kind_of_claim() -> None:
    assert set(TABLE) == set(get_args(Claim)) == {type(row[0]) for row in ROWS}


@pytest.mark.parametrize("claim", [row[0] for row in ROWS])
def test_nothing_that_may_have_run_is_queued_again(claim: Claim) -> None:
    verdicts = {decide(claim, Since.NOTHING, wrapper) for wrapper in Wrapper}
    if isinstance(claim, Claimed | WrittenExit | Missing | Garbled):
        assert not verdicts & {Decision.REVOKE, Decision.REQUEUE}
