"""Ctrl-Z and kill -9 in a real shell: the daemon takes over, and the shell works."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.app import AppHome, at_home, gone, repainted_alike
from support.terminal import CTRL_Z, RecordedTerminal, recorded
from support.waiting import until

SHELL = ("bash", "--norc", "--noprofile", "-i")


@contextmanager
def in_a_shell(directory: Path, line: str = "{app} jobs.txt") -> Iterator[tuple[AppHome, RecordedTerminal]]:
    with at_home(directory) as home, recorded(SHELL, size=(120, 40), cwd=directory) as terminal:
        home.write("exec sleep 600", f"until [ -e {directory / 'go'} ]; do sleep 0.05; done", "exec sleep 600")
        terminal.shows("$")
        terminal.press(line.format(app=shlex.join(map(str, home.words()))) + "\r")
        terminal.shows("2 run")
        terminal.shows("0/3")
        yield home, terminal


def is_stopped(home: AppHome, terminal: RecordedTerminal, app: int) -> None:
    """The shell has the screen, the daemon the session."""
    state = Path(f"/proc/{app}/stat")
    until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "the app is stopped")
    terminal.shows("Stopped")
    assert not terminal.emulator.alternate
    home.owner()


def is_usable(terminal: RecordedTerminal) -> None:
    """There is a prompt, and commands work."""
    until(lambda: terminal.text.rstrip().endswith("\n$"), "the shell shows its prompt")
    terminal.press("echo the sum is $((40 + 2))\r")
    terminal.shows("the sum is 42")


@pytest.mark.parametrize("line", ["{app} jobs.txt", "(cat jobs.txt; exec sleep 600 >/dev/null) | {app} -"])
def test_ctrl_z_hands_the_session_to_the_daemon_and_fg_takes_it_back(tmp_path: Path, line: str) -> None:
    with in_a_shell(tmp_path, line) as (home, terminal):
        app = home.app()
        terminal.press(CTRL_Z)
        is_stopped(home, terminal, app)
        is_usable(terminal)
        (tmp_path / "go").touch()
        home.becomes(2, "running")  # the queue continued
        terminal.press("fg\r")
        assert home.app() == app
        terminal.shows("2 run")
        terminal.shows("1/3")
        repainted_alike(terminal)
        home.waiter()
        terminal.press(CTRL_Z)
        is_stopped(home, terminal, app)
        terminal.press("fg\r")
        terminal.shows("2 run")
        terminal.shows("1/3")
        assert home.app() == app


def test_a_stopped_app_leaves_if_its_session_was_taken_over(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as (home, terminal):
        app = home.app()
        terminal.press(CTRL_Z)
        is_stopped(home, terminal, app)
        with home.opened(gpus=None) as other:
            other.shows("2 run")
            other.shows("0/3")
            terminal.press("clear; fg\r")
            terminal.shows(f"the session is now open in gputui app (pid {other.process.pid})")
            gone(app)
            is_usable(terminal)
            assert home.app() == other.process.pid


def test_a_stopped_app_exits_when_its_terminal_hangs_up(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as (home, terminal):
        app = home.app()
        terminal.press(CTRL_Z)
        is_stopped(home, terminal, app)
        daemon = home.owner()
        terminal.hang_up()
        gone(app)
        assert home.owner() == daemon
        assert home.counts() == {"running": 2, "queued": 1}


def test_kill_9_loses_nothing_but_the_screen(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as (home, terminal):
        app, waiter = home.app(), home.waiter()
        os.kill(app, signal.SIGKILL)
        until(lambda: b"Killed" in terminal.since(0), "the shell says so")
        assert home.owner() == waiter
        assert home.counts() == {"running": 2, "queued": 1}
        terminal.press("\rstty sane; printf '\\033[?1049l'\r")
        until(lambda: not terminal.emulator.alternate, "the shell has its screen")
        is_usable(terminal)
