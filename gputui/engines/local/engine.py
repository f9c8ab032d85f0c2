"""The engine that starts, watches, recovers and stops attempts on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec.structs import replace

from gputui.core import events
from gputui.core.job import JobId, Purpose
from gputui.core.steps import Step, reached
from gputui.engines import claims
from gputui.engines.protocol import LEFT_BEHIND, Launch, Report, Since, Survivor
from gputui.process import processes
from gputui.process.directories import DirectoryId, lives_elsewhere
from gputui.process.watch import Cancel, EventLoop, Watch

from . import spawn
from .recovery import (
    FIRST_WAIT,
    LONGEST_WAIT,
    TO_SEEK,
    UNKNOWN,
    UNSEEN,
    Decision,
    Leader,
    command_may_live,
    decide,
    exit_status,
    find_leader,
    outcome_of,
)
from .spawn import Crew
from .stop import Key, LiveAttempt, Order, Stopper, signal_once

READ_TRIES, READ_INTERVAL = 50, 0.1
"""How often an unreadable claim is read before its ended attempt counts as lost, and the seconds between reads."""
LOOK_EVERY = 2.0
"""Seconds between checks for stopped wrappers. The kernel notifies only the parent, which may be another process."""
_LOG_TAIL = 200
_CLAIMS_OF_WRAPPERS = claims.Claims.of(spawn.SESSION)


class LocalEngine(claims.ClaimedAttempts):
    """Engine that runs attempts on this machine. Every wrapper inherits `private`, the session's private directory."""

    def __init__(self, loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> None:
        super().__init__(private, session)
        self._loop = loop
        self._private = private
        self._report = report
        self._live: dict[Key, LiveAttempt] = {}
        self._undecided: dict[Key, Order | None] = {}
        """Recovered attempts that are still undecided, each with its latest order."""
        self._crew: Crew[Launch, int | events.Outcome] = Crew(self._spawn)
        self._stopper = Stopper(loop, self._report_end)
        self._directory = DirectoryId.of(private)
        self._closed = False
        self._wake_timer: Cancel | None = None

    def start(self, launches: Iterable[Launch]) -> None:
        self._claims.make_directory()
        for launch, started in self._crew.each(launches):
            self._started(launch, started)

    def _spawn(self, launch: Launch) -> int | events.Outcome:
        """Start the wrapper and return its pid. May be called in any thread."""
        key = (launch.job, launch.attempt)
        arguments = spawn.arguments(launch, _CLAIMS_OF_WRAPPERS.path(*key))
        environment = spawn.variables(launch.environment, self.token(*key))
        held = {spawn.SESSION: self._private} | ({} if launch.lease is None else {spawn.LEASE: launch.lease})
        try:
            return spawn.spawn(arguments, environment, *_logs(launch), held)
        finally:
            if launch.directory is not None:
                os.close(launch.directory)

    def _started(self, launch: Launch, started: int | events.Outcome) -> None:
        key = (launch.job, launch.attempt)
        if not isinstance(started, int):
            self._report(_ended(key, started))
            return
        reached(Step.SPAWNED)
        live = LiveAttempt(
            key, self._marks(key, started, launch.out, launch.err), Watch(started), launch.out, launch.err, launch.cwd
        )
        self._watch(live)
        reached(Step.WATCHED)
        self._report(events.Spawned(job=launch.job, attempt=launch.attempt, pid=started))

    def recover(self, survivors: list[Survivor]) -> None:
        self._undecided.update({(survivor.job, survivor.attempt): None for survivor in survivors})
        for survivor in survivors:
            self._decide(survivor)

    def carry_out(self, order: events.AttemptInstruction) -> None:
        if not isinstance(order, events.Withdraw):
            self._order((order.job, order.attempt), type(order))

    def gc(self, *, all_dead: bool) -> None:
        self._claims.remove_unwanted(lambda *key: key in self._live or key in self._undecided, all_dead=all_dead)

    def kill_leftovers(self, job: JobId, attempt: int) -> None:
        marks = processes.AttemptMarks(self.token(job, attempt))
        self._loop.run_in_thread(lambda: signal_once(events.KillTree, marks, True), lambda _: None)

    def close(self) -> None:
        self._closed = True
        self._crew.close()
        self._stopper.close()
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        for live in self._live.values():
            if live.watch is not None:
                live.watch.close()
        self._live.clear()
        self._undecided.clear()

    # Recovery of attempts that an earlier owner started

    def _decide(self, survivor: Survivor, wait: float = FIRST_WAIT) -> None:
        if self._closed:
            return
        claim = self._read(survivor)
        if survivor.since is Since.NOTHING and isinstance(claim, claims.Claimed):
            self._check_wrapper(survivor, claim.pid, claim, wait)
        elif survivor.since is Since.NOTHING and isinstance(claim, TO_SEEK):
            self._seek_wrapper(survivor, wait)
        else:
            self._act(survivor, claim, wait)

    def _check_wrapper(self, survivor: Survivor, pid: int, claim: claims.Claim, wait: float) -> None:
        # The process is pinned before it is checked, so that its pid cannot be reused in between.
        watch = Watch(pid)
        try:
            is_the_wrapper = processes.leads_attempt(pid, self.token(survivor.job, survivor.attempt))
        except OSError:
            watch.close()
            self._retry_later(survivor, wait)
            return
        if is_the_wrapper and not lives_elsewhere(pid, self._directory):
            self._adopt(survivor, watch)
            return
        watch.close()
        if is_the_wrapper:
            self._end(survivor, events.Vanished(LEFT_BEHIND[Since.COPY]))
        else:
            now = self._read(survivor)
            ended_meanwhile = isinstance(now, claims.WrittenExit | claims.DirectoryGone)
            self._act(survivor, now if ended_meanwhile else claim, FIRST_WAIT)

    def _seek_wrapper(self, survivor: Survivor, wait: float) -> None:
        """Search all processes for the attempt's token, because the claim contains no pid."""
        token = self.token(survivor.job, survivor.attempt)
        self._loop.run_in_thread(lambda: find_leader(token), lambda leader: self._wrapper_found(survivor, leader, wait))

    def _wrapper_found(self, survivor: Survivor, leader: Leader | OSError | None, wait: float) -> None:
        if self._closed:
            return
        claim = self._read(survivor)
        if isinstance(leader, OSError):
            self._retry_later(survivor, wait)
        elif not isinstance(claim, TO_SEEK):
            self._decide(survivor, wait)
        elif leader is None:
            self._act(survivor, claim, wait)
        elif isinstance(claim, claims.Empty) and not leader.runs:
            self._act(survivor, claim, wait, alive=True)
        else:
            if leader.runs:
                self._claims.restore(survivor.job, survivor.attempt, leader.pid)
            self._check_wrapper(survivor, leader.pid, claim, wait)

    def _act(self, survivor: Survivor, claim: claims.Claim, wait: float, *, alive: bool = False) -> None:
        match decide(type(claim), survivor.since, alive=alive):
            case Decision.FINISHED:
                at = claim.at if isinstance(claim, claims.WrittenExit | claims.DirectoryGone) else None
                self._end(survivor, outcome_of(claim, None, None), at)
            case Decision.REVOKE:
                self._revoke(survivor, wait)
            case Decision.REQUEUE:
                self._revoked.add((survivor.job, survivor.attempt))
                self._end(survivor, events.NeverRan())
            case Decision.RETRY:
                self._retry_later(survivor, wait)
            case _ if survivor.since is not Since.NOTHING:
                # Pids of another boot or namespace are not valid here, so no process is signaled.
                self._end(survivor, events.Vanished(LEFT_BEHIND[survivor.since]))
            case _:
                self._end_as_lost(survivor, claim.pid if isinstance(claim, claims.Claimed) else None)

    def _revoke(self, survivor: Survivor, wait: float) -> None:
        self._claims.make_directory()
        try:
            revoked = self._claims.revoke(survivor.job, survivor.attempt)
        except OSError:
            self._retry_later(survivor, wait)
            return
        if revoked:
            reached(Step.REVOKED)
        self._decide(survivor, wait)

    def _retry_later(self, survivor: Survivor, wait: float) -> None:
        """Try to decide again later. A job must not count as ended only because a file cannot be read."""
        self._loop.call_later(wait, lambda: self._decide(survivor, min(wait * 2, LONGEST_WAIT)))

    def _adopt(self, survivor: Survivor, watch: Watch) -> None:
        job, attempt = key = (survivor.job, survivor.attempt)
        purpose = self._claims.read_file(*key).asked
        live = LiveAttempt(key, self._marks(key, watch.pid, survivor.out), watch, survivor.out, asked=purpose)
        live.signalled = survivor.stopping or purpose is not None
        order = self._undecided.pop(key, None)
        self._watch(live)
        self._report(events.Spawned(job=job, attempt=attempt, pid=watch.pid, adopted=True, requested=purpose))
        if order is not None:
            self._order(key, order)

    def _end(self, survivor: Survivor, outcome: events.Outcome, at: float | None = None) -> None:
        key = (survivor.job, survivor.attempt)
        self._undecided.pop(key, None)
        self._report(_ended(key, outcome, at, self._claims.read_file(*key).asked))

    def _end_as_lost(self, survivor: Survivor, wrapper: int | None) -> None:
        """Kill any remaining processes of the attempt, then report it as lost."""
        key = (survivor.job, survivor.attempt)
        self._undecided.pop(key, None)
        marks = processes.AttemptMarks(self.token(*key), wrapper, logs=(survivor.out,), known={})
        live = self._live[key] = LiveAttempt(key, marks, None, survivor.out, asked=self._claims.read_file(*key).asked)
        self._settle(live, events.Vanished(UNSEEN if wrapper is not None else UNKNOWN), True)

    def _read(self, survivor: Survivor) -> claims.Claim:
        return self._claims.read_with_log(survivor.job, survivor.attempt, survivor.out)

    # Ends of attempts

    def _watch(self, live: LiveAttempt) -> None:
        assert live.watch is not None
        self._live[live.key] = live
        if self._wake_timer is None:
            self._wake_timer = self._loop.call_later(LOOK_EVERY, self._wake_stopped_wrappers)
        live.watch.begin(self._loop, lambda: self._wrapper_ended(live))

    def _wake_stopped_wrappers(self) -> None:
        """Continue stopped wrappers. Stopped commands remain stopped."""
        self._wake_timer = self._loop.call_later(LOOK_EVERY, self._wake_stopped_wrappers) if self._live else None
        for live in self._live.values():
            with suppress(OSError):
                if live.watch is not None and (stat := processes.stat_of(live.watch.pid)) is not None and stat.stopped:
                    live.watch.signal(signal.SIGCONT)

    def _wrapper_ended(self, live: LiveAttempt) -> None:
        assert live.watch is not None
        status = exit_status(live.watch.finish())
        live.watch = None
        reached(Step.END_SEEN)
        if status == 0:
            # The wrapper exits with 0 only if the command did, so the claim need not be read.
            self._settle(live, events.Exited(0), False)
        else:
            self._read_end(live, status, READ_TRIES)

    def _read_end(self, live: LiveAttempt, status: int | None, tries: int) -> None:
        if self._live.get(live.key) is not live:
            return
        claim = self._claims.read_with_log(*live.key, live.out)
        if isinstance(claim, claims.Unreadable) and tries:
            self._loop.call_later(READ_INTERVAL, lambda: self._read_end(live, status, tries - 1))
            return
        if isinstance(claim, claims.Revoked):
            self._revoked.add(live.key)
        tail = _tail(live.err or live.out) if isinstance(claim, claims.Claimed) else b""
        outcome = outcome_of(claim, status, live.directory, tail)
        self._settle(live, outcome, command_may_live(outcome, status))

    def _settle(self, live: LiveAttempt, outcome: events.Outcome, command_may_live: bool) -> None:
        live.end = _ended(live.key, outcome, None, live.asked)
        if not self._stopper.ended(live, command_may_live):
            self._report_end(live)

    def _report_end(self, live: LiveAttempt) -> None:
        del self._live[live.key]
        assert live.end is not None
        self._report(replace(live.end, by_itself=not live.signalled and not _by_our_signal(live.end.outcome)))

    def _marks(self, key: Key, wrapper: int, out: str, err: str | None = None) -> processes.AttemptMarks:
        return processes.AttemptMarks(self.token(*key), wrapper, True, (out, err) if err is not None else (out,), {})

    def _order(self, key: Key, order: Order) -> None:
        if key in self._live:
            self._stopper.order(self._live[key], order)
        elif key in self._undecided:
            self._undecided[key] = order


def _ended(
    key: Key, outcome: events.Outcome, at: float | None = None, asked: Purpose | None = None
) -> events.AttemptEnded:
    at = time.time() if at is None else at
    return events.AttemptEnded(job=key[0], attempt=key[1], outcome=outcome, at=at, requested=asked)


def _by_our_signal(outcome: events.Outcome) -> bool:
    """Return whether a signal that we sent may have caused the end, perhaps before the command was executed."""
    return not isinstance(outcome, events.Exited) or outcome.code in (128 + signal.SIGTERM, 128 + signal.SIGKILL)


def _logs(launch: Launch) -> tuple[str, str | None]:
    """Return the paths of the logs. If there is a descriptor of their directory, the paths lead through it."""
    if launch.directory is None:
        return launch.out, launch.err
    directory = f"/proc/self/fd/{launch.directory}"
    err = os.path.join(directory, os.path.basename(launch.err)) if launch.err is not None else None
    return os.path.join(directory, os.path.basename(launch.out)), err


def _tail(log: str) -> bytes:
    try:
        # The job may have replaced its log by a FIFO, and opening it must not wait for a writer.
        fd = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, _LOG_TAIL, max(0, os.fstat(fd).st_size - _LOG_TAIL))
    except OSError:
        return b""
    finally:
        os.close(fd)
