"""Stop attempts by sending rounds of signals to the whole process tree until it has ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gputui.core import events
from gputui.core.events import AttemptEnded, AttemptInstruction
from gputui.core.job import JobId, Purpose, SurvivingProcess
from gputui.process.processes import (
    AttemptMarks,
    Members,
    Stat,
    command_line,
    signal_member,
    tree,
    user_of,
)
from gputui.process.watch import EventLoop, Watch

Key = tuple[JobId, int]
Order = type[AttemptInstruction]


class LiveAttempt(Struct, eq=False):
    """An attempt that is being watched or whose remaining processes are being killed."""

    key: Key
    marks: AttemptMarks
    watch: Watch | None
    """The watch on the wrapper, or None if the wrapper has ended."""
    out: str
    err: str | None = None
    """The path of the error log, or None if it is unknown or identical to `out`."""
    directory: str | None = None
    order: Order | None = None
    """The latest order."""
    rounds: int = 0
    """Number of rounds carried out for the latest order."""
    serial: int = 0
    """A number that increases with each order. It shows which rounds belong to older orders and must be dropped."""
    lone_since: float | None = None
    """During a kill: the time since which the wrapper has had no command. None if it has one."""
    end: AttemptEnded | None = None
    """The end to report when no process of the attempt is left."""
    asked: Purpose | None = None
    """An order that an earlier owner could not save in the store."""
    ended_at: float = 0.0
    """Time of the wrapper's end on the monotonic clock."""
    killed_at: float = 0.0
    """Time of the first order to kill, on the monotonic clock."""
    signalled: bool = False
    """Whether the command may have received SIGTERM or SIGKILL from gputui."""

    def note_signal(self) -> None:
        """Note that the command is about to be signaled. Called in any thread just before the signal is sent."""
        self.signalled = True


# One round of signals


KILLING_TIME = 0.25
"""Maximum duration in seconds of one round of kills."""
CLEAN_LOOKS = 3
"""Number of consecutive scans that must find nothing. A process that keeps forking and exiting can escape a scan."""
_BREATH = 0.003
_STOPPING_SCANS = 5


class Round(NamedTuple):
    others: int
    """Number of processes besides the wrapper. After a kill, this is the number of processes that are left."""
    left: tuple[SurvivingProcess, ...] = ()
    """Descriptions of the processes that are left after a kill."""
    forbidden: bool = False
    """Whether all remaining processes belong to other users and cannot be signaled."""


def signal_once(
    order: Order | None, marks: AttemptMarks, ended: bool, reached: Callable[[], None] | None = None
) -> Round | None:
    """Send one round of signals to the tree. Return None if /proc cannot be read.

    `reached` is called just before a running command is sent a signal that ends it.
    """
    try:
        match order:
            case events.KillTree:
                return _kill(marks, reached)
            case events.SuspendTree:
                return Round(_suspend(marks))
            case events.Terminate if not ended:
                # A stopped process handles SIGTERM only after SIGCONT.
                return Round(_signal_all(marks, (signal.SIGTERM, signal.SIGCONT), reached))
            case events.ContinueTree:
                return Round(_signal_all(marks, (signal.SIGCONT,), None))
        return Round(len(_without_wrapper(marks)))
    except OSError:
        return None


def _signal_all(marks: AttemptMarks, signals: tuple[signal.Signals, ...], reached: Callable[[], None] | None) -> int:
    members = tree(marks)
    # Between fork and exec, the wrapper's child ignores signals as the wrapper does, so it does not count as reached.
    deaf = command_line(marks.wrapper) if marks.wrapper is not None else None
    others = [pid for pid in members if pid != marks.wrapper and command_line(pid) != deaf]
    for signum in signals:
        for pid, stat in members.items():
            is_command = stat.parent == marks.wrapper and pid in others
            signal_member(pid, stat.started, signum, reached if is_command else None)
    return len(others)


def _kill(marks: AttemptMarks, reached: Callable[[], None] | None) -> Round:
    """Kill all processes except the wrapper, which must record the exit code. Repeat this until none are found."""
    deadline = time.monotonic() + KILLING_TIME
    clean_looks = 0
    while True:
        met, forbidden = _kill_once(marks, reached)
        clean_looks = 0 if met else clean_looks + 1
        only_forbidden = bool(met) and met.keys() == forbidden
        if clean_looks == CLEAN_LOOKS or only_forbidden or time.monotonic() > deadline:
            leftovers = tuple(_describe_leftover(pid, stat, pid in forbidden) for pid, stat in met.items())
            return Round(len(met), leftovers, only_forbidden)
        time.sleep(_BREATH)


def _kill_once(marks: AttemptMarks, reached: Callable[[], None] | None) -> tuple[Members, set[int]]:
    """Kill the processes once. Return the processes that were found, and the pids of those that cannot be signaled."""
    forbidden: set[int] = set()

    def kill(pid: int, stat: Stat) -> None:
        noted = reached if stat.parent == marks.wrapper else None
        if pid != marks.wrapper and not signal_member(pid, stat.started, signal.SIGKILL, noted):
            forbidden.add(pid)

    members = tree(marks, kill)
    for pid, stat in members.items():
        kill(pid, stat)
    met = {pid: stat for pid, stat in members.items() if pid != marks.wrapper}
    return met, forbidden & met.keys()


