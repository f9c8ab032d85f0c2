"""Every way to leave the app, by key or signal: what happens to the session, and what the shell shows afterwards."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.app import AppHome, at_home, restored
from support.terminal import CTRL_C, RecordedTerminal
from support.waiting import PATIENCE, until

QUESTION = "drain: let running jobs finish, start no new ones"


@contextmanager
def at_work(directory: Path) -> Iterator[tuple[AppHome, RecordedTerminal]]:
    """Two jobs run until the file `go` exists, one waits."""
    with at_home(directory) as home:
        waits = f"until [ -e {directory / 'go'} ]; do sleep 0.05; done"
        with home.opened(home.write(waits, waits, "true")) as terminal:
            terminal.shows("2 run")
            terminal.shows("0/3")
            yield home, terminal


def daemon_finishes(home: AppHome) -> None:
    home.owner()
    assert home.counts() == {"running": 2, "queued": 1}
    (home.directory / "go").touch()
    home.gone("the queue is done and the daemon has exited")
    assert home.states() == ["succeeded"] * 3


@pytest.mark.parametrize(("ask", "leave"), [("q", "q"), (CTRL_C, CTRL_C), (signal.SIGINT, "d")])
def test_a_key_or_sigint_asks_and_the_second_one_detaches(tmp_path: Path, ask: str | int, leave: str) -> None:
    with at_work(tmp_path) as (home, terminal):
        waiter = home.waiter()
        for answer in ("\x1b", leave):
            if isinstance(ask, str):
                terminal.press(ask)
            else:
                terminal.send_signal(ask)
            terminal.shows(QUESTION)
            terminal.shows("2 running, 1 waiting")
            assert home.app() == terminal.process.pid
            terminal.press(answer)
            until(lambda: QUESTION not in terminal.text, "the dialog is gone")
        assert terminal.status() == 0
        assert f"Detached. 2 running, 1 waiting; daemon {waiter} keeps scheduling. Reattach: gputui" in terminal.text
        restored(terminal)
        assert home.owner() == waiter
        daemon_finishes(home)


@pytest.mark.parametrize(
    ("number", "status", "message", "ends"),
    [
        (signal.SIGHUP, 128 + signal.SIGHUP, "Detached. 2 running", "succeeded"),
        (signal.SIGTERM, 128 + signal.SIGTERM, "Detached. 2 running", "succeeded"),
        (signal.SIGUSR1, 0, "Draining. 2 running jobs will finish, no new jobs start.", "queued"),
    ],
)
def test_a_signal_detaches_or_drains(tmp_path: Path, number: int, status: int, message: str, ends: str) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.send_signal(number)
        assert terminal.status() == status
        assert message in terminal.text
        restored(terminal)
        (tmp_path / "go").touch()
        home.gone("the running jobs have ended and the daemon has exited")
        assert home.states() == ["succeeded", "succeeded", ends]


@pytest.mark.parametrize("command", [False, True])
def test_stop_ends_running_jobs_and_leaves_nothing_behind(tmp_path: Path, command: bool) -> None:
    with at_work(tmp_path) as (home, terminal):
        home.waiter()
        if command:
            done = home.call("stop")
            assert done.returncode == 0, done
            assert "stopped, nothing left running; 3 jobs wait" in done.stdout
        else:
            terminal.press("q")
            terminal.shows("stop: end 2 running jobs")
            terminal.press("s")
        assert terminal.status() == 0
        assert "Stopped: nothing left running. 3 waiting." in terminal.text
        restored(terminal)
        assert home.members() == home.processes() == []
        assert home.states() == ["queued"] * 3


def test_sigterm_ends_an_app_whose_terminal_has_stalled(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.stall()
        for number in range(40):  # until the buffer of the terminal is full
            terminal.resize(120 - number % 2, 40)
            terminal.press("?\x1b")
        terminal.send_signal(signal.SIGTERM)
        assert terminal.process.wait(PATIENCE) == 128 + signal.SIGTERM
        terminal.go_on()
        terminal.settles()
        restored(terminal)
        daemon_finishes(home)
