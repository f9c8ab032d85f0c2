"""Keys over a slow link come in heaps, and a terminal changes its size: what was meant is what happens."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from support.apps import at_home, repainted_alike
from support.waiting import until


def test_what_is_typed_in_one_packet_goes_where_it_was_meant(tmp_path: Path) -> None:
    commands = ("exec sleep 600", "exec sleep 601", "echo resnet")
    with at_home(tmp_path) as home, home.opened_quietly(*commands) as terminal:
        terminal.shows("2 run")
        terminal.shows("0/3")
        terminal.press("/resnet\r")
        terminal.shows("/resnet: 1 shown")
        terminal.press("apython prepare.py\r")
        terminal.shows("2 run")
        terminal.shows("0/4")
        assert home.ask("show", job=3)["command"] == "python prepare.py"
        assert home.state(2) == "queued"


def test_after_any_change_of_size_the_screen_is_whole(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, home.opened(home.write("exec sleep 600", "exec sleep 601", "true")) as terminal:
        terminal.shows("2 run")
        terminal.shows("0/3")
        for columns, rows in ((80, 24), (200, 60), (40, 10), (10, 3), (120, 40)):
            terminal.resize(columns, rows)
            terminal.settles(0.1)
        terminal.shows("2 run")
        terminal.shows("0/3")
        terminal.shows("q Quit")
        repainted_alike(terminal)


@pytest.mark.parametrize("tmux", [None, "/nonexistent/tmux,1,0"])
def test_where_there_is_no_tmux_the_terminal_is_asked_to_copy(tmp_path: Path, tmux: str | None) -> None:
    command = "exec sleep 600"
    with at_home(tmp_path) as home, home.opened(home.write(command), env={"TMUX": tmux}) as terminal:
        terminal.shows("1 run")
        terminal.press("y")
        asked = b"\x1b]52;c;" + b64encode(command.encode())
        until(lambda: asked in terminal.since(0), "the terminal is asked to copy")


@pytest.mark.parametrize(("value", "wanted"), [(None, True), ("no", False)])
def test_the_mouse_can_be_left_to_the_terminal(tmp_path: Path, value: str | None, wanted: bool) -> None:
    env = {"GPUTUI_MOUSE": value}
    with at_home(tmp_path) as home, home.opened(home.write("exec sleep 600"), env=env) as terminal:
        terminal.shows("1 run")
        assert (b"\x1b[?1000h" in terminal.since(0)) is wanted
        terminal.press("qd")
        assert terminal.status() == 0
        assert (b"\x1b[?1000" in terminal.since(0)) is wanted
