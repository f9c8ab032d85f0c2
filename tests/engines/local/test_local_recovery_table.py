"""Every row of the recovery table."""

from __future__ import annotations

from typing import get_args

import pytest

from gputui.engines.local.claims import (
    Absent,
    Claim,
    Claimed,
    Empty,
    FolderGone,
    Garbled,
    Missing,
    Revoked,
    Unreadable,
    WrittenExit,
)
from gputui.engines.local.recovery_table import TABLE, Verdict, Wrapper, decide
from gputui.engines.protocol import Since

ROWS: list[tuple[Claim, Verdict, Verdict, Verdict]] = [
    # claim, wrapper alive, wrapper dead, another boot or a copy
    (WrittenExit(0, 1.0), Verdict.FINISHED, Verdict.FINISHED, Verdict.FINISHED),
    (FolderGone(1.0), Verdict.FINISHED, Verdict.FINISHED, Verdict.FINISHED),
    (Absent(), Verdict.REVOKE, Verdict.REVOKE, Verdict.LOST),
    (Revoked(), Verdict.ADOPT, Verdict.REQUEUE, Verdict.LOST),
    (Empty(), Verdict.LOOK_AGAIN, Verdict.REQUEUE, Verdict.LOST),
    (Claimed(7), Verdict.ADOPT, Verdict.LOST, Verdict.LOST),
    (Missing(), Verdict.ADOPT, Verdict.LOST, Verdict.LOST),
    (Garbled(), Verdict.ADOPT, Verdict.LOST, Verdict.LOST),
    (Unreadable("EIO"), Verdict.LOOK_AGAIN, Verdict.LOOK_AGAIN, Verdict.LOOK_AGAIN),
]


@pytest.mark.parametrize(("claim", "alive", "dead", "other"), ROWS)
def test_each_claim_has_its_verdict(claim: Claim, alive: Verdict, dead: Verdict, other: Verdict) -> None:
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
        assert not verdicts & {Verdict.REVOKE, Verdict.REQUEUE}
