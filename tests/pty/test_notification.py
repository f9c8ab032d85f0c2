"""Notifications through the terminal: in its own form, and without hostile sequences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.app import at_home
from support.waiting import until

from gputui.tui.terminal.app import notification

WHOLE = re.compile(r"\a(?:\x1b\](?:9|777;notify;gputui);[^\x00-\x1f\x7f-\x9f]*\x07)+")


@pytest.mark.parametrize(
    ("environment", "forms"),
    [({"TERM_PROGRAM": "WezTerm"}, ["9"]), ({"VTE_VERSION": "7600"}, ["777"]), ({"TERM": "foot"}, ["777"]),
     ({"TERM": "xterm-kitty"}, ["9"]), ({"TERM": "xterm-256color"}, ["9", "777"]), ({}, ["9", "777"])],
)  # fmt: skip
def test_a_terminal_gets_the_form_it_understands(environment: dict[str, str], forms: list[str]) -> None:
    assert re.findall(r"\x1b\](\d+);", notification("done", environment)) == forms


HOSTILE = ("a\x07b", "a\x1b\\b", "\x1b]52;c;eA==\x07", "\x9c\x9d0;x\x07", "a\nb", "x" * 9999, "\ud800")


@pytest.mark.parametrize("name", HOSTILE)
def test_no_job_name_can_end_the_sequence_or_start_another(name: str) -> None:
    sent = notification(f"gputui: #1 {name}", {})
    assert WHOLE.fullmatch(sent), repr(sent)
    assert len(sent) < 600


def test_a_pause_after_errors_notifies_a_real_terminal(tmp_path: Path) -> None:
    crashing = [f"sleep 1; exit 1 # {number}" for number in range(3)]
    with at_home(tmp_path) as home, home.opened(home.write(*crashing)) as terminal:
        until(lambda: b"\a\x1b]9;gputui " in bytes(terminal.recorded), "it rang")
        assert b"paused: 3 jobs" in bytes(terminal.recorded)
