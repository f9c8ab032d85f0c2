"""Pythons whose `posix_spawn` cannot start a session (conda): runs, daemons, yielders, hooks and wrappers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.machines import CONDA, python_path
from support.sessions import Home, finished, kill
from support.waiting import until

from gputui.session.lock import OwnerKind


@pytest.fixture(autouse=True)
def _conda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path, CONDA))
    poor = "import os; os.posix_spawn('/bin/true', ['true'], {}, setsid=True)"
    refused = subprocess.run([sys.executable, "-c", poor], capture_output=True, text=True)
    assert "setsid unavailable" in refused.stderr


def test_a_daemon_takes_over_and_has_a_daemon_of_its_own(home: Home) -> None:
    gate = home.directory / "gate"
    jobs = home.write(f"until test -e {gate}; do sleep 0.01; done; exit 5", "sleep 600", "exit 7")
    run = home.start(jobs)
    first = home.waiter()
    until(lambda: len(home.ask("status")["active"]) == 2, "two jobs run")
    kill(run.pid)
    finished(run)
    assert home.owner(OwnerKind.DAEMON) == first
    second = home.waiter()
    assert second != first
    gate.touch()
    until(lambda: home.ask("listing", jobs=[2])["jobs"][0]["state"] == "failed", "the next one ran under the daemon")
    home.command({"type": "kill", "job": 1, "now": True})
    home.gone()
    assert [job.attempts[-1].exit_code for job in home.jobs()] == [5, 137, 7]


def test_a_yielder_and_a_hook_run(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = home.directory / "config" / "gputui"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(f'[hooks]\non_job_end = "echo hook >>{home.lines}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.directory / "config"))
    path = home.directory / "gen.py"
    path.write_text(f"def yielder():\n    for n in range(3):\n        yield f'echo {{n}} >>{home.lines}'\n")
    done = finished(home.start("--job_yielder", path))
    assert done.returncode == 0, done.stderr
    until(lambda: home.runs() == {"0": 1, "1": 1, "2": 1, "hook": 3}, "all have run")
