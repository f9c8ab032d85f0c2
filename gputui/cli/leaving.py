"""How `run` is interrupted: what each signal and each key of the Ctrl-C menu means."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from gputui.core.events import PauseKind
from gputui.core.snapshot import Snapshot

SECOND_THOUGHT = 2.0
"""Ctrl-C again within so many seconds detaches."""
DEAF_FOR = 1.0
"""A second SIGINT without a terminal counts only after so many seconds: some tools send two at once."""


class Way(StrEnum):
    """What the user wants."""

    DETACH = "detach"
    DRAIN = "drain"
    KILL = "kill"
    STOP = "stop"


class Leaving:
    """Turns signals into a wish; the main loop reads `take`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._wish: Way | None = None
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
            signal.signal(number, handler)

    def take(self) -> Way | None:
        wish, self._wish = self._wish, None
        return wish

    def _want(self, way: Way, status: int | None) -> None:
        self._wish = way
        self.status = status if status is not None else self.status
        self._wake()

    def _interrupt(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        since = now - self._interrupted_at if self._interrupted_at is not None else None
        if sys.stdin.isatty() and sys.stderr.isatty():
            if since is not None and since < SECOND_THOUGHT:
                self._want(Way.DETACH, 130)
            else:
                self.menu_wanted = True
                self._wake()
        elif since is None:
            self._want(Way.DRAIN, 130)
        elif since >= DEAF_FOR:
            self._want(Way.KILL, 130)
        else:
            return
        self._interrupted_at = now

    def _terminate(self, number: int, frame: Any) -> None:
        self._want(Way.STOP, 143)

    def _drain(self, number: int, frame: Any) -> None:
        self._want(Way.DRAIN, None)

    def _hang_up(self, number: int, frame: Any) -> None:
        self._want(Way.DETACH, 129)


def farewell(snapshot: Snapshot, way: Way | None, again: str) -> str | None:
    """What is left behind; `again` is the command that goes on with it."""
    if way is Way.DETACH:
        return f"detached: {snapshot.running} running jobs go on, {snapshot.waiting} wait. To go on: {again}"
    if snapshot.cause is not None and snapshot.cause.kind is PauseKind.CRASHES:
        return (
            f"{snapshot.cause.message}. {snapshot.waiting} jobs wait. Mend it and load the same jobs again: "
            f"the failed ones are rerun and the rest goes on. {again} without jobs leaves the failed ones out; "
            "--pause-after 0 never pauses."
        )
    return f"{snapshot.waiting} jobs wait; to go on: {again}" if snapshot.waiting else None


def ask(running: int) -> Way | None:
    """The Ctrl-C menu; None: go on."""
    sys.stderr.write(f"[d]etach  d[r]ain  [k]ill {running} running  [c]ontinue ")
    sys.stderr.flush()
    key = _key()
    sys.stderr.write("\n")
    return {"d": Way.DETACH, "r": Way.DRAIN, "k": Way.KILL, "\x03": Way.DETACH}.get(key)


def _key() -> str:
    """One key, without waiting for Enter; Ctrl-C is a key here."""
    import termios

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    raw = termios.tcgetattr(fd)
    raw[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    try:
        termios.tcsetattr(fd, termios.TCSADRAIN, raw)
        return os.read(fd, 1).decode("latin-1").lower()
    except OSError:
        return "d"
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
