"""Opening, keys that arrive at once, resizing, the clipboard, the mouse, and an idle screen."""

from __future__ import annotations

import time
from base64 import b64encode
from pathlib import Path

import pytest
from support.app import at_home, repainted_alike
from support.terminal import RecordedTerminal
from support.waiting import until

NO_TEXTUAL_UNTIL = """
import os, sys, time

def hook(event, arguments):  # before the import takes any lock, which the owner's thread may need
    while event == "import" and arguments[0] == "textual" and not os.path.exists({gate!r}):
        time.sleep(0.01)

sys.addaudithook(hook)
"""


def test_jobs_run_before_there_is_a_screen(tmp_path: Path) -> None:
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(NO_TEXTUAL_UNTIL.format(gate=str(tmp_path / "gate")))
    with at_home(tmp_path) as home:
        jobs = home.write(home.told("first"), home.told("second"))
        with home.opened(jobs, env={"PYTHONPATH": str(tmp_path / "late")}) as terminal:
            until(lambda: home.runs() == {"first": 1, "second": 1}, "both jobs ran")
            assert "2 Queue" not in terminal.text
            (tmp_path / "gate").touch()
            terminal.shows("2 in jobs.txt: 2 new.")
            terminal.shows("2 Queue")


def test_keys_that_arrive_at_once_act_as_if_typed_one_by_one(tmp_path: Path) -> None:
    commands = ("exec sleep 600", "exec sleep 601", "echo resnet")
    with at_home(tmp_path) as home, home.opened_quietly(*commands) as terminal:
        terminal.shows("2 run")
        terminal.shows("0/3")
        terminal.press("/resnet\r")
        terminal.shows("/resnet: 1 shown")
        assert home.counts() == {"running": 2, "queued": 1}
        terminal.press("apython prepare.py\r")
        terminal.shows("2 run")
        terminal.shows("0/4")
        assert home.ask("show", job=3)["command"] == "python prepare.py"
        terminal.press("Ky")
        home.becomes(2, "killed")


def test_after_resizing_the_screen_is_whole(tmp_path: Path) -> None:
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
def test_without_tmux_the_terminal_copies(tmp_path: Path, tmux: str | None) -> None:
    command = "exec sleep 600"
    with at_home(tmp_path) as home, home.opened(home.write(command), env={"TMUX": tmux}) as terminal:
        terminal.shows("1 run")
        terminal.press("y")
        asked = b"\x1b]52;c;" + b64encode(command.encode())
        until(lambda: asked in terminal.since(0), "the terminal is asked to copy")


@pytest.mark.parametrize(("value", "wanted"), [(None, True), ("no", False)])
def test_the_mouse_can_be_turned_off(tmp_path: Path, value: str | None, wanted: bool) -> None:
    env = {"GPUTUI_MOUSE": value}
    with at_home(tmp_path) as home, home.opened(home.write("exec sleep 600"), env=env) as terminal:
        terminal.shows("1 run")
        assert (b"\x1b[?1000h" in terminal.since(0)) is wanted
        terminal.press("qd")
        assert terminal.status() == 0
        assert (b"\x1b[?1000" in terminal.since(0)) is wanted


def sent(terminal: RecordedTerminal, seconds: float = 3.0) -> int:
    before = terminal.settles(0.3)
    time.sleep(seconds)
    return terminal.count - before


def test_an_idle_queue_sends_next_to_nothing(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, home.opened_quietly("echo done", "exit 3") as terminal:
        terminal.shows("2/2")
        terminal.shows("1 ✗")
        terminal.press("z")  # hide the devices, whose figures always change a little
        until(lambda: sent(terminal) < 200, "the screen is idle")
        repainted_alike(terminal)