def _describe_leftover(pid: int, stat: Stat, forbidden: bool) -> SurvivingProcess:
    command, user = command_line(pid), user_of(pid) if forbidden else None
    trouble = f"belongs to {user}, no permission" if forbidden else "SIGKILL had no effect"
    return SurvivingProcess(pid, stat.started, f"pid {pid} ({command}) is still running: {trouble}")


def _suspend(marks: AttemptMarks) -> int:
    """Suspend the tree except for the wrapper, which must record the exit code if the command is killed."""
    for _ in range(_STOPPING_SCANS):
        others = _without_wrapper(marks)
        running = {pid: stat for pid, stat in others.items() if not stat.stopped}
        if not running:
            break
        for pid, stat in running.items():
            signal_member(pid, stat.started, signal.SIGSTOP)
        os.sched_yield()
    return len(others)


def _without_wrapper(marks: AttemptMarks) -> Members:
    return {pid: stat for pid, stat in tree(marks).items() if pid != marks.wrapper}


# Repeating rounds until an order has taken effect


BETWEEN_KILLS = 0.05
WRAPPER_GRACE = 0.3
"""Seconds that a wrapper without a command gets to record the exit code before it is killed too."""
UNKILLABLE_AFTER = 5.0
"""Seconds after which an attempt's end is reported even if some of its processes cannot be killed."""
_LONGEST_WAIT = 1.0


class Stopper:
    """Carries out orders. Calls `report_end` when an attempt has ended and none of its processes are left."""

    def __init__(self, loop: EventLoop, report_end: Callable[[LiveAttempt], None]) -> None:
        self._loop = loop
        self._report_end = report_end
        self._closed = False

    def order(self, live: LiveAttempt, order: Order) -> None:
        # A kill is final, and leftovers of an ended attempt can only be killed.
        if order is events.KillTree or (live.order is not events.KillTree and live.watch is not None):
            self._begin(live, order)

    def ended(self, live: LiveAttempt, may_live: bool) -> bool:
        """Handle the end of a wrapper. Return True if the end is reported only after remaining processes are killed."""
        live.ended_at = time.monotonic()
        if live.order is events.KillTree or may_live:
            self._begin(live, events.KillTree)
        elif live.order is events.Terminate:
            self._begin(live, events.Terminate)
        else:
            live.serial += 1
            return False
        return True

    def close(self) -> None:
        self._closed = True

    def _begin(self, live: LiveAttempt, order: Order) -> None:
        if order is events.KillTree and live.order is not events.KillTree:
            live.killed_at = time.monotonic()
        live.order, live.rounds, live.lone_since = order, 0, None
        live.serial += 1
        self._round(live, live.serial)

    def _round(self, live: LiveAttempt, serial: int) -> None:
        if self._closed or live.serial != serial:
            return
        order, marks, ended = live.order, live.marks, live.watch is None
        self._loop.run_in_thread(
            lambda: signal_once(order, marks, ended, live.note_signal), lambda met: self._done(live, serial, met)
        )

    def _done(self, live: LiveAttempt, serial: int, met: Round | None) -> None:
        if self._closed or live.serial != serial:
            return
        if live.end is not None:
            self._after_the_end(live, serial, met)
        elif live.watch is None:
            self._again(live, serial, _growing_wait(live.rounds))
        elif live.order is events.KillTree:
            self._end_wrapper(live, met)
            in_vain = met is not None and met.forbidden
            self._again(live, serial, _growing_wait(live.rounds) if in_vain else BETWEEN_KILLS)
        elif live.order is not events.ContinueTree and (met is None or not met.others):
            self._again(live, serial, _growing_wait(live.rounds))

    def _after_the_end(self, live: LiveAttempt, serial: int, met: Round | None) -> None:
        assert live.end is not None
        stuck = live.order is events.KillTree and time.monotonic() - live.ended_at > UNKILLABLE_AFTER
        if stuck or (met is not None and (met.others == 0 or _given_up(live, met))):
            live.serial += 1
            live.end = replace(live.end, left=met.left if met is not None else ())
            self._report_end(live)
        else:
            self._again(live, serial, _growing_wait(live.rounds))

    def _end_wrapper(self, live: LiveAttempt, met: Round | None) -> None:
        """Kill the wrapper too if its command has ended or cannot be killed."""
        assert live.watch is not None
        # A stopped wrapper could not record the exit code.
        live.watch.signal(signal.SIGCONT)
        now = time.monotonic()
        alone = met is not None and met.others == 0
        if not alone or live.lone_since is None:
            live.lone_since = now if alone else None
        elif now - live.lone_since >= WRAPPER_GRACE:
            live.watch.signal(signal.SIGKILL)
        if met is not None and _given_up(live, met):
            live.watch.signal(signal.SIGKILL)

    def _again(self, live: LiveAttempt, serial: int, seconds: float) -> None:
        live.rounds += 1
        self._loop.call_later(seconds, lambda: self._round(live, serial))


def _growing_wait(rounds: int) -> float:
    return min(BETWEEN_KILLS * 1.5**rounds, _LONGEST_WAIT)


def _given_up(live: LiveAttempt, met: Round) -> bool:
    return met.forbidden and time.monotonic() - live.killed_at > UNKILLABLE_AFTER
