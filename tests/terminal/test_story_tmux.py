"""The whole story in a real tmux: a crash is mended, a job killed, one put first, one added; the app dies and nothing
is lost; it is left, and found again as it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.homes import Home
from support.sessions import GPUTUI
from support.tmux import Tmux, in_tmux
from support.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

WAITS = "until [ -e {flag} ]; do sleep 0.05; done; echo {flag} is there"


class Story:
    """The user, their folder and their terminal."""

    def __init__(self, folder: Path, tmux: Tmux) -> None:
        self.folder = folder
        self.tmux = tmux

    def listing(self) -> dict[str, Any]:
        done = subprocess.run([*GPUTUI, "ls", "--json"], cwd=self.folder, capture_output=True, text=True, check=True)
        listing: dict[str, Any] = json.loads(done.stdout)
        return listing

    def job(self, number: int) -> dict[str, Any]:
        job: dict[str, Any] = self.listing()["jobs"][number]
        return job

    def becomes(self, number: int, state: str) -> None:
        until(lambda: self.job(number)["state"] == state, f"#{number} is {state}")

    def owner(self) -> tuple[str, int]:
        owner = self.listing()["owner"]
        return owner["kind"], owner["pid"]

    def go_to(self, word: str) -> None:
        """By a filter, so that the cursor is on the first of the jobs with this word."""
        self.tmux.press("/")
        self.tmux.shows("enter keeps it")
        self.tmux.type(word)
        self.tmux.press("Enter")
        self.tmux.shows(f"/{word}: 1 shown")

    def show_all(self) -> None:
        """Seen to be done before the next key: Escape and a key at once are another key."""
        self.tmux.press("Escape")
        self.tmux.hides(" shown")


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    folder = tmp_path / "lab"
    folder.mkdir()
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "LANG": "C.UTF-8"}
    (folder / "train.py").write_text("import lab_settings\nprint('trained')\n")
    lines = ["python3 train.py --lr 0.1", "python3 train.py --lr 0.2", "python3 train.py --lr 0.3"]
    lines += ["sleep 1000", WAITS.format(flag="one"), WAITS.format(flag="two"), "echo last"]
    (folder / "jobs.txt").write_text("\n".join(lines) + "\n")
    session = Home(folder, "gputui_run")
    with in_tmux(folder, home) as tmux:
        yield Story(folder, tmux)
        session.end()


def test_the_whole_story(story: Story) -> None:
    crashes_are_named_and_mended(story)
    a_job_is_put_first_and_another_killed(story)
    the_app_is_killed_and_nothing_is_lost(story)
    a_job_is_added_and_the_screen_left_and_found_again(story)


def test_what_is_copied_is_in_the_buffer_of_a_tmux_with_default_settings(story: Story) -> None:
    story.tmux.run([*GPUTUI, "--gpus", "cpu:1", "--new", "jobs.txt"])
    story.tmux.shows("2 Queue")
    story.go_to("1000")
    story.tmux.press("y")
    until(lambda: story.tmux.copied == "sleep 1000", "the command is copied")


def crashes_are_named_and_mended(story: Story) -> None:
    tmux = story.tmux
    tmux.run([*GPUTUI, "--gpus", "sim:2", "jobs.txt"])
    tmux.shows("3 jobs crashed alike  ModuleNotFoundError: No module named 'lab_settings'")
    tmux.shows("PAUSED")
    (story.folder / "lab_settings.py").touch()
    tmux.press("R")
    tmux.shows("enter rerun")
    tmux.press("Enter")
    tmux.shows("▶ 2 run")
    tmux.shows("3/7")


def a_job_is_put_first_and_another_killed(story: Story) -> None:
    tmux = story.tmux
    story.go_to("last")
    tmux.press("+")
    until(lambda: story.job(6)["priority"] == 40, "its priority is raised")
    story.show_all()
    story.go_to("1000")
    tmux.press("K")
    tmux.shows("Kill #3?")
    tmux.press("y")
    story.becomes(3, "killed")
    story.becomes(6, "succeeded")
    story.becomes(5, "running")
    story.show_all()
    assert story.job(5)["started"] >= story.job(6)["ended"]


def the_app_is_killed_and_nothing_is_lost(story: Story) -> None:
    running = [story.job(number)["pid"] for number in (4, 5)]
    kind, pid = story.owner()
    assert kind == "app"
    os.kill(pid, signal.SIGKILL)
    until(lambda: story.owner()[0] == "keeper", "the keeper owns")
    assert [story.job(number)["pid"] for number in (4, 5)] == running
    (story.folder / "one").touch()
    story.becomes(4, "succeeded")
    assert story.job(5)["state"] == "running"


def a_job_is_added_and_the_screen_left_and_found_again(story: Story) -> None:
    tmux = story.tmux
    tmux.run(GPUTUI)
    tmux.shows("1 run")
    tmux.shows("6/7")
    tmux.press("a")
    tmux.shows("Add a job")
    tmux.type(WAITS.format(flag="three"))
    tmux.press("Enter")
    tmux.shows("2 run")
    tmux.press("q")
    tmux.shows("detach: everything goes on")
    tmux.press("d")
    tmux.shows("schedules on. Back: gputui · Stop: gputui stop")
    assert story.owner()[0] == "keeper"
    (story.folder / "two").touch()
    story.becomes(5, "succeeded")
    tmux.run(GPUTUI)
    tmux.shows("1 run")
    tmux.shows("7/8")
    (story.folder / "three").touch()
    tmux.shows("8/8")
    tmux.press("q")
    tmux.leaves()
    assert [job["attempt"] for job in story.listing()["jobs"]] == [2, 2, 2, 1, 1, 1, 1, 1]
