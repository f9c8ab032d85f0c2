"""An owner that is stopped cannot answer; whoever asks is told soon what to do about it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from support.homes import Home, stop
from support.waiting import until

from gputui.session.control.connection import PATIENCE, OwnerStopped
from gputui.session.lock import OwnerKind


@pytest.fixture
def stopped(home: Home) -> Iterator[Home]:
    home.begin("sleep 600")
    home.resume()
    home.waiter()
    owner = home.owner()
    stop(owner)
    yield home
    os.kill(owner, signal.SIGCONT)
    until(lambda: home.ask("status")["owner"]["pid"] == owner, "it answers again")


def sentence(home: Home) -> str:
    pid = home.owner()
    return f"owner pid {pid} is stopped: kill -CONT {pid}"


def test_a_client_says_so_long_before_its_patience_ends(stopped: Home) -> None:
    begun = time.monotonic()
    with pytest.raises(OwnerStopped) as said:
        stopped.ask("status")
    assert str(said.value) == sentence(stopped)
    assert time.monotonic() - begun < PATIENCE / 2


def test_a_large_request_that_is_not_read_says_so_too(stopped: Home) -> None:
    with pytest.raises(OwnerStopped):
        stopped.ask("load", **stopped.load_of(*("x" * 1000 for _ in range(2000))))


def test_a_run_does_not_wait_for_a_stopped_keeper(stopped: Home) -> None:
    done = stopped.run(stopped.write("true"))
    assert done.returncode == 2
    assert sentence(stopped) in done.stderr


def test_what_was_asked_in_vain_is_not_done_afterwards(stopped: Home) -> None:
    with pytest.raises(OwnerStopped):
        stopped.add(stopped.told("a"))
    os.kill(stopped.owner(), signal.SIGCONT)
    assert [job["id"] for job in stopped.ask("listing")["jobs"]] == [0]


def test_a_client_run_says_so_once_and_waits(home: Home) -> None:
    gate = f"until test -e {home.folder}/go; do sleep 0.01; done"
    with home.running(home.write(gate, name="first.txt")) as first:
        until(lambda: home.database.exists() and home.ask("status")["active"], "the first runs")
        second = home.start(home.write(home.told("b"), gate, name="second.txt"))
        until(home.runs, "the second's job runs")
        stop(first.pid)
        said = second.stderr
        assert said is not None
        until(lambda: "is stopped: kill -CONT" in said.readline(), "it says so")
        os.kill(first.pid, signal.SIGCONT)
        assert home.owner(OwnerKind.RUN) == first.pid
        (home.folder / "go").touch()
        assert second.wait(60) == 0
        assert "is stopped" not in second.communicate()[1]
