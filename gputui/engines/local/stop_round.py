"""One round of an order over an attempt's whole tree. Slow: runs in the worker thread, and never raises."""

from __future__ import annotations

import os
import signal
import time
from typing import NamedTuple

from gputui.core.attempts.traces import Left
from gputui.process.processes import Marks, Members, Stat, command_line, signal_member, signal_members, tree, user_of

from .live import TreeOrder

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


def carry_out(order: TreeOrder, marks: Marks, ended: bool) -> Round | None:
    """None: it could not look."""
    try:
        return _kill(marks) if order is TreeOrder.KILL else Round(_carry_out(order, marks, ended))
    except OSError:
        return None


def _carry_out(order: TreeOrder, marks: Marks, ended: bool) -> int:
    match order:
        case TreeOrder.SUSPEND:
            return _suspend(marks)
        case TreeOrder.TERMINATE if not ended:
            # A stopped process would not see its SIGTERM.
            return _signal_all(marks, (signal.SIGTERM, signal.SIGCONT))
        case TreeOrder.RESUME:
            return _signal_all(marks, (signal.SIGCONT,))
    return len(_command_of(marks))


def _signal_all(marks: Marks, signals: tuple[signal.Signals, ...]) -> int:
    members = tree(marks)
    # Between fork and exec the wrapper's child is deaf as the wrapper is: it has not been met.
    deaf = command_line(marks.wrapper) if marks.wrapper is not None else None
    others = [pid for pid in members if pid != marks.wrapper and command_line(pid) != deaf]
    signal_members(members, signals)
    return len(others)


def _kill(marks: Marks) -> Round:
    """Without the wrapper, so that it writes the true code. Repeated at once: others may be forking still."""
    deadline = time.monotonic() + KILLING_TIME
    clean_looks = 0
    while True:
        met, forbidden = _kill_once(marks)
        clean_looks = 0 if met else clean_looks + 1
        only_forbidden = bool(met) and met.keys() == forbidden
        if clean_looks == CLEAN_LOOKS or only_forbidden or time.monotonic() > deadline:
            left_over = tuple(_described(pid, stat, pid in forbidden) for pid, stat in met.items())
            return Round(len(met), left_over, only_forbidden)
        time.sleep(_BREATH)


def _kill_once(marks: Marks) -> tuple[Members, set[int]]:
    """Whom it met, and which of them it may not signal."""
    forbidden: set[int] = set()

    def kill(pid: int, stat: Stat) -> None:
        if pid != marks.wrapper and not signal_member(pid, stat.started, signal.SIGKILL):
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
