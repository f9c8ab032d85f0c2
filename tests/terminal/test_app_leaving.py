"""The ways out of the app, by key and by signal: what becomes of the session, and what the shell's screen shows."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.apps import AppHome, at_home, restored
from support.sessions import GPUTUI
from support.terminal import CTRL_C, RecordedTerminal
from support.waiting import until


@contextmanager
def at_work(folder: Path) -> Iterator[tuple[AppHome, RecordedTerminal]]:
    """Two jobs run until they are let go, one waits."""
    with at_home(folder) as home:
        waits = f"until [ -e {folder / 'go'} ]; do sleep 0.05; done"
        with home.opened(home.write(waits, waits, "true")) as terminal:
            terminal.shows("2 run")
            terminal.shows("0/3")
            yield home, terminal


def keeper_goes_on(home: AppHome) -> None:
    home.owner()
    assert home.counts() == {"running": 2, "queued": 1}
    (home.folder / "go").touch()
    home.gone("the queue is done and the keeper has left")
    assert home.states() == ["succeeded"] * 3


def test_q_q_detaches_and_the_farewell_stands_on_the_shells_screen(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        waiter = home.waiter()
        terminal.press("q")
        terminal.shows("2 running, 1 waiting")
        terminal.press("q")
        assert terminal.status() == 0
        assert f"Detached. 2 running, 1 waiting; keeper {waiter} schedules on. Back: gputui" in terminal.text
        restored(terminal)
        assert home.owner() == waiter
        keeper_goes_on(home)


def test_ctrl_c_asks_and_the_second_one_detaches(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.press(CTRL_C)
        terminal.shows("drain: running jobs end by themselves")
        terminal.press("\x1b")
        until(lambda: "drain: running" not in terminal.text, "the dialog is gone")
        terminal.press(CTRL_C)
        terminal.shows("drain: running jobs end by themselves")
        terminal.press(CTRL_C)
        assert terminal.status() == 0
        assert "Detached. 2 running" in terminal.text
        restored(terminal)
        keeper_goes_on(home)


def test_sigterm_is_a_detach(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.send_signal(signal.SIGTERM)
        assert terminal.status() == 128 + signal.SIGTERM
        assert "Detached. 2 running" in terminal.text
        restored(terminal)
        keeper_goes_on(home)


def test_sigint_from_outside_asks_as_ctrl_c_does(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.send_signal(signal.SIGINT)
        terminal.shows("drain: running jobs end by themselves")
        assert home.app() == terminal.process.pid
        terminal.press("d")
        assert terminal.status() == 0
        keeper_goes_on(home)


def test_sigusr1_drains_and_no_keeper_undoes_it(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.send_signal(signal.SIGUSR1)
        assert terminal.status() == 0
        assert "Draining. 2 running jobs go on to their end, nothing new starts." in terminal.text
        restored(terminal)
        (tmp_path / "go").touch()
        home.gone("what ran has ended and the keeper has left")
        assert home.states() == ["succeeded", "succeeded", "queued"]


def test_stop_ends_what_runs_and_says_that_nothing_is_left(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.press("q")
        terminal.shows("stop: end 2 running jobs")
        terminal.press("s")
        assert terminal.status() == 0
        assert "Stopped: nothing of gputui runs here any more. 3 waiting." in terminal.text
        restored(terminal)
        assert not home.members()
        assert not home.processes()
        assert home.states() == ["queued"] * 3


def test_a_stalled_terminal_does_not_keep_the_app_from_leaving(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        terminal.stall()
        for number in range(40):  # until nothing fits any more
            terminal.resize(120 - number % 2, 40)
            terminal.press("?\x1b")
        terminal.send_signal(signal.SIGTERM)
        assert terminal.process.wait(30) == 128 + signal.SIGTERM
        terminal.go_on()
        terminal.settles()
        restored(terminal)
        keeper_goes_on(home)


def test_a_stop_from_another_shell_ends_the_app_its_jobs_and_its_keeper(tmp_path: Path) -> None:
    with at_work(tmp_path) as (home, terminal):
        home.waiter()
        line = [*GPUTUI, "stop", "--session", str(home.root)]
        told = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
        assert told.returncode == 0, told
        assert "nothing of gputui runs here any more; 3 jobs wait" in told.stdout
        assert home.members() == []
        assert terminal.status() == 0
        restored(terminal)
        assert "Stopped: nothing of gputui runs here any more. 3 waiting." in terminal.text
