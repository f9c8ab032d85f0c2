"""The terminal goes away, or somebody asks the app to go: it leaves, once, and what it can restore it restores."""

from __future__ import annotations

import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.hosting import Hosted, hosted
from support.terminal import CTRL_C

GOODBYE = 128 + signal.SIGHUP


def left_in_order(host: Hosted, status: int) -> None:
    assert host.terminal.status() == status
    assert host.times("unmounted") == 1


def restored(host: Hosted) -> None:
    terminal = host.terminal
    assert not terminal.emulator.alternate
    assert not terminal.emulator.cursor_hidden
    assert terminal.modes == terminal.modes_before
    raw = terminal.since(0)
    for mode in (b"1000", b"1002", b"1006", b"2004"):
        assert raw.rfind(b"\x1b[?" + mode + b"l") > raw.rfind(b"\x1b[?" + mode + b"h")
    assert raw.count(b"\x1b[<u") == raw.count(b"\x1b[>25u")


@pytest.mark.parametrize("ignoring", ["", "HUP"])
@pytest.mark.parametrize("parts", [(), ("ticks",)])
def test_a_hang_up_is_told_once_and_the_app_leaves(tmp_path: Path, parts: tuple[str, ...], ignoring: str) -> None:
    with hosted(tmp_path, *parts, ignoring=ignoring) as host:
        host.ready().terminal.hang_up()
        left_in_order(host, GOODBYE)
        assert host.times("lost") == 1


def test_hang_ups_after_random_stalls_never_leave_an_app_behind(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    chance = random.Random(5)
    for _ in range(10 if request.config.getoption("--long") else 1):
        with ExitStack() as stack:
            parts = [(chance.choice(["busy", "ticks"]), chance.choice(["", "HUP"])) for _ in range(4)]
            hosts = [stack.enter_context(hosted(tmp_path, part, ignoring=ignoring)) for part, ignoring in parts]
            for host in hosts:
                host.ready()
                if chance.random() < 0.7:
                    host.terminal.stall()
                    time.sleep(chance.uniform(0.0, 0.5))  # a moment chosen by chance, not a condition
                host.terminal.hang_up()
                left_in_order(host, GOODBYE)
                assert host.times("lost") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_asks_to_leave_and_the_terminal_is_restored(tmp_path: Path, number: signal.Signals) -> None:
    with hosted(tmp_path, "ticks") as host:
        host.ready().terminal.send_signal(number)
        left_in_order(host, 128 + number)
        assert host.times(f"asked {number}") == 1
        restored(host)


def test_a_hang_up_signal_with_the_terminal_still_there_restores_it(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.send_signal(signal.SIGHUP)
        left_in_order(host, GOODBYE)
        restored(host)


def test_ctrl_c_is_a_key_that_asks_and_q_leaves(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.press(CTRL_C)
        left_in_order(host, 128 + signal.SIGINT)
        assert host.times("asked 2") == 1
    with hosted(tmp_path) as host:
        host.ready().terminal.press("q")
        left_in_order(host, 7)
        restored(host)


def test_a_crash_restores_the_terminal_and_says_what_it_was(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.press("e")
        assert host.terminal.status() == 1
        assert "ZeroDivisionError" in host.terminal.text
        restored(host)


def test_a_stalled_app_can_still_leave_and_the_terminal_is_restored_when_it_takes_something_again(
    tmp_path: Path,
) -> None:
    with hosted(tmp_path, "busy") as host:
        host.ready().terminal.stall()
        host.tells("frame", host.times("frame") + 60)
        host.terminal.send_signal(signal.SIGTERM)
        assert host.terminal.process.wait(30) == 128 + signal.SIGTERM
        host.terminal.go_on()
        host.terminal.settles()
        restored(host)
