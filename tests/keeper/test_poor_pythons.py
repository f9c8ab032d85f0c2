"""The whole way on Pythons that lack what others have: run, keepers, yielders, hooks, wrappers and their ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.homes import Home, kill
from support.poor_pythons import CONDA, WITHOUT_CTYPES, python_path
from support.sessions import finished
from support.waiting import until

from gputui.session.lock import OwnerKind


@pytest.fixture(params=[CONDA, WITHOUT_CTYPES], ids=["conda", "without ctypes"], autouse=True)
def _poor(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path, request.param))
    poor = "import os; os.posix_spawn('/bin/true', ['true'], {}, setsid=True)"
    refused = subprocess.run([sys.executable, "-c", poor], capture_output=True, text=True)
    assert "setsid unavailable" in refused.stderr


def test_a_run_runs_its_jobs_and_leaves(home: Home) -> None:
    done = finished(home.start(home.write("exit 0", "exit 3", "kill -9 $$")))
    assert done.returncode == 1, done.stderr
    home.gone()
    assert [job.attempts[-1].exit_code for job in home.jobs()] == [0, 3, 137]


def test_a_keeper_takes_over_and_has_a_keeper_of_its_own(home: Home) -> None:
    gate = home.folder / "gate"
    jobs = home.write(f"until test -e {gate}; do sleep 0.01; done; exit 5", "sleep 600", "exit 7")
    run = home.start(jobs)
    first = home.waiter()
    until(lambda: len(home.ask("status")["active"]) == 2, "two jobs run")
    kill(run.pid)
    finished(run)
    assert home.owner(OwnerKind.KEEPER) == first
    second = home.waiter()
    assert second != first
    gate.touch()
    until(lambda: home.ask("listing", jobs=[2])["jobs"][0]["state"] == "failed", "the next one ran under the keeper")
    home.command({"type": "kill", "job": 1, "now": True})
    home.gone()
    assert [job.attempts[-1].exit_code for job in home.jobs()] == [5, 137, 7]


def test_a_verb_starts_a_keeper_where_there_is_none(home: Home) -> None:
    home.begin()
    home.add(home.told("added"))
    home.resume()
    until(lambda: home.runs() == {"added": 1}, "the job ran")
    home.gone()


def test_a_yielder_yields(home: Home) -> None:
    path = home.folder / "gen.py"
    path.write_text(f"def yielder():\n    for n in range(3):\n        yield f'echo {{n}} >>{home.lines}'\n")
    done = finished(home.start("--job_yielder", path))
    assert done.returncode == 0, done.stderr
    assert home.runs() == {"0": 1, "1": 1, "2": 1}


def test_hooks_are_run(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home.folder / "config" / "gputui"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[hooks]\non_job_end = "echo hook >>{home.lines}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.folder / "config"))
    assert finished(home.start(home.write("true"))).returncode == 0
    until(lambda: home.runs() == {"hook": 1}, "the hook ran")
