"""When the connection drops, the app exits, the daemon takes over, and no job notices."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest
from support.app import AppHome, at_home, gone
from support.sessions import alive
from support.waiting import until

LONGEST_START, LONGEST_STALL = 1.2, 0.6


class Closings:
    """Many short jobs come and go; one stays, so that there is always work for whoever owns."""

    def __init__(self, home: AppHome, seed: int = 0, jobs: int = 400) -> None:
        self.home = home
        self._chance = random.Random(seed)
        self._go = home.directory / "go"
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
            until(lambda: not alive(terminal.process.pid), "the app has exited")
        self.home.owner()

    def one(self) -> None:
        """Opens, perhaps stalls, closes."""
        ignoring = self._chance.choice(["", "HUP"])
        with self.home.opened(gpus=None, ignoring=ignoring) as terminal:
            shown = self._chance.random() < 0.75
            if shown:
                terminal.shows("▶ ")
            else:
                self._nap(LONGEST_START)
            if shown and self._chance.random() < 0.7:
                terminal.stall()
                self._nap(LONGEST_STALL)
            terminal.hang_up()
            gone(terminal.process.pid)

    def daemon_owns(self) -> None:
        """And the job that was running all the time is running still."""
        self.home.owner()
        assert self.home.state(0) == "running"

    def judge(self) -> None:
        """Every job has run once and ended well; nobody is left when the queue is done."""
        until(lambda: set(self.home.counts()) <= {"running", "succeeded"}, "nothing waits any more")
        self._go.touch()
        self.home.gone("the queue is done and the daemon has left")
        assert self.home.runs() == dict.fromkeys(self._labels, 1)
        assert set(self.home.states()) == {"succeeded"}
        assert self.home.claims() == []

    def _nap(self, longest: float) -> None:
        """A moment chosen by chance, not a condition."""
        time.sleep(self._chance.uniform(0.0, longest))


GOODBYE = 128 + signal.SIGHUP


def test_after_a_hang_up_the_daemon_finishes_the_queue(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        go = tmp_path / "go"
        waits = f"until [ -e {go} ]; do sleep 0.05; done"
        jobs = home.write(*(home.told(label, waits) for label in "ab"), home.told("c", "exit 3"))
        with home.opened(jobs) as terminal:
            terminal.shows("2 run")
            terminal.shows("0/3")
            pids = [home.claim_pid(job) for job in (0, 1)]
            terminal.hang_up()
            gone(terminal.process.pid)
            assert terminal.status() == GOODBYE
        daemon = home.owner()
        assert f"daemon {daemon}" in home.ls().stdout
        listed = json.loads(home.ls("--json").stdout)["jobs"]
        assert [job["state"] for job in listed] == ["running", "running", "queued"]
        assert [home.claim_pid(job) for job in (0, 1)] == pids
        go.touch()
        home.gone("the queue is done and the daemon has exited")
        assert home.states() == ["succeeded", "succeeded", "failed"]
        assert home.runs() == {"a": 1, "b": 1, "c": 1}


def closed_again_and_again(directory: Path, rounds: int, jobs: int) -> None:
    with at_home(directory) as home:
        closings = Closings(home, seed=rounds, jobs=jobs)
        closings.begin()
        for _ in range(rounds):
            closings.one()
            closings.daemon_owns()
        closings.judge()


def test_terminals_closed_at_any_moment_leave_no_app_behind_and_harm_no_job(tmp_path: Path) -> None:
    closed_again_and_again(tmp_path, rounds=5, jobs=15)


@pytest.mark.long
def test_fifty_terminals_closed_at_any_moment_leave_no_app_behind_and_harm_no_job(tmp_path: Path) -> None:
    closed_again_and_again(tmp_path, rounds=50, jobs=400)
