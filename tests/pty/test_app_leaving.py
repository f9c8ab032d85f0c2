"""Every way to leave the app, by key or signal: what happens to the session, and what the shell shows afterwards."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.app import AppHome, at_home, restored
from support.sessions import GPUTUI
from support.terminal import CTRL_C, RecordedTerminal
from support.waiting import PATIENCE, until


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


def test_q_q_detaches_and_says_so_on_the_shells_screen(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        waiter = home.waiter()
        terminal.press("q")
        terminal.shows("2 running, 1 waiting")
        terminal.press("q")
        assert terminal.status() == 0
        assert f"Detached. 2 running, 1 waiting; daemon {waiter} keeps scheduling. Reattach: gputui" in terminal.text
        restored(terminal)
        assert home.owner() == waiter
        daemon_finishes(home)


def test_ctrl_c_asks_and_the_second_one_detaches(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.press(CTRL_C)
        terminal.shows("drain: let running jobs finish, start no new ones")
        terminal.press("\x1b")
        until(lambda: "drain: let running jobs finish, start no new ones" not in terminal.text, "the dialog is gone")
        terminal.press(CTRL_C)
        terminal.shows("drain: let running jobs finish, start no new ones")
        terminal.press(CTRL_C)
        assert terminal.status() == 0
        assert "Detached. 2 running" in terminal.text
        restored(terminal)
        daemon_finishes(home)


def test_sigint_asks_as_ctrl_c_does(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.send_signal(signal.SIGINT)
        terminal.shows("drain: let running jobs finish, start no new ones")
        assert home.app() == terminal.process.pid
        terminal.press("d")
        assert terminal.status() == 0
        daemon_finishes(home)


@pytest.mark.parametrize(
    ("number", "status", "message", "ends"),
    [
        (signal.SIGTERM, 128 + signal.SIGTERM, "Detached. 2 running", "succeeded"),
        (signal.SIGUSR1, 0, "Draining. 2 running jobs will finish, no new jobs start.", "queued"),
    ],
)
def test_sigterm_detaches_and_sigusr1_drains(tmp_path: Path, number: int, status: int, message: str, ends: str) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.send_signal(number)
        assert terminal.status() == status
        assert message in terminal.text
        restored(terminal)
        (tmp_path / "go").touch()
        home.gone("the running jobs have ended and the daemon has exited")
        assert home.states() == ["succeeded", "succeeded", ends]


def test_stop_ends_running_jobs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.press("q")
        terminal.shows("stop: end 2 running jobs")
        terminal.press("s")
        assert terminal.status() == 0
        assert "Stopped: nothing left running. 3 waiting." in terminal.text
        restored(terminal)
        assert not home.members()
        assert not home.processes()
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


def test_gputui_stop_ends_the_app_its_jobs_and_its_daemon(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        home.waiter()
        line = [*GPUTUI, "stop", "--session", str(home.root)]
        done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
        assert done.returncode == 0, done
        assert "stopped, nothing left running; 3 jobs wait" in done.stdout
        assert home.members() == []
        assert terminal.status() == 0
        restored(terminal)
        assert "Stopped: nothing left running. 3 waiting." in terminal.text
