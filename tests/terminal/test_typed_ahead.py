"""Keys that arrive at once, as over a slow link, mean what they mean one by one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.homes import Home
from support.sessions import GPUTUI
from support.terminal import RecordedTerminal, recorded

LAST = 9


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[RecordedTerminal]:
    """A screen over one running and nine waiting jobs."""
    home = Home(tmp_path, "gputui_run")
    jobs = home.write(*(f"sleep 100{number}" for number in range(LAST + 1)))
    words = [*GPUTUI, "--gpus", "sim:1", str(jobs)]
    with recorded(words, size=(120, 40), cwd=tmp_path, env={"XDG_STATE_HOME": str(tmp_path)}) as screen:
        screen.shows("1 run")
        screen.shows("0/10")
        screen.shows("● running")
        yield screen
        home.end()


def listed(folder: Path) -> dict[str, Any]:
    done = subprocess.run([*GPUTUI, "ls", "--json"], cwd=folder, capture_output=True, text=True, check=True)
    listing: dict[str, Any] = json.loads(done.stdout)
    return listing


def test_a_filter_typed_at_once_is_a_filter_and_not_so_many_keys(terminal: RecordedTerminal, tmp_path: Path) -> None:
    terminal.press("jj/php1003\r")
    terminal.shows("/php1003: 0 shown")
    listing = listed(tmp_path)
    assert {job["state"] for job in listing["jobs"]} == {"running", "queued"}
    assert listing["scheduler"]["state"] == "running"


def test_a_command_typed_right_after_the_key_that_asks_for_it_is_added_whole(
    terminal: RecordedTerminal, tmp_path: Path
) -> None:
    terminal.press("aecho added\r")
    terminal.shows("added #10")
    assert listed(tmp_path)["jobs"][-1]["command"] == "echo added"


def test_the_answer_to_a_question_may_come_with_it(terminal: RecordedTerminal, tmp_path: Path) -> None:
    terminal.press("jKy")
    terminal.shows("■ killed")
    assert listed(tmp_path)["jobs"][1]["state"] == "killed"
