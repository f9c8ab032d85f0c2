"""`--json`: one object on standard output or, for an error, one on standard error with an exit status for its class."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.sessions import Gputui
from support.wires import FakeOwner, job

from gputui.cli.output import NOT_FOUND, REFUSED, UNREACHABLE, USAGE


@pytest.fixture
def jobs(owner: FakeOwner) -> FakeOwner:
    owner.jobs = {0: job(0), 1: job(1, "running"), 2: job(2, "failed")}
    return owner


def error_of(gputui: Gputui, *words: str) -> tuple[int, dict[str, Any]]:
    told = gputui(*words)
    assert told.out == ""
    error = json.loads(told.err)
    assert error["schema"] == 1
    assert error["message"]
    return told.status, error


@pytest.mark.parametrize(
    ("words", "status", "error", "hint"),
    [
        (["ls", "--json", "99"], NOT_FOUND, "not-found", "gputui ls"),
        (["show", "nobody", "--json"], NOT_FOUND, "not-found", "gputui ls"),
        (["ls", "--json", "--sttae", "failed"], USAGE, "usage", "gputui ls --help"),
        (["results", "--json", "--top", "0"], USAGE, "usage", "gputui results --help"),
        (["ls", "--json", "--session", "nowhere"], NOT_FOUND, "no-session", "gputui add --session nowhere -- COMMAND"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_error_is_an_object_with_its_class_and_a_hint(
    jobs: FakeOwner, gputui: Gputui, words: list[str], status: int, error: str, hint: str
) -> None:
    got, described = error_of(gputui, *words)
    assert (got, described["error"], described["hint"]) == (status, error, hint)
    assert gputui(*(word for word in words if word != "--json")).status == status


def test_what_the_owner_refuses_and_an_owner_that_does_not_answer_are_different_errors(
    jobs: FakeOwner, gputui: Gputui
) -> None:
    def refuse(fields: dict[str, Any]) -> None:
        raise PermissionError("not now")

    jobs.answers["listing"] = refuse
    assert error_of(gputui, "ls", "--json")[1]["error"] == "refused"
    assert gputui("ls").status == REFUSED
    jobs.answers["listing"] = "nonsense"
    status, described = error_of(gputui, "ls", "--json")
    assert (status, described["error"]) == (UNREACHABLE, "unreachable")


def test_words_after_two_dashes_are_not_flags(jobs: FakeOwner, gputui: Gputui) -> None:
    assert gputui("add", "--no-start", "--", "train", "--json").out == "7\n"


def test_an_error_cannot_act_on_the_terminal(jobs: FakeOwner, gputui: Gputui) -> None:
    told = gputui("show", "--json", "\x1b]0;owned\x07")
    assert "\x1b" not in told.err
    assert "owned" in json.loads(told.err)["message"]
