"""Hang-ups and exceptions, seen by a small app; `test_app_hang_up.py` and `test_app_leaving.py` have the whole app."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support.app import restored
from support.terminal import Hosted, hosted

GOODBYE = 128 + signal.SIGHUP


def left_in_order(host: Hosted, status: int) -> None:
    assert host.terminal.status() == status
    assert host.times("unmounted") == 1


@pytest.mark.parametrize("ignoring", ["", "HUP"])
def test_the_app_leaves_when_the_terminal_hangs_up(tmp_path: Path, ignoring: str) -> None:
    with hosted(tmp_path, "ticks", ignoring=ignoring) as host:
        host.ready().terminal.hang_up()
        left_in_order(host, GOODBYE)
        assert host.times("lost") == 1


def test_sighup_restores_a_terminal_that_is_still_there(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.send_signal(signal.SIGHUP)
        left_in_order(host, GOODBYE)
        restored(host.terminal)


def test_an_exception_restores_the_terminal_and_is_shown(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.press("e")
        assert host.terminal.status() == 1
        assert "ZeroDivisionError" in host.terminal.text
        restored(host.terminal)
