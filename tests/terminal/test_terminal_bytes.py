"""What reaches the terminal: only what changed, and what is left on the screen is what a whole drawing would show."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.hosting import Hosted, hosted
from support.terminal import CTRL_L


def same_as_drawn_whole(host: Hosted) -> None:
    terminal = host.terminal
    terminal.settles()
    picture = terminal.picture
    terminal.press(CTRL_L)
    terminal.settles()
    assert terminal.picture == picture


def test_what_is_drawn_again_unchanged_costs_no_byte(tmp_path: Path) -> None:
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


def test_mere_moves_of_the_mouse_are_not_asked_for_and_cost_no_byte(tmp_path: Path) -> None:
    with hosted(tmp_path, size=(80, 50)) as host:
        before = host.ready().terminal.settles()
        assert b"\x1b[?1003h" not in host.terminal.since(0)
        for row in range(1, 50):
            host.terminal.press(f"\x1b[<35;10;{row}M")
        host.terminal.press("x")
        host.tells("nothing")
        assert host.terminal.settles() == before


def test_ctrl_l_draws_everything_again(tmp_path: Path) -> None:
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


def test_a_dialog_over_wide_characters_comes_and_goes_without_a_trace(tmp_path: Path) -> None:
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


def test_a_new_size_draws_everything_at_that_size(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.press("n")
        for size in ((100, 30), (60, 12), (80, 24)):
            host.terminal.settles()
            host.terminal.resize(*size)
            host.terminal.settles()
            host.terminal.press("n")
            host.terminal.settles()
            assert len(host.terminal.text.splitlines()[-1]) == size[0]
            same_as_drawn_whole(host)


def test_a_size_that_changes_there_and_back_at_once_leaves_no_trace(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.press("n")
        host.terminal.settles()
        before = host.terminal.picture
        host.terminal.resize(60, 12)
        host.terminal.resize(80, 24)
        host.terminal.settles()
        assert host.terminal.picture == before
