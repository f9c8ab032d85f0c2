"""Interrupt `run`: signals, the Ctrl-C menu and the message at the end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any

from gputui.cli.command import TERMINAL, ask_key, with_session_flag
from gputui.core.amounts import counted
from gputui.core.events import Drain, Mode, Pause, PauseKind, UserCommand
from gputui.core.snapshot import Snapshot
from gputui.process.watch import Wakeup
from gputui.views.status import format_counts

DETACH_WITHIN = 2.0
"""Number of seconds within which a second Ctrl-C detaches."""
IGNORE_REPEAT_FOR = 1.0
"""Number of seconds within which a second SIGINT is ignored if there is no terminal, because some tools send two."""


class WayToLeave(StrEnum):
    DETACH = "detach"
    DRAIN = "drain"
    KILL = "kill"
    STOP = "stop"


MENU = {
    "d": WayToLeave.DETACH,
    "r": WayToLeave.DRAIN,
    "k": WayToLeave.KILL,
    "\x03": WayToLeave.DETACH,
    "": WayToLeave.DETACH,
}
"""Keys of the Ctrl-C menu. Any other key continues the run."""


class LeaveRequests:
    """Turns signals into requests to leave, which the main loop polls with `take`."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wake = wakeup.set
        self._requested: WayToLeave | None = None
        self._interrupted_at: float | None = None
        self.menu_wanted = False
        self.status: int | None = None
        """Exit status for the signal that was received."""
        for number, handler in (
            (signal.SIGINT, self._interrupt),
            (signal.SIGTERM, lambda *_: self._request(WayToLeave.STOP, 143)),
            (signal.SIGUSR1, lambda *_: self._request(WayToLeave.DRAIN, None)),
            (signal.SIGHUP, lambda *_: self._request(WayToLeave.DETACH, 129)),
        ):
            # If SIGHUP is already ignored, as under nohup, leave it ignored.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)
        wakeup.listen_to_signals()

    def dismiss(self) -> None:
        """Request to leave because `gputui stop` was run. May be called from any thread."""
        self._request(WayToLeave.STOP, 128 + signal.SIGTERM)

    def pending(self) -> bool:
        return self._requested is not None

    def take(self) -> WayToLeave | None:
        way, self._requested = self._requested, None
        return way

    def _request(self, way: WayToLeave, status: int | None) -> None:
        self._requested = way
        self.status = status if status is not None else self.status
        self._wake()

    def _interrupt(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        since = now - self._interrupted_at if self._interrupted_at is not None else None
        if at_terminal():
            if since is not None and since < DETACH_WITHIN:
                self._request(WayToLeave.DETACH, 130)
            else:
                self.menu_wanted = True
                self._wake()
        elif since is None:
            self._request(WayToLeave.DRAIN, 130)
        elif since >= IGNORE_REPEAT_FOR:
            self._request(WayToLeave.KILL, 130)
        else:
            return
        self._interrupted_at = now


def at_terminal() -> bool:
    """Return whether this process is in the foreground of a terminal, even if standard input is redirected."""
    with suppress(OSError):
        if sys.stderr.isatty():
            terminal = os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                return os.tcgetpgrp(terminal) == os.getpgrp()
            finally:
                os.close(terminal)
    return False


LEAVING_COMMANDS: dict[WayToLeave, UserCommand] = {
    WayToLeave.DRAIN: Drain(),
    WayToLeave.KILL: Pause(PauseKind.INTERRUPTED),
    WayToLeave.STOP: Pause(PauseKind.STOPPED),
}
"""The command that each way to leave sends to the scheduler. Detaching sends none."""


def describe_leaving(
    snapshot: Snapshot, way: WayToLeave | None, *, has_work: bool, daemon: str | None, others: int, directory: str
) -> str | None:
    """Describe what a run leaves behind and what will take care of it. Return None if there is nothing to say.

    `has_work`: more can happen if a scheduler runs. `daemon`: a description of the daemon, or None if there is none.
    `others`: number of unfinished jobs that do not belong to this run.
    """
    named = directory if directory != "gputui_run" else None
    run, ls, stop = (with_session_flag(command, named) for command in ("gputui run", "gputui ls", "gputui stop"))
    back = f"Reattach: {with_session_flag('gputui', named)} · Stop: {stop}"
    wait = counted(snapshot.waiting, "job waiting", "jobs waiting")
    if way is WayToLeave.DETACH and has_work:
        if daemon is not None:
            return f"detached: {format_counts(snapshot)}; {daemon} keeps scheduling. {back}"
        jobs = counted(snapshot.running, "job still running", "jobs still running")
        counts = f"{jobs}, {snapshot.not_begun} waiting"
        return f"detached: {counts}; no new jobs start (--no-daemon). To continue: {run}"
    if snapshot.cause is not None and snapshot.cause.kind is PauseKind.CRASHES:
        if not snapshot.waiting:
            return f"{snapshot.cause.message}. Fix the cause, then run the same jobs again: failed jobs are rerun."
        return (
            f"{snapshot.cause.message}. {wait}. Fix the cause, then run the same jobs again: failed jobs are rerun "
            f"and the rest start. To skip the failed ones: {run} without a job file; --pause-after 0 disables pausing."
        )
    if way is None and has_work and daemon is not None and others:
        jobs = counted(others, "other job of this session continues", "other jobs of this session continue")
        return f"{jobs} under {daemon}. {back}"
    if not snapshot.waiting:
        return None
    if way is None and snapshot.mode is Mode.RUNNING and snapshot.awaits:
        reasons = f" (see {ls})" if snapshot.waiting > 1 else ""
        return f"{wait}: {snapshot.awaits}{reasons}"
    return f"{wait}; to continue: {run}"


def ask_how_to_leave(running: int, overtaken: Callable[[], bool]) -> WayToLeave | None:
    """Show the Ctrl-C menu and return the choice.

    Return None to continue, or if `overtaken` became true before a key was pressed.
    """

    def menu() -> None:
        sys.stderr.write(f"[d]etach  d[r]ain  [k]ill {running} running  [c]ontinue ")
        sys.stderr.flush()

    key = ask_key(menu, overtaken)
    sys.stderr.write("\n")
    return MENU.get(key) if key is not None else None
