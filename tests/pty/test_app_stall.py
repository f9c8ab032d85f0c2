"""While a terminal stalls, jobs start and end; afterwards the screen is right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.app import AppHome, at_home, repainted_alike
from support.terminal import RecordedTerminal
from support.waiting import until

STEP = 0.1
"""Seconds that each job takes."""
CHATTER = "while :; do echo line after line after line, and more of it; sleep 0.01; done"


def times(home: AppHome) -> list[float]:
    """When each job so far has started."""
    return [float(word) for word in home.lines.read_text().split()] if home.lines.exists() else []


def fills_up(terminal: RecordedTerminal) -> None:
    """Resize until the buffer of the terminal is full."""
    for number in range(20):
        terminal.resize(120 - number % 2, 40)
        time.sleep(0.02)
    terminal.resize(120, 40)


def stalled(directory: Path, jobs: int) -> None:
    with at_home(directory) as home:
        go = directory / "go"
        says = f"date +%s.%N >>{home.lines}; exec sleep {STEP}"
        later = [f"until [ -e {go} ]; do sleep 0.02; done; {says}"] * jobs
        with home.opened(home.write(CHATTER, *[says] * 4, *later)) as terminal:
            until(lambda: len(times(home)) == 4, "jobs come and go")
            terminal.shows("line after line")
            terminal.stall()
            fills_up(terminal)
            go.touch()
            until(lambda: len(times(home)) == jobs + 4, "jobs start and end on a stalled terminal")
            terminal.go_on()
            terminal.shows("1 run")
            terminal.shows(f"{jobs + 4}/{jobs + 5}")
            terminal.press("K")
            terminal.shows("kill now")
            terminal.press("K")
            terminal.shows("■ killed")
            repainted_alike(terminal)


def test_a_stalled_terminal_delays_no_job(tmp_path: Path) -> None:
    stalled(tmp_path, jobs=20)


@pytest.mark.long
def test_half_a_minute_of_stall_delays_no_job(tmp_path: Path) -> None:
    stalled(tmp_path, jobs=round(30 / STEP))
