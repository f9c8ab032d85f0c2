"""A terminal that takes nothing for a while: the loop goes on, frames are left out, and the picture comes right."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hosting import hosted
from support.terminal import CTRL_L


@pytest.mark.parametrize("parts", [("busy", "beats"), ("busy", "beats", "stock")])
def test_the_loop_goes_on_while_nobody_reads(tmp_path: Path, parts: tuple[str, ...]) -> None:
    with hosted(tmp_path, *parts) as host:
        host.ready().terminal.stall()
        host.tells("frame", host.times("frame") + 100)  # far more than a terminal buffers
        host.tells("beat", host.times("beat") + 20)
        host.terminal.go_on()
        host.terminal.press("q")
        assert host.terminal.status() == 7


@pytest.mark.parametrize("parts", [(), ("stock",)])
def test_frames_left_out_are_made_up_for_when_the_terminal_takes_something_again(
    tmp_path: Path, parts: tuple[str, ...]
) -> None:
    frames = 150
    with hosted(tmp_path, *parts, size=(120, 40)) as host:
        terminal = host.ready().terminal
        before = terminal.settles()
        terminal.stall()
        for frame in range(1, frames + 1):
            terminal.press("n")
            host.tells(f"frame {frame}")
        terminal.go_on()
        terminal.shows(f"frame {frames}")
        terminal.settles()
        assert terminal.count - before < frames * 120 * 40 / 4, "frames were left out"
        picture = terminal.picture
        terminal.press(CTRL_L)
        terminal.settles()
        assert terminal.picture == picture
