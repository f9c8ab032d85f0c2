"""Orders to Slurm about attempts, by the name that bears their token: a number may be another job's by now."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from functools import partial

from .commands import SlurmCommands, SlurmError
from .errands import Errands
from .live import BatchAttempt
from .submission import job_name
from .supervisor import KILL_SIGNAL


class Orders:
    """None of them waits, and none says whether it was heard: what is not carried out is ordered again."""

    KILL_AFTER = 4.0
    """Seconds that a supervisor has to kill its tree."""
    AGAIN_AFTER = 6.0

    def __init__(self, commands: SlurmCommands, errands: Errands) -> None:
        self.errands = errands
        self._commands = commands
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self._cancelled: set[str] = set()

    def terminate(self, attempt: BatchAttempt) -> None:
        """A stopped supervisor would not hear it."""
        self._signal(attempt, "--batch", "TERM")
        if attempt.suspended:
            self._signal(attempt, "--full", "CONT")

    def kill(self, attempt: BatchAttempt) -> None:
        self._signal(attempt, "--batch", str(KILL_SIGNAL))
        if attempt.suspended:
            self._signal(attempt, "--full", "CONT")

    def kill_supervisor(self, attempt: BatchAttempt) -> None:
        self._signal(attempt, "--batch", "KILL")

    def suspend(self, attempt: BatchAttempt) -> None:
        self._signal(attempt, "--full", "STOP")

    def go_on(self, attempt: BatchAttempt) -> None:
        self._signal(attempt, "--full", "CONT")

    def cancel(self, numbers: list[str]) -> None:
        """Of jobs that Slurm has just listed with our tokens and that are not to begin."""
        fresh = [number for number in numbers if number not in self._cancelled]
        self._cancelled = set(numbers)
        if fresh:
            self.errands.add(partial(self._cancel, fresh))

    def _cancel(self, numbers: list[str]) -> None:
        """What was not heard is ordered again when it is listed again."""
        try:
            self._commands.cancel(*numbers)
        except SlurmError:
            self._cancelled = self._cancelled.difference(numbers)

    def _signal(self, attempt: BatchAttempt, reach: str, name: str) -> None:
        self.errands.add(partial(self._run, reach, "-s", name, "-u", self.user, "-n", job_name(attempt.token)))

    def _run(self, *words: str) -> None:
        with suppress(SlurmError):
            self._commands.cancel(*words)
