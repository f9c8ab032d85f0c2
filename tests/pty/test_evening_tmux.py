"""An evening in a real tmux: fix an error and rerun, kill, raise a priority, survive kill -9, detach and reattach."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.app import AppHome
from support.sessions import GPUTUI
from support.terminal import Tmux, in_tmux
from support.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

WAITS = "until [ -e {flag} ]; do sleep 0.05; done; echo {flag} is there"


class Evening(AppHome):
    """A user, their session and their terminal."""

    def __init__(self, directory: Path, tmux: Tmux) -> None:
        super().__init__(directory, "gputui_run")
        self.tmux = tmux

    def job(self, number: int) -> dict[str, Any]:
        job: dict[str, Any] = self.ask("show", job=number)
        return job

    def go_to(self, word: str) -> None:
        """Filter, so that the cursor is on the first job with this word."""
        self.tmux.press("/")
        self.tmux.shows("state:failed lr=0.1 behind text !not       Enter: keep · Esc: clear")
        self.tmux.type(word)
        self.tmux.press("Enter")
        self.tmux.shows(f"/{word}: 1 shown")

    def show_all(self) -> None:
        """Wait until it is done: Escape and the next key at once would be another key."""
        self.tmux.press("Escape")
        self.tmux.hides(" shown")


@pytest.fixture
def evening(tmp_path: Path) -> Iterator[Evening]:
    directory = tmp_path / "lab"
    directory.mkdir()
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "LANG": "C.UTF-8"}
    (directory / "train.py").write_text("import lab_settings\nprint('trained')\n")
    lines = ["python3 train.py --lr 0.1", "python3 train.py --lr 0.2", "python3 train.py --lr 0.3"]
    lines += ["sleep 1000", WAITS.format(flag="one"), WAITS.format(flag="two"), "echo last"]
    with in_tmux(directory, env) as tmux:
        evening = Evening(directory, tmux)
        evening.write(*lines)
        yield evening
        evening.end()


def test_a_whole_evening(evening: Evening) -> None:
    an_error_is_fixed_and_its_jobs_rerun(evening)
    a_job_is_moved_up_and_another_killed(evening)
    the_app_is_killed_and_nothing_is_lost(evening)
    a_job_is_added_and_the_session_left_and_reopened(evening)


def test_tmux_with_default_settings_copies(evening: Evening) -> None:
    evening.tmux.run([*GPUTUI, "--gpus", "cpu:1", "--new", "jobs.txt"])
    evening.tmux.shows("2 Queue")
    evening.go_to("1000")
    evening.tmux.press("y")
    until(lambda: evening.tmux.copied == "sleep 1000", "the command is copied")


def an_error_is_fixed_and_its_jobs_rerun(evening: Evening) -> None:
    tmux = evening.tmux
    tmux.run([*GPUTUI, "--gpus", "sim:2", "jobs.txt"])
    tmux.shows("3 jobs failed with the same error  ModuleNotFoundError: No module named 'lab_settings'")
    tmux.shows("PAUSED")
    (evening.directory / "lab_settings.py").touch()
    tmux.press("R")
    tmux.shows("Enter: rerun")
    tmux.press("Enter")
    tmux.shows("▶ 2 run")
    tmux.shows("3/7")


def a_job_is_moved_up_and_another_killed(evening: Evening) -> None:
    tmux = evening.tmux
    evening.go_to("last")
    tmux.press("+")
    until(lambda: evening.job(6)["priority"] == 40, "its priority is raised")
    evening.show_all()
    evening.go_to("1000")
    tmux.press("K")
    tmux.shows("Kill #3?")
    tmux.press("y")
    evening.becomes(3, "killed")
    evening.becomes(6, "succeeded")
    evening.becomes(5, "running")
    evening.show_all()
    assert evening.job(5)["started"] >= evening.job(6)["ended"]


def the_app_is_killed_and_nothing_is_lost(evening: Evening) -> None:
    running = [evening.job(number)["pid"] for number in (4, 5)]
    os.kill(evening.app(), signal.SIGKILL)
    evening.owner()
    assert [evening.job(number)["pid"] for number in (4, 5)] == running
    (evening.directory / "one").touch()
    evening.becomes(4, "succeeded")
    assert evening.job(5)["state"] == "running"


def a_job_is_added_and_the_session_left_and_reopened(evening: Evening) -> None:
    tmux = evening.tmux
    tmux.run(GPUTUI)
    tmux.shows("1 run")
    tmux.shows("6/7")
    tmux.press("a")
    tmux.shows("Add a job")
    tmux.type(WAITS.format(flag="three"))
    tmux.press("Enter")
    tmux.shows("2 run")
    tmux.press("q")
    tmux.shows("detach: jobs keep running in the background")
    tmux.press("d")
    tmux.shows("keeps scheduling. Reattach: gputui · Stop: gputui stop")
    evening.owner()
    (evening.directory / "two").touch()
    evening.becomes(5, "succeeded")
    tmux.run(GPUTUI)
    tmux.shows("1 run")
    tmux.shows("7/8")
    (evening.directory / "three").touch()
    tmux.shows("8/8")
    tmux.press("q")
    tmux.leaves()
    assert [job.issued for job in evening.jobs()] == [2, 2, 2, 1, 1, 1, 1, 1]
