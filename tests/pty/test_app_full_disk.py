"""On a full disk the screen names the problem, and the keys that end jobs still work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.app import at_home
from support.machines import full, tmpfs
from support.terminal import RecordedTerminal
from support.waiting import until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "disk", "2m") as directory:
        yield directory


def refused(terminal: RecordedTerminal) -> bool:
    terminal.press("+")
    terminal.settles()
    return "! PROBLEM" in terminal.text


def test_a_full_disk_is_shown_until_there_is_room_again(disk: Path, tmp_path: Path) -> None:
    with at_home(tmp_path, "disk/out") as home, home.opened(home.write("exec sleep 600", "exec sleep 601")) as terminal:
        terminal.shows("2 run")
        with full(disk):
            until(lambda: refused(terminal), "the last room on the disk is used up")
            terminal.shows("! PROBLEM  no new jobs start, running jobs continue: cannot write the queue")
            terminal.shows("recovers automatically · until then only K and B work")
            terminal.shows("nothing was changed: cannot write the queue")
            terminal.press("K")
            terminal.shows("Kill")
            terminal.press("K")
            terminal.shows("killed")
            home.becomes(0, "killed")
            assert home.state(1) == "running"
            assert "! PROBLEM" in terminal.text
        until(lambda: "! PROBLEM" not in terminal.text, "the problem is over")
        terminal.shows("1 run")
