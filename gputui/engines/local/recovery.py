"""Decide what to do with attempts that a dead owner left running, and determine an attempt's outcome."""

from __future__ import annotations

import os
import re
from enum import Enum, auto
from typing import NamedTuple

from gputui.core import events
from gputui.core.events import NeverRan, NoRoom, NotStarted, Outcome, Vanished
from gputui.engines import claims
from gputui.engines.protocol import STARTED_BEFORE, Since
from gputui.process import processes

from .spawn import CLAIM_FAILED, DIRECTORY_FAILED


class Decision(Enum):
    FINISHED = auto()
    """The attempt's end has been recorded."""
    ADOPT = auto()
    """The attempt is running and must be watched."""
    REVOKE = auto()
    """The attempt has not begun. Its claim must be created before its wrapper creates it."""
    REQUEUE = auto()
    """The attempt never ran and never will."""
    LOST = auto()
    """The attempt may have run, and its end is unknown. It must never be rerun automatically."""
    RETRY = auto()
    """The claim is being written or cannot be read at the moment."""


class Row(NamedTuple):
    """Decisions for one kind of claim, depending on whether the wrapper is alive or dead.

    `unsure` applies after a reboot or in a copied session, where neither processes nor a missing claim prove anything.
    """

    alive: Decision
    dead: Decision
    unsure: Decision


_FINISHED, _ADOPT, _REVOKE = Decision.FINISHED, Decision.ADOPT, Decision.REVOKE
_REQUEUE, _LOST, _RETRY = Decision.REQUEUE, Decision.LOST, Decision.RETRY

TABLE: dict[type[claims.Claim], Row] = {
    claims.WrittenExit: Row(alive=_FINISHED, dead=_FINISHED, unsure=_FINISHED),
    claims.DirectoryGone: Row(alive=_FINISHED, dead=_FINISHED, unsure=_FINISHED),
    # Whoever creates the claim decides. A wrapper that comes later exits. If one came earlier, the creation fails.
    claims.Absent: Row(alive=_REVOKE, dead=_REVOKE, unsure=_LOST),
    # After a power cut, attempts later than the revoked one may be missing from the store.
    claims.Revoked: Row(alive=_ADOPT, dead=_REQUEUE, unsure=_LOST),
    # After a power cut, a claim may be empty or missing although the command ran.
    claims.Empty: Row(alive=_RETRY, dead=_REQUEUE, unsure=_LOST),
    claims.Claimed: Row(alive=_ADOPT, dead=_LOST, unsure=_LOST),
    claims.BatchStarted: Row(alive=_LOST, dead=_LOST, unsure=_LOST),  # never a local attempt
    claims.LogFailed: Row(alive=_FINISHED, dead=_FINISHED, unsure=_FINISHED),
    claims.Missing: Row(alive=_ADOPT, dead=_LOST, unsure=_LOST),
    claims.Garbled: Row(alive=_ADOPT, dead=_LOST, unsure=_LOST),
    claims.Unreadable: Row(alive=_RETRY, dead=_RETRY, unsure=_RETRY),
}


def decide(claim: type[claims.Claim], since: Since, *, alive: bool) -> Decision:
    """Return what to do with an attempt. `alive`: a process has its token and leads its kernel session."""
    row = TABLE[claim]
    if since in (Since.REBOOT, Since.COPY):
        return row.unsure
    return row.alive if alive and since is Since.NOTHING else row.dead


# The outcome of a wrapper's end


def exit_status(result: os.waitid_result | None) -> int | None:
    """Return a wrapper's exit code or, negated, the signal that killed it. None if it was not our child."""
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def outcome_of(claim: claims.Claim, status: int | None, directory: str | None, log_tail: bytes = b"") -> Outcome:
    """Return the outcome of an attempt whose wrapper is dead. `directory` is the job's directory, if known."""
    code = None if status is None or status < 0 else status
    match claim:
        case claims.WrittenExit(code=written):
            return events.Exited(written)
        case claims.DirectoryGone():
            return NotStarted(f"directory {directory} is gone" if directory else "its directory is gone")
        case claims.Revoked():
            return NeverRan()
        case claims.Absent() | claims.Empty() | claims.Missing() if code == CLAIM_FAILED:
            return NoRoom("cannot write its run record: is the disk full or read-only?")
        case claims.Claimed() | claims.Absent() | claims.Empty() | claims.Missing() if code not in (None, CLAIM_FAILED):
            return _without_exit_record(code, log_tail)
        case claims.Unreadable() if code not in (None, CLAIM_FAILED, DIRECTORY_FAILED):
            return events.Exited(code)
        case claims.Empty():
            # The command starts only after the first line is written. A missing claim may have been deleted.
            return NeverRan()
    return Vanished(_how_it_died(status))


def command_may_live(outcome: Outcome, status: int | None) -> bool:
    """Return whether the command may still be running because its wrapper was killed instead of waiting for it."""
    return isinstance(outcome, Vanished) and (status is None or status < 0)


def _without_exit_record(code: int, log_tail: bytes) -> Outcome:
    """Return the outcome by the wrapper's exit code. This is the command's code unless the wrapper could not fork."""
    lines = log_tail.splitlines()
    if code in (2, 254) and lines and lines[-1].startswith(b"sh: ") and re.search(rb"\bfork\b", lines[-1]):
        return NoRoom("cannot start more processes")
    return events.Exited(code)


def _how_it_died(status: int | None) -> str:
    if status is None:
        return "its shell was killed"
    if status < 0:
        return f"its shell was killed by signal {-status}"
    return STARTED_BEFORE


# Finding the wrapper


FIRST_WAIT, LONGEST_WAIT = 0.01, 2.0
"""First and longest wait in seconds between retries for an undecided attempt. The wait doubles after each retry."""
UNSEEN = "its shell was killed while gputui was not running"
UNKNOWN = "its run record is missing or damaged"
TO_SEEK = claims.Empty | claims.Missing | claims.Garbled | claims.Revoked
"""Claims that contain no pid, so that the wrapper has to be searched for."""


class Leader(NamedTuple):
    """The live wrapper of an attempt, found by the attempt's token."""

    pid: int
    runs: bool
    """Whether the command has started."""


def find_leader(token: str) -> Leader | OSError | None:
    """Return the oldest session leader with the token, or None if there is none, or the error if the search failed."""
    try:
        members = processes.tree(processes.AttemptMarks(token))
    except OSError as error:
        return error
    leaders = [(stat.started, pid) for pid, stat in members.items() if stat.session == pid]
    return Leader(min(leaders)[1], len(members) > 1) if leaders else None
