"""A second terminal looks on at a session that another process has: live, without a say, whoever owns it next."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.apps import AppHome, at_home, gone
from support.terminal import RecordedTerminal
from support.waiting import until

from gputui.session.lock import OwnerKind

QUESTION = "[Enter] take over  [l] only look  [q] leave"


def waits_for(file: str) -> str:
    """A job that prints a result and ends when the file is there."""
    return f"echo begun {file}; echo val_loss=0.25; until [ -e {file} ]; do sleep 0.05; done; echo ended {file}"


@contextmanager
def looked_on(home: AppHome, *, by_key: bool) -> Iterator[tuple[RecordedTerminal, RecordedTerminal]]:
    """The first owns two jobs that wait for files, and has a third; the second looks on."""
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
def test_both_show_that_a_job_ends_and_only_the_first_has_a_say(tmp_path: Path, by_key: bool) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=by_key) as (first, second):
        assert home.app() == first.process.pid
        second.shows("begun first")  # the log of the job under the cursor
        (tmp_path / "first").touch()
        first.shows("1/3")
        second.shows("1/3")
        second.press("K")
        second.shows("this screen is read-only")
        assert home.counts() == {"running": 2, "succeeded": 1}
        second.press("q")
        assert second.status() == 0
        assert home.app() == first.process.pid
        first.press("?")
        first.shows("Lower case never touches running work")


def test_after_a_kill_of_the_owner_it_goes_on_under_the_keeper(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=False) as (first, second):
        os.kill(first.process.pid, signal.SIGKILL)
        keeper = home.owner(OwnerKind.KEEPER, but=first.process.pid)
        (tmp_path / "second").touch()
        second.shows("1/3")
        second.press("jj")
        assert home.owner() == keeper
        second.press("q")
        gone(second.process.pid)
        assert home.owner() == keeper


def test_after_a_takeover_it_goes_on_with_the_next_screen(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=False) as (first, second), home.opened(gpus=None) as third:
        third.shows(QUESTION)
        third.press("\r")
        third.shows("0/3")
        assert first.status() == 1
        (tmp_path / "first").touch()
        third.shows("1/3")
        second.shows("1/3")


def test_without_an_owner_it_shows_the_last_state_and_says_so(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=False) as (first, second):
        first.press("q")
        first.shows("detach: everything goes on")
        first.press("s")
        assert first.status() == 0
        second.shows("nobody owns this session now")
        second.shows("0/3")
        with home.opened(gpus=None) as third:
            third.shows("0/3")
            third.press("p")
            second.shows("2 run")
            until(lambda: "nobody owns" not in second.text, "it has an owner again")


def test_views_are_told_over_the_socket(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, looked_on(home, by_key=False) as (_, second):
        for keys, told in (("\r", "attempt 1 started"), ("t", "Timeline"), ("=", "Summary")):
            second.shows("3 Log")  # which only the main screen has
            second.press(keys)
            second.shows(told)
            until(lambda: "3 Log" not in second.text, "the view fills the screen", 20)
            second.press("\x1b")
        second.shows("3 Log")
        second.press("m")
        second.shows("Jobs are compared")
        second.press("m")
        second.shows("of 2 jobs")


def test_a_run_and_its_cpu_lanes_are_looked_on_too(tmp_path: Path) -> None:
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
            second.shows("nobody owns this session now")


def test_jobs_for_a_screen_that_only_looks_are_refused_or_said_not_to_be_added(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, home.opened(home.write("exec sleep 600")) as first:
        first.shows("1 run")
        with home.opened("--read-only", home.write("true", name="more.txt"), gpus=None) as second:
            assert second.status() == 2
            assert "leave out the jobs, or --read-only" in " ".join(second.text.split())
        with home.opened(home.write("true", name="more.txt"), gpus=None) as third:
            third.shows(QUESTION)
            third.press("l")
            third.shows("this screen only looks")
        assert home.counts() == {"running": 1}
