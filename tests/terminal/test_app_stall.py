"""Nobody reads the terminal for a while: jobs start and end, and what is shown afterwards is right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.apps import AppHome, at_home, repainted_alike
from support.terminal import RecordedTerminal
from support.waiting import until

STEP = 0.1
"""Seconds that each job takes."""
CHATTER = "while :; do echo line after line after line, and more of it; sleep 0.01; done"


def times(home: AppHome) -> list[float]:
    """When each job that has run by now said so."""
    return [float(word) for word in home.lines.read_text().split()] if home.lines.exists() else []


def fills_up(terminal: RecordedTerminal) -> None:
    """The size changes until the terminal has been sent more than it takes."""
    for number in range(20):
        terminal.resize(120 - number % 2, 40)
        time.sleep(0.02)
    terminal.resize(120, 40)


def stalled(folder: Path, jobs: int) -> None:
    with at_home(folder) as home:
        go = folder / "go"
        says = f"date +%s.%N >>{home.lines}; exec sleep {STEP}"
        later = [f"until [ -e {go} ]; do sleep 0.02; done; {says}"] * jobs
        with home.opened(home.write(CHATTER, *[says] * 4, *later)) as terminal:
            until(lambda: len(times(home)) == 4, "jobs come and go")
            terminal.shows("line after line")
            terminal.stall()
            fills_up(terminal)
            go.touch()
            until(lambda: len(times(home)) == jobs + 4, "jobs start and end though nobody reads")
            terminal.go_on()
            terminal.shows("1 run")
            terminal.shows(f"{jobs + 4}/{jobs + 5}")
            terminal.press("K")
            terminal.shows("kill now")
            terminal.press("K")
            terminal.shows("■ killed")
            repainted_alike(terminal)


def test_jobs_start_and_end_while_the_terminal_takes_nothing(tmp_path: Path) -> None:
    stalled(tmp_path, jobs=20)


@pytest.mark.long
def test_half_a_minute_without_a_reader_holds_up_no_job(tmp_path: Path) -> None:
    stalled(tmp_path, jobs=round(30 / STEP))
