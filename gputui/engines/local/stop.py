"""Stopping live attempts: rounds of signals over the whole process tree until it has ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.events import AttemptEnded
from gputui.core.job import JobId, Left, Purpose
from gputui.process.processes import (
    Marks,
    Members,
    Stat,
    command_line,
    signal_member,
    signal_members,
    stat_of,
    tree,
    user_of,
)
from gputui.process.watch import Cancel, EventLoop, Watch

# ---- An attempt that this engine watches, or whose processes it still clears away ----


Key = tuple[JobId, int]


class TreeOrder(Enum):
    """What was last asked of an attempt's processes."""

    NONE = auto()
    TERMINATE = auto()
    KILL = auto()
    SUSPEND = auto()
    RESUME = auto()


class LiveAttempt(Struct, eq=False):
    key: Key
    marks: Marks
    watch: Watch | None
    """None: the wrapper is gone, though how it ended may not be read yet."""
    out: str
    err: str | None = None
    """Where the wrapper's own complaints go; None: not known any more, or into `out`."""
    folder: str | None = None
    order: TreeOrder = TreeOrder.NONE
    rounds: int = 0
    """Of the newest order; a round of an older one is out of date."""
    serial: int = 0
    lone_since: float | None = None
    """Since when the wrapper has been seen without a command, under a kill."""
    end: AttemptEnded | None = None
    """Known, but reported only when nothing of the attempt lives any more."""
    asked: Purpose | None = None
    """What an earlier owner had ordered without being able to make it durable."""
    ended_at: float = 0.0
    """On the monotonic clock."""
    killed_at: float = 0.0
    """When it was first ordered, on the same clock."""
    signalled: bool = False
    """SIGTERM or SIGKILL may have been sent to its command; until then an end is the command's own."""

    def note_signal(self) -> None:
        """In any thread, just before the signal is sent."""
        self.signalled = True


# ---- One round of an order over an attempt's whole tree ----


KILLING_TIME = 0.25
"""Seconds one round of kills may take before other work gets its turn."""
CLEAN_LOOKS = 3
"""A process that forks and exits all the time can hide from one look."""
_BREATH = 0.003
_STOPPING_SCANS = 5


class Round(NamedTuple):
    others: int
    """Processes besides the wrapper that it met, or for kills: that are left."""
    left: tuple[Left, ...] = ()
    """Of a kill: those, in words."""
    forbidden: bool = False
    """All that are left are another user's, and may not be signalled."""


def carry_out(order: TreeOrder, marks: Marks, ended: bool, reached: Callable[[], None] | None = None) -> Round | None:
    """None: it could not look. `reached` is called before the command is told to end, if it still runs then."""
    try:
        return _kill(marks, reached) if order is TreeOrder.KILL else Round(_carry_out(order, marks, ended, reached))
    except OSError:
        return None


def _carry_out(order: TreeOrder, marks: Marks, ended: bool, reached: Callable[[], None] | None) -> int:
    match order:
        case TreeOrder.SUSPEND:
            return _suspend(marks)
        case TreeOrder.TERMINATE if not ended:
            # A stopped process would not see its SIGTERM.
            return _signal_all(marks, (signal.SIGTERM, signal.SIGCONT), reached)
        case TreeOrder.RESUME:
            return _signal_all(marks, (signal.SIGCONT,), None)
    return len(_command_of(marks))


def _signal_all(marks: Marks, signals: tuple[signal.Signals, ...], reached: Callable[[], None] | None) -> int:
    members = tree(marks)
    # Between fork and exec the wrapper's child is deaf as the wrapper is: it has not been met.
    deaf = command_line(marks.wrapper) if marks.wrapper is not None else None
    others = [pid for pid in members if pid != marks.wrapper and command_line(pid) != deaf]
    for signum in signals:
        for pid, stat in members.items():
            is_command = stat.parent == marks.wrapper and pid in others
            signal_member(pid, stat.started, signum, reached if is_command else None)
    return len(others)


def _kill(marks: Marks, reached: Callable[[], None] | None) -> Round:
    """Without the wrapper, so that it writes the true code. Repeated at once: others may be forking still."""
    deadline = time.monotonic() + KILLING_TIME
    clean_looks = 0
    while True:
        met, forbidden = _kill_once(marks, reached)
        clean_looks = 0 if met else clean_looks + 1
        only_forbidden = bool(met) and met.keys() == forbidden
        if clean_looks == CLEAN_LOOKS or only_forbidden or time.monotonic() > deadline:
            left_over = tuple(_described(pid, stat, pid in forbidden) for pid, stat in met.items())
            return Round(len(met), left_over, only_forbidden)
        time.sleep(_BREATH)


def _kill_once(marks: Marks, reached: Callable[[], None] | None) -> tuple[Members, set[int]]:
    """Whom it met, and which of them it may not signal."""
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


def _described(pid: int, stat: Stat, forbidden: bool) -> Left:
    command, user = command_line(pid), user_of(pid) if forbidden else None
    trouble = f"of {user}, which you may not signal" if forbidden else "which does not end"
    return Left(pid, stat.started, f"pid {pid} ({command}) lives on, {trouble}")


