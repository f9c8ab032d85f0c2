"""The disk fills up under the app: the screen says what is so, and keys that end jobs still do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.apps import at_home
from support.mounts import full, tmpfs
from support.terminal import RecordedTerminal
from support.waiting import until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "disk", "2m") as folder:
        yield folder


def refused(terminal: RecordedTerminal) -> bool:
    terminal.press("+")
    terminal.settles()
    return "! TROUBLE" in terminal.text


def test_a_full_disk_is_said_with_what_still_works_and_goes_away_by_itself(disk: Path, tmp_path: Path) -> None:
    with at_home(tmp_path, "disk/out") as home, home.opened(home.write("exec sleep 600", "exec sleep 601")) as terminal:
        terminal.shows("2 run")
        with full(disk):
            until(lambda: refused(terminal), "what the disk still had room for is used up")
            terminal.shows("! TROUBLE  nothing new starts, running jobs go on: the queue cannot be written")
            terminal.shows("K and B end jobs meanwhile, other changes are refused")
            terminal.shows("nothing was changed: the queue cannot be written")
            terminal.press("K")
            terminal.shows("Kill")
            terminal.press("K")
            terminal.shows("killed")
            home.becomes(0, "killed")
            assert home.state(1) == "running"
            assert "! TROUBLE" in terminal.text
        until(lambda: "! TROUBLE" not in terminal.text, "the trouble is over")
        terminal.shows("1 run")
