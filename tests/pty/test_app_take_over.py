"""A session that is open in another terminal: the question says where, and one key takes it over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.app import AppHome, at_home, gone
from support.terminal import CTRL_C, RecordedTerminal


@contextmanager
def two_terminals(directory: Path) -> Iterator[tuple[AppHome, RecordedTerminal, RecordedTerminal]]:
    """The first terminal has the session, the second shows the question."""
    with at_home(directory) as home:
        jobs = home.write("exec sleep 600", "exec sleep 601", "exec sleep 602")
        with home.opened(jobs) as first:
            first.shows("2 run")
            first.shows("0/3")
            home.waiter()
            with home.opened(gpus=None) as second:
                second.shows("[Enter] take over  [l] read-only  [q] quit")
                yield home, first, second


def test_the_question_names_the_terminal_and_enter_takes_over(tmp_path: Path) -> None:
    with two_terminals(tmp_path) as (home, first, second):
        question = "".join(second.text.split())  # wherever the length of the path breaks it
        assert f"isopeningputuiapp(pid{first.process.pid})" in question
        assert f"on{os.ttyname(first.slave).removeprefix('/dev/')}since" in question
        pids = [home.claim_pid(job) for job in (0, 1)]
        second.press("\r")
        second.shows("2 run")
        second.shows("0/3")
        assert home.app() == second.process.pid
        assert first.status() == 1
        assert "another gputui took over the session and continues it" in first.text
        assert not first.emulator.alternate
        assert first.modes == first.modes_before
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
        first.shows("Lowercase keys never touch running jobs")


def test_a_session_on_a_stalled_terminal_can_be_taken_over(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, home.opened(home.write("exec sleep 600")) as first:
        first.shows("1 run")
        first.stall()
        first.press("?\x1b" * 200)
        home.waiter()
        for width in range(60):
            first.resize(100 + width % 20, 40)
        with home.opened(gpus=None) as second:
            second.shows("[Enter] take over  [l] read-only  [q] quit")
            second.press("\r")
            second.shows("1 run")
            gone(first.process.pid)
            assert home.app() == second.process.pid
