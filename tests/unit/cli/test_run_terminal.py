"""`gputui run` at a terminal: the progress line and the Ctrl-C menu."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.sessions import ALONE, GPUTUI, Home, Session
from support.terminal import CTRL_C, RecordedTerminal, recorded
from support.waiting import until

from gputui.core.events import Mode

SIZE = (160, 40)


def redirected(session: Session, *words: str) -> list[str]:
    """The same run with its jobs on standard input."""
    line = [*GPUTUI, "run", *words, "--gpus", "0", "--output-dir", str(session.root)]
    return ["sh", "-c", f"exec {shlex.join(line)} <jobs.txt"]


@contextmanager
def running(session: Session, *words: str) -> Iterator[RecordedTerminal]:
    line = [*GPUTUI, "run", *ALONE, "--gpus", "0", "--output-dir", str(session.root), *words]
    with recorded(line, cwd=session.directory, size=SIZE) as terminal:
        yield terminal


def gated(session: Session, *codes: int) -> None:
    """The first job waits for the gate; the others come after it."""
    session.write(*(session.told(number, f"{session.waits}; exit {code}") for number, code in enumerate(codes)))


def interrupt(terminal: RecordedTerminal, session: Session) -> None:
    """Press Ctrl-C while a job runs, and wait for the menu."""
    until(session.runs, "the job runs")
    terminal.press(CTRL_C)
    terminal.shows("[d]etach  d[r]ain  [k]ill 1 running  [c]ontinue")


def test_progress_is_one_line_with_failures_above_it(session: Session) -> None:
    gated(session, 0, 3, 0)
    with running(session, "jobs.txt") as terminal:
        terminal.shows("0/3 done · 1 running")
        session.gate.touch()
        assert terminal.status() == 1
        assert "gputui: #1 failed after" in terminal.written
        assert "\r\x1b[K" in terminal.written
        assert "Processing" not in terminal.written


def test_ctrl_c_asks_and_c_continues(session: Session) -> None:
    gated(session, 0)
    with running(session, "jobs.txt") as terminal:
        interrupt(terminal, session)
        terminal.press("c")
        session.gate.touch()
        assert terminal.status() == 0
    assert session.states() == ["succeeded"]


def test_ctrl_c_d_detaches_and_the_job_runs_on(session: Session) -> None:
    gated(session, 4, 0)
    with running(session, "jobs.txt") as terminal:
        interrupt(terminal, session)
        terminal.press("d")
        terminal.shows("detached: 1 job still running, 1 waiting")
        assert terminal.status() == 130
        assert session.processes()
    session.gate.touch()
    assert session.run(gpus="0").returncode == 1
    assert session.last(0).exit_code == 4
    assert session.runs() == {"0": 1, "1": 1}


def test_a_signal_that_comes_while_the_menu_waits_for_a_key_is_obeyed(session: Session) -> None:
    gated(session, 0)
    with running(session, "jobs.txt") as terminal:
        interrupt(terminal, session)
        terminal.process.terminate()
        assert terminal.status() == 143
    assert session.states() == ["queued"]


@pytest.mark.parametrize("keys", [CTRL_C, "d"])
def test_ctrl_c_means_the_same_when_the_jobs_come_on_standard_input(session: Session, keys: str) -> None:
    gated(session, 0, 0)
    with recorded(redirected(session, *ALONE), cwd=session.directory, size=SIZE) as terminal:
        interrupt(terminal, session)
        terminal.press(keys)
        terminal.shows("detached: 1 job still running, 1 waiting; no new jobs start (--no-daemon)")
        assert terminal.status() == 130
        assert session.processes()
    assert session.load().mode is Mode.RUNNING


def test_detaching_names_the_daemon_that_keeps_scheduling(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gated(home, 0, 0)
    line = [*GPUTUI, "run", "--gpus", "0", "--output-dir", str(home.root), "jobs.txt"]
    try:
        with recorded(line, cwd=home.directory, size=SIZE) as terminal:
            interrupt(terminal, home)
            waiter = home.waiter()
            terminal.press("d")
            terminal.shows(f"detached: 1 running, 1 waiting; daemon {waiter} keeps scheduling. Reattach: gputui")
            assert terminal.status() == 130
            assert home.owner() == waiter
        home.gate.touch()
        home.gone("the daemon has done the rest and left")
        assert home.states() == ["succeeded", "succeeded"]
    finally:
        home.end()


def test_ctrl_c_r_drains(session: Session) -> None:
    gated(session, 0, 0)
    with running(session, "jobs.txt") as terminal:
        interrupt(terminal, session)
        terminal.press("r")
        terminal.shows("draining: 1 job still running")
        session.gate.touch()
        assert terminal.status() == 130
    assert session.states() == ["succeeded", "queued"]
    assert session.runs() == {"0": 1}


def test_ctrl_c_k_kills_and_keeps_the_queue(session: Session) -> None:
    gated(session, 0, 0)
    with running(session, "--grace", "5", "jobs.txt") as terminal:
        interrupt(terminal, session)
        terminal.press("k")
        terminal.shows("killing 1 running job")
        assert terminal.status() == 130
        assert session.processes() == []
    assert session.states() == ["killed", "queued"]


def test_a_terminal_that_is_closed_leaves_the_jobs_running(session: Session) -> None:
    gated(session, 6)
    with running(session, "jobs.txt") as terminal:
        until(lambda: session.runs(), "the job runs")
    until(lambda: terminal.process.poll() is not None, "it has left")
    assert session.processes()
    session.gate.touch()
    assert session.run(gpus="0").returncode == 1
    assert session.last(0).exit_code == 6


def test_lines_for_a_pipe_go_to_it_though_complaints_go_to_a_terminal(session: Session) -> None:
    session.write("true")
    line = shlex.join([*GPUTUI, "run", *ALONE, "--gpus", "0", "--output-dir", str(session.root), "jobs.txt"])
    with recorded(["sh", "-c", f"{line} >printed"], cwd=session.directory, size=SIZE) as terminal:
        assert terminal.status() == 0
    assert "Processing command `true` on gpu 0" in (session.directory / "printed").read_text()


@pytest.mark.parametrize("how", [("env", "TERM=dumb"), ()], ids=["a terminal that cannot rewrite", "streaming"])
def test_where_no_progress_line_is_drawn_each_start_has_a_line(session: Session, how: tuple[str, ...]) -> None:
    session.write("echo out")
    line = [*how, *GPUTUI, "run", *ALONE, "--gpus", "0", "--output-dir", str(session.root), "jobs.txt"]
    with recorded([*line, *(() if how else ("--stream",))], cwd=session.directory, size=SIZE) as terminal:
        assert terminal.status() == 0
    assert "Processing command `echo out` on gpu 0" in terminal.written
    assert "\x1b[K" not in terminal.written
