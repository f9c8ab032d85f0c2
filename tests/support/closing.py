"""Terminals that are closed on the app at moments chosen by chance, one after the other, on one session at work."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .apps import AppHome, gone
from .terminal import RecordedTerminal
from .waiting import until

__all__ = ["Closed", "Closings"]

_TICKS_PER_SECOND = 100
_LONGEST_START, _LONGEST_STALL = 1.2, 0.6


@dataclass(frozen=True)
class Closed:
    """What became of one app: how long it outlived its terminal, and the CPU seconds it used up meanwhile."""

    seconds: float
    cpu: float
    stalled: bool
    shown: bool
    """Whether its screen had been there at all."""


class Closings:
    """Many short jobs come and go; one stays, so that there is always work for whoever owns."""

    def __init__(self, home: AppHome, seed: int = 0, jobs: int = 400) -> None:
        self.home = home
        self._chance = random.Random(seed)
        self._go = home.folder / "go"
        lasting = home.told("lasting", f"until [ -e {self._go} ]; do sleep 0.05; done")
        self._labels = {"lasting", *(f"short-{number}" for number in range(jobs))}
        short = (home.told(label, f"sleep 0.{self._chance.randint(0, 99):02d}") for label in sorted(self._labels)[1:])
        self._file = home.write(lasting, *short)

    def begin(self) -> None:
        """The first app loads the jobs."""
        with self.home.opened(self._file, gpus="cpu:3") as terminal:
            terminal.shows("▶ ")
            self.home.becomes(0, "running")
            terminal.hang_up()
            gone(terminal.process.pid)
        self.home.owner()

    def one(self) -> Closed:
        """Opens, perhaps stalls, closes."""
        shown = self._chance.random() < 0.75
        ignoring = self._chance.choice(["", "HUP"])
        with self.home.opened(gpus=None, ignoring=ignoring) as terminal:
            if shown:
                terminal.shows("▶ ")
            else:
                self._nap(_LONGEST_START)
            stalled = shown and self._chance.random() < 0.7
            if stalled:
                terminal.stall()
                self._nap(_LONGEST_STALL)
            return self._closed(terminal, stalled=stalled, shown=shown)

    def _closed(self, terminal: RecordedTerminal, *, stalled: bool, shown: bool) -> Closed:
        pid = terminal.process.pid
        used = cpu_seconds(pid)
        terminal.hang_up()
        since = time.monotonic()
        gone(pid)
        return Closed(time.monotonic() - since, cpu_seconds(pid) - used, stalled, shown)

    def keeper_owns(self) -> None:
        """And the job that was running all the time is running still."""
        self.home.owner()
        assert self.home.state(0) == "running"

    def judge(self) -> None:
        """Every job has run once and ended well; nobody is left when the queue is done."""
        until(lambda: set(self.home.counts()) <= {"running", "succeeded"}, "nothing waits any more")
        self._go.touch()
        self.home.gone("the queue is done and the keeper has left")
        assert self.home.runs() == dict.fromkeys(self._labels, 1)
        assert set(self.home.states()) == {"succeeded"}
        assert self.home.claims() == []

    def _nap(self, longest: float) -> None:
        """A moment chosen by chance, not a condition."""
        time.sleep(self._chance.uniform(0.0, longest))


def cpu_seconds(pid: int) -> float:
    """User and system time so far; of a process that has ended, all that it used, until it is waited for."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
    return 0.0
