"""Only changed cells are sent, and the screen looks as if it had been drawn whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.terminal import CTRL_L, Hosted, hosted


def same_as_drawn_whole(host: Hosted) -> None:
    terminal = host.terminal
    terminal.settles()
    picture = terminal.picture
    terminal.press(CTRL_L)
    terminal.settles()
    assert terminal.picture == picture


def test_redrawing_the_same_sends_nothing(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        before = host.ready().terminal.settles()
        host.terminal.press("bbx")
        host.tells("same", 2)
        host.tells("nothing")
        assert host.terminal.settles() == before


def test_a_changed_word_costs_little_more_than_the_word(tmp_path: Path) -> None:
    with hosted(tmp_path, size=(120, 40)) as host:
        before = host.ready().terminal.settles()
        host.terminal.press("a")
        host.terminal.shows("again 1")
        assert host.terminal.settles() - before < 30


def test_mouse_moves_are_not_requested_and_send_nothing(tmp_path: Path) -> None:
    with hosted(tmp_path, size=(80, 50)) as host:
        before = host.ready().terminal.settles()
        assert b"\x1b[?1003h" not in host.terminal.since(0)
        for row in range(1, 50):
            host.terminal.press(f"\x1b[<35;10;{row}M")
        host.terminal.press("x")
        host.tells("nothing")
        assert host.terminal.settles() == before


def test_ctrl_l_redraws_everything(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        before = host.ready().terminal.settles()
        host.terminal.press(CTRL_L)
        host.terminal.shows("hello there")
        assert host.terminal.settles() - before > 80 * 24


@pytest.mark.parametrize("parts", [(), ("stock",)])
def test_after_any_changes_the_screen_is_as_if_drawn_whole(tmp_path: Path, parts: tuple[str, ...]) -> None:
    chance = random.Random(8)
    with hosted(tmp_path, *parts) as host:
        host.ready()
        for _ in range(3):
            host.terminal.press("".join(chance.choices("awwwnmy", k=12)))
            same_as_drawn_whole(host)


def test_a_dialog_over_wide_characters_leaves_no_trace(tmp_path: Path) -> None:
    with hosted(tmp_path, size=(34, 8)) as host:
        host.ready().terminal.settles()
        before = host.terminal.picture
        for _ in range(2):
            host.terminal.press("m")
            host.terminal.shows("shall we")
            same_as_drawn_whole(host)
            host.terminal.press("y")
            host.terminal.settles()
            assert host.terminal.picture == before


def test_resizing_there_and_back_leaves_no_trace(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.press("n")
        host.terminal.settles()
        before = host.terminal.picture
        host.terminal.resize(60, 12)
        host.terminal.resize(80, 24)
        host.terminal.settles()
        assert host.terminal.picture == before


def test_frames_skipped_on_a_stalled_terminal_are_made_up_for(tmp_path: Path) -> None:
    frames = 150
    with hosted(tmp_path, size=(120, 40)) as host:
        terminal = host.ready().terminal
        before = terminal.settles()
        terminal.stall()
        for frame in range(1, frames + 1):
            terminal.press("n")
            host.tells(f"frame {frame}")
        terminal.go_on()
        terminal.shows(f"frame {frames}")
        assert terminal.settles() - before < frames * 120 * 40 / 4, "frames were skipped"
        same_as_drawn_whole(host)
