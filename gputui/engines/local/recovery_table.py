"""What to do about an attempt that the store says is under way, when a new owner opens it: one table."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

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
from gputui.engines.protocol import Since


class Decision(Enum):
    FINISHED = auto()
    """Its end is written down."""
    ADOPT = auto()
    """It runs: watch it."""
    REVOKE = auto()
    """It has not begun: take the claim before its wrapper can."""
    REQUEUE = auto()
    """It never ran and never will."""
    LOST = auto()
    """It may have run; nobody saw its end. Never run again by itself."""
    LOOK_AGAIN = auto()
    """It is being decided right now, or cannot be read."""


class Wrapper(Enum):
    """What is known of the attempt's wrapper: alive means it bears the token and leads its session."""

    ALIVE = auto()
    DEAD = auto()


class Row(NamedTuple):
    """The verdicts on one kind of claim; `unsure` where neither processes nor an absent claim tell anything: after a
    reboot, and in a copy."""

    alive: Decision
    dead: Decision
    unsure: Decision


_FINISHED, _ADOPT, _REVOKE = Decision.FINISHED, Decision.ADOPT, Decision.REVOKE
_REQUEUE, _LOST, _LOOK_AGAIN = Decision.REQUEUE, Decision.LOST, Decision.LOOK_AGAIN

TABLE: dict[type[Claim], Row] = {
    WrittenExit: Row(alive=_FINISHED, dead=_FINISHED, unsure=_FINISHED),
    FolderGone: Row(alive=_FINISHED, dead=_FINISHED, unsure=_FINISHED),
    # Whoever creates the claim first has decided, so a late wrapper does no harm; one that runs already is found then.
    Absent: Row(alive=_REVOKE, dead=_REVOKE, unsure=_LOST),
    # After a power cut the store may have lost the attempts that came after a revoked one.
    Revoked: Row(alive=_ADOPT, dead=_REQUEUE, unsure=_LOST),
    # After a power cut a claim may be empty, or missing, although the command ran.
    Empty: Row(alive=_LOOK_AGAIN, dead=_REQUEUE, unsure=_LOST),
    Claimed: Row(alive=_ADOPT, dead=_LOST, unsure=_LOST),
    BatchBegun: Row(alive=_LOST, dead=_LOST, unsure=_LOST),  # a cluster's, which has rules of its own
    LogFailed: Row(alive=_FINISHED, dead=_FINISHED, unsure=_FINISHED),
    Missing: Row(alive=_ADOPT, dead=_LOST, unsure=_LOST),
    Garbled: Row(alive=_ADOPT, dead=_LOST, unsure=_LOST),
    Unreadable: Row(alive=_LOOK_AGAIN, dead=_LOOK_AGAIN, unsure=_LOOK_AGAIN),
}


def decide(claim: Claim, since: Since, wrapper: Wrapper) -> Decision:
    row = TABLE[type(claim)]
    if since in (Since.REBOOT, Since.COPY):
        return row.unsure
    return row.alive if wrapper is Wrapper.ALIVE and since is Since.NOTHING else row.dead
