"""The steps of the exactly-once protocol, by name, so that tests can end the process between any two of them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """Each is reached after what it names has happened; the order is the order of the protocol."""

    TURN_BEGUN = "turn begun"
    MARKERS_REMOVED = "markers removed"
    COMMITTED = "committed"
    FOLDER_MADE = "folder made"
    SPAWNED = "spawned"
    WATCHED = "watched"
    END_SEEN = "end seen"
    END_NOTED = "end noted in the job's folder"
    CLAIM_REMOVED = "claim removed"
    RECOVERY_BEGUN = "recovery begun"
    REVOKED = "attempt revoked"
    RECOVERED = "recovered"


_witness: Callable[[Step], None] | None = None


def reached(step: Step) -> None:
    if _witness is not None:
        _witness(step)


def watch(witness: Callable[[Step], None] | None) -> None:
    """For tests only: calls `witness` at every step."""
    global _witness
    _witness = witness
