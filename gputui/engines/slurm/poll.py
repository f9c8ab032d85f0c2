"""Asks Slurm about all attempts at once, in a thread of its own."""

from __future__ import annotations

import os
import pwd
import threading
import time
from collections.abc import Callable

from msgspec import Struct

from gputui.process.watch import begin

from .client import NoSlurm, SlurmCommands, SlurmError
from .parse import SlurmJob, SlurmNode

EVERY, SELDOM = 2.0, 30.0
GROWTH = 1.3
NODES_EVERY = 60.0


class QueueAnswer(Struct, frozen=True):
    jobs: list[SlurmJob] | None
    """None: there was no answer."""
    asked_at: float
    """On the monotonic clock."""
    trouble: str = ""
    nodes: list[SlurmNode] | None = None


class Questions:
    """`tell` is called in the thread that asks."""

    def __init__(self, commands: SlurmCommands, tell: Callable[[QueueAnswer], None]) -> None:
        self._commands = commands
        self._tell = tell
        self._user = pwd.getpwuid(os.geteuid()).pw_name
        self._wake = threading.Condition()
        self._poked = True
        self._idle = False
        self._closed = False
        self._interval = EVERY
        self._last: list[tuple[str, str, str | None]] | None = None
        self._nodes_at = float("-inf")
        self._since: float | None = None
        begin(self._work, "gputui-questions")

    def poke(self) -> None:
        """Something has changed: ask soon."""
        with self._wake:
            self._poked, self._idle, self._interval = True, False, EVERY
            self._wake.notify()

    def rest(self) -> None:
        """Nothing is under way."""
        self._idle = True

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _work(self) -> None:
        asked_at = float("-inf")
        while self._await(asked_at):
            asked_at = time.monotonic()
            answer = self._asked(asked_at)
            if not self._closed:
                self._tell(answer)

    def _await(self, asked_at: float) -> bool:
        """Until it is time for another question; a poke brings it forward, though not below the two seconds."""
        with self._wake:
            while not self._closed:
                now = time.monotonic()
                due = asked_at + (EVERY if self._poked else self._interval)
                if now >= due and not (self._idle and self._since is None and not self._poked):
                    self._poked = False
                    return True
                self._wake.wait(max(0.0, due - now) if now < due else None)
        return False

    def _asked(self, at: float) -> QueueAnswer:
        try:
            jobs = self._commands.queue(self._user)
            nodes = self._asked_nodes(at)
        except SlurmError as error:
            return self._unanswered(error, at)
        self._since = None
        state = [(job.id, job.state, job.reason) for job in jobs]
        self._interval = min(SELDOM, self._interval * GROWTH) if state == self._last else EVERY
        self._last = state
        return QueueAnswer(jobs, at, "", nodes)

    def _asked_nodes(self, at: float) -> list[SlurmNode] | None:
        if at - self._nodes_at < NODES_EVERY:
            return None
        nodes = self._commands.nodes()
        self._nodes_at = at
        return nodes

    def _unanswered(self, error: SlurmError, at: float) -> QueueAnswer:
        if self._since is None:
            self._since = time.time()
        self._interval = min(SELDOM, self._interval * GROWTH)
        since = time.strftime("%H:%M", time.localtime(self._since))
        words = str(error) if isinstance(error, NoSlurm) else f"Slurm does not answer since {since} ({error})"
        return QueueAnswer(None, at, f"{words}: everything waits, nothing is lost")
