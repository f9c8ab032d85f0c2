"""What the screen sends: little when little changes, nothing when nothing does. By bytes, never by time."""

from __future__ import annotations

import time
from pathlib import Path

from support.apps import at_home, repainted_alike
from support.terminal import RecordedTerminal
from support.waiting import until

WATCHED = 3.0
"""Seconds; of a screen that is painted once in each."""


def sent(terminal: RecordedTerminal) -> int:
    before = terminal.settles(0.3)
    time.sleep(WATCHED)
    return terminal.count - before


def test_a_queue_at_rest_sends_next_to_nothing(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, home.opened_quietly("echo done", "exit 3") as terminal:
        terminal.shows("2/2")
        terminal.shows("1 ✗")
        terminal.press("z")  # the devices aside, whose figures are never quite at rest
        until(lambda: sent(terminal) < 200, "the screen is at rest")
        repainted_alike(terminal)


def test_eight_devices_at_work_send_a_fraction_of_a_screen(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, home.opened_quietly(*["exec sleep 600"] * 8, gpus="sim:8") as terminal:
        terminal.shows("8 run")
        terminal.shows("7 simulated")
        until(lambda: sent(terminal) < WATCHED * 4000, "little is sent")
        repainted_alike(terminal)
