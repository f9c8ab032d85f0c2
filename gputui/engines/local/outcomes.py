"""What a wrapper's end means: pure, from its claim and the status it left."""

from __future__ import annotations

import os
import re

from msgspec import Struct

from gputui.core import events
from gputui.core.events import NeverRan, NoRoom, NotStarted, Outcome, Vanished
from gputui.engines.claims import Absent, Claim, Claimed, Empty, FolderGone, Missing, Revoked, Unreadable, WrittenExit

from .wrapper import CLAIM_FAILED, FOLDER_FAILED

STARTED_BEFORE = "this attempt was started before"

_NO_FORK = re.compile(rb"\bfork\b")


class WaitStatus(Struct, frozen=True):
    """How the wrapper ended: by itself with a code, or by a signal."""

    code: int | None = None
    signal: int | None = None

    @classmethod
    def of(cls, result: os.waitid_result | None) -> WaitStatus | None:
        """None: it was not our child, so nobody told us."""
        if result is None:
            return None
        if result.si_code == os.CLD_EXITED:
            return cls(code=result.si_status)
        return cls(signal=result.si_status)


def outcome_of(claim: Claim, status: WaitStatus | None, folder: str | None, log_tail: bytes = b"") -> Outcome:
    """What became of an attempt whose wrapper is dead. `folder` None: the job's, not known any more."""
    code = status.code if status is not None else None
    match claim:
        case WrittenExit(code=written):
            return events.Exited(written)
        case FolderGone():
            return NotStarted(f"the folder {folder} is gone" if folder else "its folder is gone")
        case Revoked():
            return NeverRan()
        case Absent() | Empty() | Missing() if code == CLAIM_FAILED:
            return NoRoom("the record of its run could not be written: is the disk full or read-only?")
        case Claimed() | Absent() | Empty() | Missing() if code not in (None, CLAIM_FAILED):
            return _without_exit_record(code, log_tail)
        case Unreadable() if code not in (None, CLAIM_FAILED, FOLDER_FAILED):
            return events.Exited(code)
        case Empty():
            # The command runs only after the claim; one that is gone may have been taken away.
            return NeverRan()
    return Vanished(_how_it_died(status))


def command_may_live(outcome: Outcome, status: WaitStatus | None) -> bool:
    """The wrapper was taken away from its command; one that ended by itself had waited for it."""
    return isinstance(outcome, Vanished) and (status is None or status.code is None)


def _without_exit_record(code: int, log_tail: bytes) -> Outcome:
    """The record could not be written, but the wrapper passed the code on; unless it could not even fork."""
    lines = log_tail.splitlines()
    if code in (2, 254) and lines and lines[-1].startswith(b"sh: ") and _NO_FORK.search(lines[-1]):
        return NoRoom("no further process could be started for it")
    return events.Exited(code)


def _how_it_died(status: WaitStatus | None) -> str:
    if status is None:
        return "the shell around it was killed"
    if status.signal is not None:
        return f"the shell around it was killed by signal {status.signal}"
    return STARTED_BEFORE
