"""Recovery after an owner's death: what to do about each attempt, and what a wrapper's end means."""

from __future__ import annotations

import os
import re
from enum import Enum, auto
from typing import NamedTuple, Protocol

from msgspec import Struct

from gputui.core import events
from gputui.core.events import NeverRan, NoRoom, NotStarted, Outcome, Vanished
from gputui.core.job import JobId
from gputui.core.steps import Step, reached
from gputui.engines.claims import (
    Absent,
    BatchBegun,
    Claim,
    Claimed,
    Claims,
    Empty,
    FolderGone,
    Garbled,
    LogFailed,
    Missing,
    Revoked,
    Unreadable,
    WrittenExit,
)
from gputui.engines.protocol import LEFT_BEHIND, Since, Survivor
from gputui.process import processes
from gputui.process.directories import FolderId, lives_elsewhere
from gputui.process.watch import EventLoop, Watch

from .spawn import CLAIM_FAILED, FOLDER_FAILED

# ---- What to do about an attempt that the store says is under way, when a new owner opens it ----


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


# ---- What a wrapper's end means ----


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


# ---- Acting out the recovery table for the attempts that an earlier owner left under way ----


FIRST_WAIT, LONGEST_WAIT = 0.01, 2.0
"""Seconds between looks at an attempt that cannot be decided yet; doubled each time."""
UNSEEN = "the shell around it was killed while nobody watched"
UNKNOWN = "the record of its run was taken away or damaged"
_TO_SEEK = Empty | Missing | Garbled | Revoked
"""Claims that do not tell whether a wrapper lives."""


class Leader(NamedTuple):
    """The attempt's wrapper, found alive by its token."""

    pid: int
    runs: bool
    """Its command has begun."""


class Findings(Protocol):
    """What the engine does about what was found."""

    def token(self, job: JobId, attempt: int) -> str: ...

    def adopt(self, survivor: Survivor, watch: Watch) -> None: ...

    def over(self, survivor: Survivor, outcome: Outcome, at: float | None) -> None: ...

    def revoked(self, survivor: Survivor) -> None: ...

    def lost(self, survivor: Survivor, wrapper: int | None, why: str) -> None: ...


class Adoption:
    """`private`: the folder that every wrapper of this session holds."""

    def __init__(self, loop: EventLoop, claims: Claims, private: FolderId, findings: Findings) -> None:
        self._loop = loop
        self._claims = claims
        self._private = private
        self._findings = findings
        self._closed = False

    def close(self) -> None:
        self._closed = True

    def decide(self, survivor: Survivor, wait: float = FIRST_WAIT) -> None:
        if self._closed:
            return
        claim = self._read(survivor)
        if survivor.since is Since.NOTHING and isinstance(claim, Claimed):
            self._meet_wrapper(survivor, claim.pid, claim, wait)
        elif survivor.since is Since.NOTHING and isinstance(claim, _TO_SEEK):
            self._seek_wrapper(survivor, wait)
        else:
            self._act(survivor, claim, Wrapper.DEAD, wait)

    def _meet_wrapper(self, survivor: Survivor, pid: int, claim: Claim, wait: float) -> None:
        # Pinned before it is checked: the number cannot pass to another process in between.
        watch = Watch(pid)
        try:
            is_the_wrapper = processes.leads_attempt(pid, self._token(survivor))
        except OSError:
            watch.close()
            self._look_later(survivor, wait)
            return
        if is_the_wrapper and lives_elsewhere(pid, self._private):
            watch.close()
            self._findings.over(survivor, Vanished(LEFT_BEHIND[Since.COPY]), None)
        elif is_the_wrapper:
            self._findings.adopt(survivor, watch)
        else:
            watch.close()
            self._wrapper_is_gone(survivor, claim)

    def _wrapper_is_gone(self, survivor: Survivor, claim: Claim) -> None:
        now = self._read(survivor)
        ended_meanwhile = isinstance(now, WrittenExit | FolderGone)
        self._act(survivor, now if ended_meanwhile else claim, Wrapper.DEAD, FIRST_WAIT)

    def _seek_wrapper(self, survivor: Survivor, wait: float) -> None:
        """Its pid is not written, so all processes are searched for the token."""
        token = self._token(survivor)
        self._loop.run_in_thread(lambda: _leader(token), lambda leader: self._sought(survivor, leader, wait))

    def _sought(self, survivor: Survivor, leader: Leader | OSError | None, wait: float) -> None:
        if self._closed:
            return
        claim = self._read(survivor)
        if isinstance(leader, OSError):
            self._look_later(survivor, wait)
        elif not isinstance(claim, _TO_SEEK):
            self.decide(survivor, wait)
        elif leader is None:
            self._act(survivor, claim, Wrapper.DEAD, wait)
        elif isinstance(claim, Empty) and not leader.runs:
            self._act(survivor, claim, Wrapper.ALIVE, wait)
        else:
            self._meet_leader(survivor, leader, claim, wait)

    def _meet_leader(self, survivor: Survivor, leader: Leader, claim: Claim, wait: float) -> None:
        if leader.runs:
            self._claims.restore(survivor.job, survivor.attempt, leader.pid)
        self._meet_wrapper(survivor, leader.pid, claim, wait)

    def _act(self, survivor: Survivor, claim: Claim, wrapper: Wrapper, wait: float) -> None:
        match decide(claim, survivor.since, wrapper):
            case Decision.FINISHED:
                at = claim.at if isinstance(claim, WrittenExit | FolderGone) else None
                self._findings.over(survivor, outcome_of(claim, None, None), at)
            case Decision.REVOKE:
                self._revoke(survivor, wait)
            case Decision.REQUEUE:
                self._findings.revoked(survivor)
            case Decision.LOOK_AGAIN:
                self._look_later(survivor, wait)
            case _:
                self._give_up(survivor, claim)

    def _revoke(self, survivor: Survivor, wait: float) -> None:
        self._claims.make_folder()
        try:
            revoked = self._claims.revoke(survivor.job, survivor.attempt)
        except OSError:
            self._look_later(survivor, wait)
            return
        if revoked:
            reached(Step.REVOKED)
        self.decide(survivor, wait)

    def _look_later(self, survivor: Survivor, wait: float) -> None:
        """For as long as it takes: a job must not be harmed because we cannot read."""
        self._loop.call_later(wait, lambda: self.decide(survivor, min(wait * 2, LONGEST_WAIT)))

    def _give_up(self, survivor: Survivor, claim: Claim) -> None:
        if survivor.since is not Since.NOTHING:
            # Pids of another world mean nothing here: nothing is signalled.
            self._findings.over(survivor, Vanished(LEFT_BEHIND[survivor.since]), None)
        elif isinstance(claim, Claimed):
            self._findings.lost(survivor, claim.pid, UNSEEN)
        else:
            self._findings.lost(survivor, None, UNKNOWN)

    def _read(self, survivor: Survivor) -> Claim:
        return self._claims.read_beside(survivor.job, survivor.attempt, survivor.out)

    def _token(self, survivor: Survivor) -> str:
        return self._findings.token(survivor.job, survivor.attempt)


def _leader(token: str) -> Leader | OSError | None:
    """The attempt's wrapper, if it lives: its oldest leader of a session. Who cannot look says so."""
    try:
        members = processes.tree(processes.Marks(token))
    except OSError as error:
        return error
    leaders = [(stat.started, pid) for pid, stat in members.items() if stat.session == pid]
    return Leader(min(leaders)[1], len(members) > 1) if leaders else None
