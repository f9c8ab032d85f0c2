"""The live view of several hosts in a real terminal: answers, errors, and back from a session."""

from __future__ import annotations

import shutil

import pytest
from support.sessions import GPUTUI
from support.sshd import Lab
from support.terminal import in_tmux


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")
def test_a_session_is_opened_from_the_screen_and_left_back_to_it(lab: Lab) -> None:
    lab.machine("lab7")
    lab.machine("lab8")
    lab.dead("lab9")
    with in_tmux(lab.directory, lab.environment(TERM="screen-256color")) as terminal:
        terminal.run([*GPUTUI, "hosts", "--live", "--host", "lab7,lab8,lab9"])
        terminal.shows("2 of 3 reachable")
        terminal.shows("Connection refused")
        assert "cpu 0" in terminal.text
        terminal.press("j", "Enter")
        terminal.shows("Quit")  # the other machine's own screen, a monitor as there is no session
        terminal.press("q")
        terminal.shows("2 of 3 reachable")
        terminal.press("q")
        terminal.leaves()
