"""Acting out the recovery table for the attempts that an earlier owner left under way."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from gputui.core.events import Outcome, Vanished
from gputui.core.job import JobId
from gputui.core.steps import Step, reached
from gputui.engines.claims import Claim, Claimed, Claims, Empty, FolderGone, Garbled, Missing, Revoked, WrittenExit
from gputui.engines.protocol import LEFT_BEHIND, Since, Survivor
from gputui.process import processes
from gputui.process.event_loop import EventLoop
from gputui.process.folder_id import FolderId, lives_elsewhere
from gputui.process.watch import Watch

from .outcomes import outcome_of
from .recovery_table import Decision, Wrapper, decide

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
