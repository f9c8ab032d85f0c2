"""Keys over a slow link come in heaps, and a terminal changes its size: what was meant is what happens."""

from __future__ import annotations

from pathlib import Path

from support.apps import at_home, repainted_alike


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
