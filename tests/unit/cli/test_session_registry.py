"""The list of a user's sessions, shared by machines and never in the way."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from support.sessions import Gputui
from support.wires import FakeOwner

from gputui.session import registry
from gputui.session.registry import remember, remembered

HERE = os.uname().nodename


def a_session(directory: Path) -> str:
    (directory / ".gputui").mkdir(parents=True)
    return str(directory)


def test_each_session_is_remembered_once(tmp_path: Path) -> None:
    first, second = a_session(tmp_path / "one"), a_session(tmp_path / "two\nlines")
    for root in (first, second, first):
        remember(root)
    assert remembered() == [(HERE, first), (HERE, second)]


def test_one_that_vanished_here_is_forgotten_and_those_elsewhere_stay(tmp_path: Path) -> None:
    root = a_session(tmp_path / "one")
    remember(root)
    with open(registry.path(), "a") as file:
        file.write(json.dumps(["lab-never", "/scratch/run"]) + "\nhalf a li")
    shutil.rmtree(root)
    assert remembered() == [("lab-never", "/scratch/run")]
    assert Path(registry.path()).read_text() == '["lab-never", "/scratch/run"]\n'


def test_a_registry_that_cannot_be_written_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    remember("/somewhere")
    assert remembered() == []


def test_a_locked_registry_is_not_waited_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "TRIES", 2)
    root = a_session(tmp_path / "one")
    with registry._locked():
        remember(root)
    assert remembered() == []


def test_sessions_shows_the_answers_of_their_schedulers(owner: FakeOwner, gputui: Gputui, tmp_path: Path) -> None:
    remember(str(owner.root))
    remember(a_session(tmp_path / "idle"))
    found = json.loads(gputui("sessions", "--json").out)["sessions"]
    assert [one["session"] for one in found] == [str(owner.root), str(tmp_path / "idle")]
    assert found[0]["scheduler"]["state"] == "running"
    assert found[1]["process"] is None
    assert str(owner.root) in gputui("sessions").out


def test_without_sessions_it_says_how_to_start_one(gputui: Gputui) -> None:
    assert "gputui run FILE" in gputui("sessions").out
