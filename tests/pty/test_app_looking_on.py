"""A read-only view of a session that another process runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.app import AppHome, at_home, gone
from support.terminal import RecordedTerminal
from support.waiting import until

from gputui.session.lock import OwnerKind

QUESTION = "[Enter] take over  [l] read-only  [q] quit"


def waits_for(file: str) -> str:
    """A job that prints a result and ends when the file exists."""
    return f"echo started {file}; echo val_loss=0.25; until [ -e {file} ]; do sleep 0.05; done; echo ended {file}"


@contextmanager
def looked_on(home: AppHome, *, by_key: bool) -> Iterator[tuple[RecordedTerminal, RecordedTerminal]]:
    """The first terminal runs two jobs that wait for files, and has a third; the second is read-only."""
    jobs = home.write(waits_for("first"), waits_for("second"), "exec sleep 600")
    with home.opened(jobs) as first:
        first.shows("2 run")
        first.shows("0/3")
        home.waiter()
        with home.opened(*([] if by_key else ["--read-only"]), gpus=None) as second:
            if by_key:
                second.shows(QUESTION)
                second.press("l")
            second.shows("read-only")
            second.shows("2 run")
            second.shows("0/3")
            yield first, second


@pytest.mark.parametrize("by_key", [True, False])
def test_a_read_only_view_follows_and_changes_nothing(tmp_path: Path, by_key: bool) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=by_key) as (first, second):
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
        first.shows("Lowercase keys never touch running jobs")


def test_it_follows_the_daemon_after_the_app_was_killed(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=False) as (first, second):
        os.kill(first.process.pid, signal.SIGKILL)
        daemon = home.owner(OwnerKind.DAEMON, but=first.process.pid)
        (tmp_path / "second").touch()
        second.shows("1/3")
        second.press("jj")
        assert home.owner() == daemon
        second.press("q")
        gone(second.process.pid)
        assert home.owner() == daemon


def test_it_follows_the_next_app_after_a_takeover(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=False) as (first, second), home.opened(gpus=None) as third:
        third.shows(QUESTION)
        third.press("\r")
        third.shows("0/3")
        assert first.status() == 1
        (tmp_path / "first").touch()
        third.shows("1/3")
        second.shows("1/3")


def test_without_a_scheduler_it_shows_the_last_state_and_says_so(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=False) as (first, second):
        first.press("q")
        first.shows("detach: jobs keep running in the background")
        first.press("s")
        assert first.status() == 0
        second.shows("no scheduler is running")
        second.shows("0/3")
        with home.opened(gpus=None) as third:
            third.shows("0/3")
            third.press("p")
            second.shows("2 run")
            until(lambda: "no scheduler is running" not in second.text, "a scheduler runs again")


def test_its_views_get_their_data_over_the_socket(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=False) as (_, second):
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


def test_it_shows_a_gputui_run_and_its_cpu_slots(tmp_path: Path) -> None:
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
            second.shows("no scheduler is running")


def test_jobs_given_to_a_read_only_view_are_not_added(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, home.opened(home.write("exec sleep 600")) as first:
        first.shows("1 run")
        with home.opened("--read-only", home.write("true", name="more.txt"), gpus=None) as second:
            assert second.status() == 2
            assert "omit the jobs or --read-only" in " ".join(second.text.split())
        with home.opened(home.write("true", name="more.txt"), gpus=None) as third:
            third.shows(QUESTION)
            third.press("l")
            third.shows("read-only: the jobs and options you gave were not applied")
        assert home.counts() == {"running": 1}
