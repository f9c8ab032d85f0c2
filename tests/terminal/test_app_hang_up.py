"""The connection drops: the app is gone soon, a keeper owns, and no job notices."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from support.apps import at_home, gone
from support.closing import Closings

GOODBYE = 128 + signal.SIGHUP


def test_a_hang_up_is_a_detach_and_the_queue_goes_on(tmp_path: Path) -> None:
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
        keeper = home.owner()
        assert f"keeper {keeper}" in home.ls().stdout
        listed = json.loads(home.ls("--json").stdout)["jobs"]
        assert [job["state"] for job in listed] == ["running", "running", "queued"]
        assert [home.claim_pid(job) for job in (0, 1)] == pids
        go.touch()
        home.gone("the queue is done and the keeper has left")
        assert home.states() == ["succeeded", "succeeded", "failed"]
        assert home.runs() == {"a": 1, "b": 1, "c": 1}


def closed_again_and_again(folder: Path, rounds: int, jobs: int) -> None:
    with at_home(folder) as home:
        closings = Closings(home, seed=rounds, jobs=jobs)
        closings.begin()
        for _ in range(rounds):
            closings.one()
            closings.keeper_owns()
        closings.judge()


def test_terminals_closed_at_any_moment_leave_no_app_behind_and_harm_no_job(tmp_path: Path) -> None:
    closed_again_and_again(tmp_path, rounds=5, jobs=15)


@pytest.mark.long
def test_fifty_terminals_closed_at_any_moment_leave_no_app_behind_and_harm_no_job(tmp_path: Path) -> None:
    closed_again_and_again(tmp_path, rounds=50, jobs=400)
