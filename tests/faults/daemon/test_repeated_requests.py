"""A repeated request is answered as before and carried out once, also by the next scheduler."""

from __future__ import annotations

import os
import signal
from typing import Any

import msgspec
import pytest
from support.sessions import Home, alive, kill, request_of, stop
from support.waiting import until
from support.wires import answered, reply, request, wire

from gputui.session.control.connection import Connection, NoOwner
from gputui.session.lock import OwnerKind


@pytest.fixture
def owned(home: Home) -> Home:
    home.begin("sleep 600")
    home.resume()
    home.waiter()
    return home


def load(home: Home, label: str) -> dict[str, Any]:
    return {"type": "load", **home.load_of(home.told(label))}


def test_a_repeated_request_is_carried_out_once(owned: Home) -> None:
    asked = request(load(owned, "a"), uuid="once")
    first = answered(owned.private, asked)
    assert first["ok"]
    assert [answered(owned.private, asked) for _ in range(3)] == [first] * 3
    refused = request({"type": "commands", "events": [{"type": "hold", "job": 0}]}, uuid="refused")
    assert answered(owned.private, refused)["value"][0]["refused"]
    assert answered(owned.private, refused) == answered(owned.private, refused)
    owned.add(owned.told("b"))
    until(lambda: owned.runs()["b"], "the later one has run")
    assert owned.runs() == {"a": 1, "b": 1}


def test_opening_a_session_with_settings_and_jobs_is_carried_out_once(owned: Home) -> None:
    begin = {"type": "begin", "slots": None, "given": False, "change_slots": False, "settings": {"pause_after": 7}}
    asked = request({"type": "open", "begin": begin, "loads": [load(owned, "a"), load(owned, "b")]}, uuid="once")
    first = answered(owned.private, asked)
    assert [loaded["new"] for loaded in first["value"]["loaded"]] == [1, 1]
    assert answered(owned.private, asked) == first
    status = answered(owned.private, request({"type": "status"}))["value"]
    assert status["settings"]["pause_after"] == 7
    until(lambda: owned.runs() == {"a": 1, "b": 1}, "both have run once")


def test_a_request_repeated_before_it_is_answered_is_carried_out_once(owned: Home) -> None:
    asked = request(load(owned, "a"), uuid="once")
    owner = owned.owner()
    with wire(owned.private) as one, wire(owned.private) as two:
        for each in (one, two):
            each.sendall(request({"type": "status"}))
            reply(each)
        stop(owner)
        one.sendall(asked)
        two.sendall(asked)
        os.kill(owner, signal.SIGCONT)  # and it reads both before it carries out either
        assert reply(one) == reply(two)
    until(owned.runs, "it runs")
    assert len(owned.ask("listing")["jobs"]) == 2


def test_the_next_scheduler_knows_earlier_requests(owned: Home) -> None:
    asked = request(load(owned, "a"), uuid="once")
    owner = owned.owner()
    first = answered(owned.private, asked)
    kill(owner)
    owned.owner(but=owner)
    until(lambda: owned.ask("status")["process"]["pid"] != owner, "the next one answers")
    assert answered(owned.private, asked) == first
    assert len(owned.ask("listing")["jobs"]) == 2


def test_a_request_is_carried_out_once_if_the_scheduler_is_killed_before_its_reply(owned: Home, kills: int) -> None:
    for number in range(kills):
        owner = owned.owner()
        owned.waiter()
        with wire(owned.private) as made:
            made.sendall(request(load(owned, f"job{number}"), uuid=f"uuid{number}"))
            if number % 2:  # kill after the commit, otherwise at once
                until(lambda label=f"job{number}": owned.runs()[label], "the job has started")  # type: ignore[misc]
            kill(owner)
        until(lambda gone=owner: not alive(gone), "it is dead")  # type: ignore[misc]
        owned.owner(OwnerKind.DAEMON, but=owner)
        assert repeated(owned, load(owned, f"job{number}"), f"uuid{number}")["new"] == 1
    until(lambda: len(owned.runs()) == kills, "all have run")
    assert owned.runs() == {f"job{number}": 1 for number in range(kills)}


def repeated(home: Home, ask: dict[str, Any], uuid: str) -> Any:
    """Repeat a request until it is acknowledged, as clients do."""
    value: list[Any] = []

    def acknowledged() -> bool:
        try:
            connection = Connection(str(home.private))
            fields = {name: field for name, field in ask.items() if name != "type"}
            value.append(msgspec.to_builtins(connection.ask(request_of(ask["type"], fields), uuid)))
            connection.close()
        except NoOwner:
            return False
        return True

    until(acknowledged, "it is acknowledged")
    return value[0]
