"""How `run` is interrupted: what each signal and each key of the Ctrl-C menu means, and what is said at the end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any

from gputui.cli.command import TERMINAL, ask_one_key, in_session
from gputui.core.amounts import counted
from gputui.core.events import Drain, Kill, Mode, Pause, PauseKind, Requeue, UserCommand
from gputui.core.job import Stopping
from gputui.core.snapshot import Snapshot
from gputui.process.watch import Wakeup
from gputui.views.status import counts_told

SECOND_THOUGHT = 2.0
"""Ctrl-C again within so many seconds detaches."""
DEAF_FOR = 1.0
"""A second SIGINT without a terminal counts only after so many seconds: some tools send two at once."""


class WayToLeave(StrEnum):
    """What the user wants."""

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
"""What each key of the Ctrl-C menu means; any other goes on."""


class Leaving:
    """Turns signals into a wish; the main loop reads `take`."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wake = wakeup.set
        self._wish: WayToLeave | None = None
        self._interrupted_at: float | None = None
        self.menu_wanted = False
        self.status: int | None = None
        """The exit status that the signal asks for."""
        for number, handler in (
            (signal.SIGINT, self._interrupt),
            (signal.SIGTERM, self._terminate),
            (signal.SIGUSR1, self._drain),
            (signal.SIGHUP, self._hang_up),
        ):
            # What nohup set stays: whoever said that hanging up means nothing is obeyed.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)
        wakeup.listen_to_signals()

    def dismiss(self) -> None:
        """The user stopped the session from elsewhere; called in any thread."""
        self._want(WayToLeave.STOP, 128 + signal.SIGTERM)

    def wanted(self) -> bool:
        return self._wish is not None

    def take(self) -> WayToLeave | None:
        wish, self._wish = self._wish, None
        return wish

    def _want(self, way: WayToLeave, status: int | None) -> None:
        self._wish = way
        self.status = status if status is not None else self.status
        self._wake()

    def _interrupt(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        since = now - self._interrupted_at if self._interrupted_at is not None else None
        if at_terminal():
            if since is not None and since < SECOND_THOUGHT:
                self._want(WayToLeave.DETACH, 130)
            else:
                self.menu_wanted = True
                self._wake()
        elif since is None:
            self._want(WayToLeave.DRAIN, 130)
        elif since >= DEAF_FOR:
            self._want(WayToLeave.KILL, 130)
        else:
            return
        self._interrupted_at = now

    def _terminate(self, number: int, frame: Any) -> None:
        self._want(WayToLeave.STOP, 143)

    def _drain(self, number: int, frame: Any) -> None:
        self._want(WayToLeave.DRAIN, None)

    def _hang_up(self, number: int, frame: Any) -> None:
        self._want(WayToLeave.DETACH, 129)


def at_terminal() -> bool:
    """Somebody sees the question and can answer it, wherever the jobs come from."""
    with suppress(OSError):
        if sys.stderr.isatty():
            terminal = os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                return os.tcgetpgrp(terminal) == os.getpgrp()
            finally:
                os.close(terminal)
    return False


def order_of(way: WayToLeave) -> UserCommand | None:
    """What must be durable before anything ends, so that nobody undoes it."""
    match way:
        case WayToLeave.DRAIN:
            return Drain()
        case WayToLeave.KILL:
            return Pause(PauseKind.INTERRUPTED)
        case WayToLeave.STOP:
            return Pause(PauseKind.STOPPED)
    return None


def ends_of(way: WayToLeave, snapshot: Snapshot) -> tuple[UserCommand, ...]:
    """What becomes of the jobs under way, in a snapshot taken after the order, when nothing begins any more."""
    match way:
        case WayToLeave.KILL:
            return tuple(Kill(job=job) for job in snapshot.active)
        case WayToLeave.STOP:
            running = (job for job in snapshot.active if not isinstance(snapshot[job].state, Stopping))
            return tuple(Requeue(job=job) for job in running)
    return ()


def announced(way: WayToLeave, running: int) -> str | None:
    match way:
        case WayToLeave.DRAIN:
            return f"draining: {counted(running, 'running job goes on', 'running jobs go on')}, nothing new starts"
        case WayToLeave.KILL:
            return f"killing {counted(running, 'running job', 'running jobs')}"
        case WayToLeave.STOP:
            ended = counted(running, "running job is ended and waits", "running jobs are ended and wait")
            return f"stopping: {ended} again"
    return None


class Behind:
    """What a run leaves behind, and who takes care of it."""

    def __init__(self, snapshot: Snapshot, *, goes_on: bool, keeper: str | None, others: int, folder: str) -> None:
        """`goes_on`: without anybody's help, if somebody schedules. `keeper`: in words; None: there is none.
        `others`: jobs that are not this run's and have not ended."""
        self._snapshot = snapshot
        self._goes_on = goes_on
        self._keeper = keeper
        self._others = others
        elsewhere = folder if folder != "gputui_run" else None
        self._again, self._ls = in_session("gputui run", elsewhere), in_session("gputui ls", elsewhere)
        self._back = f"Back: {in_session('gputui', elsewhere)} · Stop: {in_session('gputui stop', elsewhere)}"

    def told(self, way: WayToLeave | None) -> str | None:
        snapshot = self._snapshot
        if way is WayToLeave.DETACH and self._goes_on:
            return self._detached()
        if snapshot.cause is not None and snapshot.cause.kind is PauseKind.CRASHES:
            if not snapshot.waiting:
                return (
                    f"{snapshot.cause.message}. Fix the cause and load the same jobs again: the failed ones are rerun."
                )
            return (
                f"{snapshot.cause.message}. {self._waiting()}. Fix the cause and load the same jobs again: "
                f"the failed ones are rerun and the rest goes on. {self._again} without jobs leaves the failed ones "
                "out; --pause-after 0 never pauses."
            )
        if way is None and self._goes_on and self._keeper is not None and self._others:
            others = counted(self._others, "other job of this session goes on", "other jobs of this session go on")
            return f"{others}: {self._keeper} schedules. {self._back}"
        if not snapshot.waiting:
            return None
        if way is None and snapshot.mode is Mode.RUNNING and snapshot.awaits:
            each = f" ({self._ls} tells of each)" if snapshot.waiting > 1 else ""
            return f"{self._waiting()}: {snapshot.awaits}{each}"
        return f"{self._waiting()}; to go on: {self._again}"

    def _waiting(self) -> str:
        return counted(self._snapshot.waiting, "job waits", "jobs wait")

    def _detached(self) -> str:
        snapshot = self._snapshot
        if self._keeper is None:
            goes_on = counted(snapshot.running, "running job goes on", "running jobs go on")
            counts = f"{goes_on}, {snapshot.not_begun} waiting"
            return f"detached: {counts}, and nobody starts more (--no-keeper). To go on: {self._again}"
        return f"detached: {counts_told(snapshot)}; {self._keeper} schedules on. {self._back}"


def ask(running: int, overtaken: Callable[[], bool]) -> WayToLeave | None:
    """The Ctrl-C menu; None: go on, or something else was wanted before a key was pressed."""

    def menu() -> None:
        sys.stderr.write(f"[d]etach  d[r]ain  [k]ill {running} running  [c]ontinue ")
        sys.stderr.flush()

    key = ask_one_key(menu, overtaken)
    sys.stderr.write("\n")
    return MENU.get(key) if key is not None else None
