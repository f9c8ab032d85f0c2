"""Named steps of the exactly-once protocol, so that tests can kill the process between any two of them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """The steps in the order of the protocol. A step is reached when the event in its name has happened."""

    TURN_BEGUN = "turn begun"
    MARKERS_REMOVED = "markers removed"
    COMMITTED = "committed"
    DIRECTORY_MADE = "directory made"
    SPAWNED = "spawned"
    WATCHED = "watched"
    END_SEEN = "end seen"
    END_NOTED = "end noted in the job's directory"
    CLAIM_REMOVED = "claim removed"
    RECOVERY_BEGUN = "recovery begun"
    REVOKED = "attempt revoked"
    RECOVERED = "recovered"


_witness: Callable[[Step], None] | None = None


def reached(step: Step) -> None:
    if _witness is not None:
        _witness(step)


def watch(witness: Callable[[Step], None] | None) -> None:
    """Call `witness` at every step, or stop calling it if it is None. Only for tests."""
    global _witness
    _witness = witness
