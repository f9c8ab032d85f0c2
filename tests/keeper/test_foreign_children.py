"""Children of a job that became another user's: found, ended where we may, and named where we may not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.second_user import SecondUser, second_user
from support.sessions import GPUTUI, alive, all_pids
from support.waiting import until

from gputui.process.processes import stat_of


@pytest.fixture
def user() -> Iterator[SecondUser]:
    with second_user() as user:
        yield user


@contextmanager
def running(user: SecondUser, command: str) -> Iterator[int]:
    """The pid that the job wrote down; afterwards nothing of it is left."""
    (user.folder / "jobs").write_text(command + "\n")
    run = user.start(*GPUTUI, "run", "--gpus", "0", "--grace", "0.2", "jobs")
    number = user.folder / "pid"
    try:
        until(lambda: number.exists() and number.read_text().endswith("\n"), "the job has written its number")
        yield int(number.read_text())
    finally:
        _end(user.folder)
        run.communicate()


def _end(folder: Path) -> None:
    """Everything in this folder, as root may."""
    for _ in range(3):
        for pid in all_pids():
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/cwd").startswith(str(folder)):
                    os.kill(pid, signal.SIGKILL)


def verb(user: SecondUser, *words: str) -> subprocess.CompletedProcess[str]:
    return user.run(*GPUTUI, *words, "--session", user.folder / "gputui_run")


def job(user: SecondUser) -> dict[str, Any]:
    done = verb(user, "show", "0", "--json")
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def test_a_set_uid_child_is_ended_with_its_job(user: SecondUser) -> None:
    sleep = user.set_uid("sleep")
    with running(user, f"echo $$ >pid.new; mv pid.new pid; exec {sleep} 600") as pid:
        until(lambda: os.stat(f"/proc/{pid}").st_uid == 0, "it is root's")
        assert verb(user, "kill", "0").returncode == 0
        until(lambda: job(user)["state"] == "killed", "the job has ended")
        assert not alive(pid)


def test_a_requeued_job_whose_child_may_not_be_signalled_is_held_and_the_child_is_named(user: SecondUser) -> None:
    setpriv = user.set_uid("setpriv")
    foreign = f"{setpriv} --reuid=0 --regid=0 --clear-groups sleep 600"
    with running(user, f"echo $$ >pid.new; mv pid.new pid; exec {foreign}") as pid:
        until(lambda: os.stat(f"/proc/{pid}").st_uid == 0, "it is root's")
        stopped = verb(user, "stop")
        assert stopped.returncode == 1
        sentence = f"pid {pid} (sleep 600) lives on, of root, which you may not signal"
        assert f"still there: {sentence}" in stopped.stderr
        assert "nothing of gputui runs here any more" not in stopped.stdout
        now = job(user)
        assert now["state"] == "held"
        assert now["why"] == f"{sentence}; end it, then release the job"
        assert sentence in [line["text"] for line in now["story"]]
        assert alive(pid)
        (left,) = now["attempts"][-1]["left"]
        stat = stat_of(pid)
        assert stat is not None
        assert (left["pid"], left["started"]) == (pid, stat.started)
