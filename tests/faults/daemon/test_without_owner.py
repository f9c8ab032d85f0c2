"""Requests to a session without a scheduler are answered from its store; nothing starts."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.sessions import Home
from support.waiting import until

from gputui.process import directories as mounts
from gputui.session.control.connection import ClientError


@pytest.fixture
def dead(home: Home) -> Home:
    """A session whose scheduler was killed: one job has ended since, one is running, one waits."""
    jobs = (
        f"until test -e {home.directory}/go; do sleep 0.01; done; exit 42",
        home.told("b", "exec sleep 600"),
        home.told("c"),
    )
    run = home.start("--no-daemon", "--pause-after", "0", home.write(*jobs))
    until(lambda: home.runs() and len(home.ask("status")["active"]) == 2, "two jobs run")
    run.kill()
    run.communicate()
    (home.directory / "go").touch()
    until(lambda: b"exit" in (home.claims_directory / "0.1").read_bytes(), "the first has ended")
    return home


def states(home: Home) -> list[tuple[str, int | None]]:
    jobs: list[dict[str, Any]] = home.ask("listing")["jobs"]
    return [(job["state"], job["exit_code"]) for job in jobs]


def test_a_listing_recovers_first_and_starts_nothing(dead: Home) -> None:
    assert states(dead) == [("failed", 42), ("running", None), ("queued", None)]
    assert dead.ask("status")["process"] is None
    assert dead.daemons() == []
    assert dead.runs() == {"b": 1}
    assert dead.ask("show", job=0)["attempts"][0]["exit_code"] == 42


def test_commands_act_on_the_dead_session(dead: Home) -> None:
    priority = {"type": "priority", "job": 2, "priority": 77}
    outcomes = dead.command({"type": "hold", "job": 2}, priority, {"type": "pause"}, {"type": "hold", "job": 9})
    assert [outcome["refused"] is None for outcome in outcomes] == [True, True, True, False]
    assert dead.members() == []
    assert dead.ask("status")["scheduler"]["state"] == "paused"
    job = dead.ask("show", job=2)
    assert (job["state"], job["priority"]) == ("held", 77)
    assert dead.runs() == {"b": 1}


def test_a_request_for_work_starts_a_daemon(dead: Home) -> None:
    dead.command({"type": "kill", "job": 1}, work=True)
    dead.gone()
    assert dead.runs() == {"b": 1, "c": 1}
    assert dead.states() == ["failed", "killed", "succeeded"]


def test_many_clients_of_a_dead_session_take_turns(dead: Home) -> None:
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: states(dead), range(16)))
    assert seen == [[("failed", 42), ("running", None), ("queued", None)]] * 16


def test_a_session_of_a_newer_gputui_is_refused_in_one_sentence(home: Home) -> None:
    home.begin()
    with sqlite3.connect(home.database) as database:
        database.execute("PRAGMA user_version=999")
        database.execute("UPDATE meta SET value=999 WHERE key='schema'")
    database.close()
    for work in (False, True):
        with pytest.raises(ClientError, match=r"was written by a newer gputui; upgrade this one$"):
            home.ask("status", work=work)
    assert home.members() == []


def test_a_session_of_another_machine_can_only_be_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "LOCAL", frozenset())
    home.begin()
    with sqlite3.connect(home.database) as database:
        database.execute(
            "UPDATE meta SET value=json_set(value, '$.world.machine', 'x', '$.world.hostname', 'lab7', "
            "'$.world.boot', 'y') WHERE key='identity'"
        )
    database.close()
    before = {path: path.read_bytes() for path in home.private.rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.raises(ClientError, match=r"lives on lab7 \(0 running\): ssh -t lab7 gputui"):
        home.command({"type": "pause", "kind": "user"})
    assert "lives on lab7 (0 running): ssh -t lab7 gputui" in home.ask("listing")["trouble"]
    assert before == {path: path.read_bytes() for path in before}
    assert home.members() == []


def test_a_missing_session_is_an_error(home: Home) -> None:
    with pytest.raises(ClientError, match="no session in"):
        home.ask("status")
