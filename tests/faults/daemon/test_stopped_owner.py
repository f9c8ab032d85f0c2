"""A scheduler that is stopped (SIGSTOP) or of another version: clients soon say what to do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from support.sessions import Home, stop
from support.waiting import until

from gputui.session.control import connection
from gputui.session.control.connection import OwnerStopped
from gputui.session.errors import SessionError
from gputui.session.lock import OwnerKind
from gputui.session.ownership import acquisition
from gputui.session.session_dir import Paths


@pytest.fixture
def stopped(home: Home) -> Iterator[Home]:
    home.begin("sleep 600")
    home.resume()
    home.waiter()
    owner = home.owner()
    stop(owner)
    yield home
    os.kill(owner, signal.SIGCONT)
    until(lambda: home.ask("status")["process"]["pid"] == owner, "it answers again")


def sentence(home: Home) -> str:
    pid = home.owner()
    return f"scheduler pid {pid} is stopped: kill -CONT {pid}"


def test_a_client_says_so_before_its_timeout(stopped: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 3600.0)
    with pytest.raises(OwnerStopped) as error:
        stopped.ask("status")
    assert str(error.value) == sentence(stopped)


def test_so_does_a_large_request_that_is_not_read(stopped: Home) -> None:
    with pytest.raises(OwnerStopped):
        stopped.ask("load", **stopped.load_of(*("x" * 1000 for _ in range(2000))))


def test_a_run_does_not_wait_for_a_stopped_daemon(stopped: Home) -> None:
    done = stopped.run(stopped.write("true"))
    assert done.returncode == 2
    assert sentence(stopped) in done.stderr


def test_a_request_that_failed_is_not_carried_out_later(stopped: Home) -> None:
    with pytest.raises(OwnerStopped):
        stopped.add(stopped.told("a"))
    os.kill(stopped.owner(), signal.SIGCONT)
    assert [job["id"] for job in stopped.ask("listing")["jobs"]] == [0]


def test_a_client_run_says_so_once_and_waits(home: Home) -> None:
    gate = f"until test -e {home.directory}/go; do sleep 0.01; done"
    with home.running(home.write(gate, name="first.txt")) as first:
        until(lambda: home.database.exists() and home.ask("status")["active"], "the first runs")
        second = home.start(home.write(home.told("b"), gate, name="second.txt"))
        until(home.runs, "the second's job runs")
        stop(first.pid)
        errors = second.stderr
        assert errors is not None
        until(lambda: "is stopped: kill -CONT" in errors.readline(), "it says so")
        os.kill(first.pid, signal.SIGCONT)
        assert home.owner(OwnerKind.RUN) == first.pid
        (home.directory / "go").touch()
        assert second.wait(60) == 0
        assert "is stopped" not in second.communicate()[1]


def test_a_session_is_not_handed_over_to_another_version(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.begin("sleep 600")
    home.resume()
    daemon = home.owner()
    monkeypatch.setattr(connection, "VERSION", 0)
    with pytest.raises(SessionError, match="the scheduler runs another version"):
        acquisition.become_owner(Paths(str(home.root)), OwnerKind.RUN, daemon=False)
    monkeypatch.undo()
    assert home.owner() == daemon
    until(lambda: home.ask_quietly(), "it still listens")
