"""A session that is open in another terminal: the question says where, one key takes it over, another one looks on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.app import AppHome, at_home, gone, restored
from support.terminal import CTRL_C, RecordedTerminal
from support.waiting import until

from gputui.session.lock import OwnerKind

QUESTION = "[Enter] take over  [l] read-only  [q] quit"
NO_SCHEDULER = "no scheduler is running"
HELP = "Lowercase keys never touch running jobs"


def waits_for(file: str) -> str:
    """A job that prints a result and ends when the file exists."""
    return f"echo started {file}; echo val_loss=0.25; until [ -e {file} ]; do sleep 0.05; done; echo ended {file}"


@contextmanager
def two_terminals(directory: Path, *words: str) -> Iterator[tuple[AppHome, RecordedTerminal, RecordedTerminal]]:
    """The first runs two jobs that wait for files, and has a third; the second is opened on the same session."""
    with at_home(directory) as home:
        jobs = home.write(waits_for("first"), waits_for("second"), "exec sleep 600")
        with home.opened(jobs) as first:
            shows_progress(first, 0)
            home.waiter()
            with home.opened(*words, gpus=None) as second:
                if words:
                    shows_progress(second, 0)
                    second.shows("read-only")
                else:
                    second.shows(QUESTION)
                yield home, first, second


def shows_progress(terminal: RecordedTerminal, ended: int) -> None:
    terminal.shows("2 run")
    terminal.shows(f"{ended}/3")


def test_the_question_names_the_terminal_and_enter_takes_over(tmp_path: Path) -> None:
    with two_terminals(tmp_path) as (home, first, second):
        question = "".join(second.text.split())  # wherever the length of the path breaks it
        assert f"isopeningputuiapp(pid{first.process.pid})" in question
        assert f"on{os.ttyname(first.slave).removeprefix('/dev/')}since" in question
        pids = [home.claim_pid(job) for job in (0, 1)]
        second.press("\r")
        shows_progress(second, 0)
        assert home.app() == second.process.pid
        assert first.status() == 1
        assert "another gputui took over the session and continues it" in first.text
        restored(first)
        assert [home.claim_pid(job) for job in (0, 1)] == pids
        home.waiter()


@pytest.mark.parametrize("key", ["q", CTRL_C])
def test_quitting_at_the_question_changes_nothing(tmp_path: Path, key: str) -> None:
    with two_terminals(tmp_path) as (home, first, second):
        waiter = home.waiter()
        second.press(key)
        gone(second.process.pid)
        second.settles()
        assert second.modes == second.modes_before
        assert home.app() == first.process.pid
        assert home.waiter() == waiter
        assert home.counts() == {"running": 2, "queued": 1}
        first.press("?")
        first.shows(HELP)


def test_a_session_on_a_stalled_terminal_can_be_taken_over(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, home.opened(home.write("exec sleep 600")) as first:
        first.shows("1 run")
        first.stall()
        first.press("?\x1b" * 200)
        home.waiter()
        for width in range(60):
            first.resize(100 + width % 20, 40)
        with home.opened(gpus=None) as second:
            second.shows(QUESTION)
            second.press("\r")
            second.shows("1 run")
            gone(first.process.pid)
            assert home.app() == second.process.pid


# Looking on


@pytest.mark.parametrize("words", [(), ("--read-only",)])
def test_a_read_only_view_follows_and_changes_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    with two_terminals(tmp_path, *words) as (home, first, second):
        if not words:
            second.press("l")
            shows_progress(second, 0)
            second.shows("read-only")
        assert home.app() == first.process.pid
        second.shows("started first")  # the log of the job under the cursor
        (tmp_path / "first").touch()
        first.shows("1/3")
        second.shows("1/3")
        second.press("K")
        second.shows("this view is read-only")
        assert home.counts() == {"running": 2, "succeeded": 1}
        second.press("q")
        assert second.status() == 0
        assert home.app() == first.process.pid
        first.press("?")
        first.shows(HELP)


def test_a_read_only_view_follows_every_owner_and_says_when_there_is_none(tmp_path: Path) -> None:
    with two_terminals(tmp_path, "--read-only") as (home, first, second):
        os.kill(first.process.pid, signal.SIGKILL)
        daemon = home.owner(OwnerKind.DAEMON, but=first.process.pid)
        (tmp_path / "first").touch()
        second.shows("1/3")
        second.press("jj")
        assert home.owner() == daemon
        with home.opened(gpus=None) as third:
            shows_progress(third, 1)
            assert home.app() == third.process.pid
            (tmp_path / "second").touch()
            second.shows("2/3")
            third.press("q")
            third.shows("detach: jobs keep running in the background")
            third.press("s")
            assert third.status() == 0
        second.shows(NO_SCHEDULER)
        second.shows("2/3")
        with home.opened(gpus=None) as fourth:
            fourth.shows("2/3")
            fourth.press("p")
            second.shows("1 run")
            until(lambda: NO_SCHEDULER not in second.text, "a scheduler runs again")
            second.press("q")
            gone(second.process.pid)
            assert home.app() == fourth.process.pid


def test_the_views_of_a_read_only_view_get_their_data_over_the_socket(tmp_path: Path) -> None:
    with two_terminals(tmp_path, "--read-only") as (_, _, second):
        for keys, wanted in (("\r", "attempt 1 started"), ("t", "Timeline"), ("=", "Summary")):
            second.shows("3 Log")  # which only the main screen has
            second.press(keys)
            second.shows(wanted)
            until(lambda: "3 Log" not in second.text, "the view fills the screen")
            second.press("\x1b")
        second.shows("3 Log")
        second.shows("★ 0.2500")  # before the first result there is no metric to choose
        second.press("m")
        second.shows("Used to compare and sort jobs.")
        second.press("m")
        second.shows("of 2 jobs")


def test_a_read_only_view_shows_a_gputui_run_and_its_cpu_slots(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        run = home.start(home.write(waits_for("first")), gpus="cpu:2")
        home.owner(OwnerKind.RUN)
        with home.opened("--read-only", gpus=None) as second:
            second.shows("1 run")
            second.shows("CPU")
            (tmp_path / "first").touch()
            run.communicate(timeout=60)
            assert run.returncode == 0
            second.shows("1/1")
            second.shows(NO_SCHEDULER)


def test_jobs_given_to_a_read_only_view_are_not_added(tmp_path: Path) -> None:
    with two_terminals(tmp_path) as (home, _, second):
        with home.opened("--read-only", home.write("true", name="more.txt"), gpus=None) as third:
            assert third.status() == 2
            assert "omit the jobs or --read-only" in " ".join(third.text.split())
        second.press("q")
        assert second.status() == 0
        with home.opened(home.write("true", name="more.txt"), gpus=None) as third:
            third.shows(QUESTION)
            third.press("l")
            third.shows("read-only: the jobs and options you gave were not applied")
        assert home.counts() == {"running": 2, "queued": 1}
