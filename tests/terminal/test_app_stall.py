"""Nobody reads the terminal for a while: jobs start and end on time, and what is shown afterwards is right."""

from __future__ import annotations

import time
from itertools import pairwise
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


def stalled(folder: Path, seconds: float) -> None:
    with at_home(folder) as home:
        count = int(seconds / STEP) + 10
        says = f"date +%s.%N >>{home.lines}; exec sleep {STEP}"
        with home.opened(home.write(CHATTER, *[says] * count)) as terminal:
            until(lambda: len(times(home)) > 3, "jobs come and go")
            terminal.shows("line after line")
            terminal.stall()
            fills_up(terminal)
            began, before = time.time(), len(times(home))
            until(lambda: time.time() - began > seconds, "the stall is over", seconds * 2)
            ran = [at for at in times(home) if at > began]
            terminal.go_on()
            until(lambda: len(times(home)) == count, "all have run")
            terminal.shows(f"1 run · {count} ok")
            terminal.press("K")
            terminal.shows("kill now")
            terminal.press("K")
            terminal.shows("■ killed")
            repainted_alike(terminal)
        # Half of what an idle machine does is far from the nothing that a blocked scheduler does.
        assert len(ran) > seconds / STEP / 4, f"{len(ran)} jobs began in {seconds:g} s, {before} before"
        gaps = [after - at for at, after in pairwise(ran)]
        assert max(gaps) < seconds / 2, f"nothing began for {max(gaps):.1f} s"


def test_jobs_start_and_end_on_time_while_the_terminal_takes_nothing(tmp_path: Path) -> None:
    stalled(tmp_path, seconds=3.0)


@pytest.mark.long
def test_half_a_minute_without_a_reader_holds_up_no_job(tmp_path: Path) -> None:
    stalled(tmp_path, seconds=30.0)