def _suspend(marks: Marks) -> int:
    """Without the wrapper, so that an end from outside is still written down."""
    for _ in range(_STOPPING_SCANS):
        others = _command_of(marks)
        running = {pid: stat for pid, stat in others.items() if not stat.stopped}
        if not running:
            break
        signal_members(running, (signal.SIGSTOP,))
        os.sched_yield()
    return len(others)


def _command_of(marks: Marks) -> Members:
    return {pid: stat for pid, stat in tree(marks).items() if pid != marks.wrapper}


# ---- Carrying orders out until they have had their effect ----


BETWEEN_KILLS = 0.05
WRAPPER_GRACE = 0.3
"""Seconds a wrapper without a command has to write the code, before it is killed too."""
UNKILLABLE_AFTER = 5.0
"""Seconds after which processes stuck in the kernel, or that we may not signal, no longer hold up the end."""
_LONGEST_WAIT = 1.0


class Stopper:
    """Calls `report_end` for an attempt that has ended and of which nothing lives any more."""

    def __init__(self, loop: EventLoop, report_end: Callable[[LiveAttempt], None]) -> None:
        self._loop = loop
        self._report_end = report_end
        self._closed = False

    def order(self, live: LiveAttempt, order: TreeOrder) -> None:
        # A kill is final, and what an ended attempt left behind can only be killed.
        if order is TreeOrder.KILL or (live.order is not TreeOrder.KILL and live.watch is not None):
            self._begin(live, order)

    def ended(self, live: LiveAttempt, may_live: bool) -> bool:
        """The wrapper is gone. Whether what it left behind is pursued, so that the end must wait."""
        live.ended_at = time.monotonic()
        if live.order is TreeOrder.KILL or may_live:
            self._begin(live, TreeOrder.KILL)
        elif live.order is TreeOrder.TERMINATE:
            self._begin(live, TreeOrder.TERMINATE)
        else:
            live.serial += 1
            return False
        return True

    def close(self) -> None:
        self._closed = True

    def _begin(self, live: LiveAttempt, order: TreeOrder) -> None:
        if order is TreeOrder.KILL and live.order is not TreeOrder.KILL:
            live.killed_at = time.monotonic()
        live.order, live.rounds, live.lone_since = order, 0, None
        live.serial += 1
        self._round(live, live.serial)

    def _round(self, live: LiveAttempt, serial: int) -> None:
        if self._closed or live.serial != serial:
            return
        order, marks, ended = live.order, live.marks, live.watch is None
        self._loop.run_in_thread(
            lambda: carry_out(order, marks, ended, live.note_signal), lambda met: self._done(live, serial, met)
        )

    def _done(self, live: LiveAttempt, serial: int, met: Round | None) -> None:
        if self._closed or live.serial != serial:
            return
        if live.end is not None:
            self._after_the_end(live, serial, met)
        elif live.watch is None:
            self._again(live, serial, _growing_wait(live.rounds))
        elif live.order is TreeOrder.KILL:
            self._look_after_wrapper(live, met)
            in_vain = met is not None and met.forbidden
            self._again(live, serial, _growing_wait(live.rounds) if in_vain else BETWEEN_KILLS)
        elif live.order is not TreeOrder.RESUME and (met is None or not met.others):
            self._again(live, serial, _growing_wait(live.rounds))

    def _after_the_end(self, live: LiveAttempt, serial: int, met: Round | None) -> None:
        assert live.end is not None
        stuck = live.order is TreeOrder.KILL and time.monotonic() - live.ended_at > UNKILLABLE_AFTER
        if stuck or (met is not None and (met.others == 0 or _given_up(live, met))):
            live.serial += 1
            live.end = replace(live.end, left=met.left if met is not None else ())
            self._report_end(live)
        else:
            self._again(live, serial, _growing_wait(live.rounds))

    def _look_after_wrapper(self, live: LiveAttempt, met: Round | None) -> None:
        """It is killed too when it has no command any more, or one that nobody here can end."""
        assert live.watch is not None
        # Somebody may have stopped it, and then it could not write.
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


# ---- Wakes wrappers that somebody stopped ----


LOOK_EVERY = 2.0
"""Seconds: the kernel tells nobody but a parent, and an adopted wrapper is no child of ours."""


class StoppedWrappers:
    """Looks at the wrappers as long as there are any. A command that was stopped stays stopped."""

    def __init__(self, loop: EventLoop, attempts: Callable[[], Iterable[LiveAttempt]]) -> None:
        self._loop = loop
        self._attempts = attempts
        self._timer: Cancel | None = None

    def begin(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_EVERY, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        for live in self._attempts():
            self.begin()
            with suppress(OSError):
                self._wake(live)

    def _wake(self, live: LiveAttempt) -> None:
        if live.watch is not None and (stat := stat_of(live.watch.pid)) is not None and stat.stopped:
            live.watch.signal(signal.SIGCONT)
