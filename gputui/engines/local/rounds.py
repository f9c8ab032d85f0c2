"""One round of an order over an attempt's whole tree. Slow: runs in the worker thread, and never raises."""

from __future__ import annotations

import os
import signal
import time

from .live import Order
from .processes import Marks, Members, Stat, signal_member, signal_members, tree

KILLING_TIME = 0.25
"""Seconds one round of kills may take before other work gets its turn."""
CLEAN_LOOKS = 3
"""A process that forks and exits all the time can hide from one look."""
_BREATH = 0.003
_STOPPING_SCANS = 5


def carry_out(order: Order, marks: Marks, ended: bool) -> int | None:
    """How many processes besides the wrapper it met, or for kills: left. None: it could not look."""
    try:
        return _carry_out(order, marks, ended)
    except OSError:
        return None


def _carry_out(order: Order, marks: Marks, ended: bool) -> int:
    match order:
        case Order.KILL:
            return _kill(marks)
        case Order.SUSPEND:
            return _suspend(marks)
        case Order.TERMINATE if not ended:
            # A stopped process would not see its SIGTERM.
            return _signal_all(marks, (signal.SIGTERM, signal.SIGCONT))
        case Order.RESUME:
            return _signal_all(marks, (signal.SIGCONT,))
    return len(_command_of(marks))


def _signal_all(marks: Marks, signals: tuple[signal.Signals, ...]) -> int:
    members = tree(marks)
    signal_members(members, signals)
    return len(members.keys() - {marks.wrapper})


def _kill(marks: Marks) -> int:
    """Without the wrapper, so that it writes the true code. Repeated at once: others may be forking still."""
    deadline = time.monotonic() + KILLING_TIME
    clean_looks = 0
    while True:
        met = _kill_once(marks)
        clean_looks = 0 if met else clean_looks + 1
        if clean_looks == CLEAN_LOOKS or time.monotonic() > deadline:
            return met
        time.sleep(_BREATH)


def _kill_once(marks: Marks) -> int:
    def kill(pid: int, stat: Stat) -> None:
        if pid != marks.wrapper:
            signal_member(pid, stat.started, signal.SIGKILL)

    members = tree(marks, met=kill)
    for pid, stat in members.items():
        kill(pid, stat)
    return len(members.keys() - {marks.wrapper})


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
