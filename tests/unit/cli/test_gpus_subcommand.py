"""`gputui gpus` as a way to change slots."""

from __future__ import annotations

from typing import Any

import pytest
from support.sessions import Answers, Gputui
from support.sources import valid
from support.wires import FakeOwner, job

from gputui.cli.output import NOT_FOUND

Slots = list[tuple[str, ...]]


@pytest.fixture(autouse=True)
def slots(owner: FakeOwner) -> None:
    def slot(id: int, device: str, busy: int | None = None) -> dict[str, Any]:
        state = "free" if busy is None else "busy"
        return {"id": id, "devices": [device], "kind": "gpu", "job": busy, "state": state}

    owner.jobs = {3: job(3, "running"), 4: job(4, "running")}
    owner.answers["slots"] = {"slots": [slot(0, "0"), slot(1, "1", 3), slot(2, "6", 4)]}


def asked_for(owner: FakeOwner) -> Slots:
    (event,) = (event for event in owner.events() if event["type"] == "slots")
    return [tuple(slot["devices"]) for slot in event["slots"]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["0-1"], [("0",), ("1",)]),
        (["0", "1"], [("0",), ("1",)]),
        (["0,0"], [("0",), ("0",)]),
        (["[0,1]"], [("0", "1")]),
        (["cpu:2"], [(), ()]),
        (["+7,8"], [("0",), ("1",), ("6",), ("7",), ("8",)]),
        (["+0"], [("0",), ("1",), ("6",), ("0",)]),
        (["-0,6"], [("1",)]),
        (["-6"], [("0",), ("1",)]),
    ],
    ids=lambda case: " ".join(map(str, case)),
)
def test_a_list_replaces_plus_adds_and_minus_takes_away(
    owner: FakeOwner, gputui: Gputui, words: list[str], expected: Slots
) -> None:
    assert gputui("gpus", *words).status == 0
    assert asked_for(owner) == expected


def test_jobs_on_removed_slots_finish_first(owner: FakeOwner, gputui: Gputui) -> None:
    assert "#4 will finish first" in gputui("gpus", "-6").err
    assert [event["type"] for event in owner.events()] == ["slots"]


def test_now_requeues_them(owner: FakeOwner, gputui: Gputui) -> None:
    gputui("gpus", "-6", "--now")
    assert owner.events()[1] == {"type": "requeue", "job": 4, "seen": {"attempt": 1, "state": "running"}}


def test_of_equal_slots_the_busy_one_stays(owner: FakeOwner, gputui: Gputui) -> None:
    first, *_ = owner.answers["slots"]["slots"]
    owner.answers["slots"] = {"slots": [first, first | {"id": 1, "job": 3, "state": "busy"}]}
    gputui("gpus", "0", "--now")
    assert [event["type"] for event in owner.events()] == ["slots"]


def test_more_than_one_is_asked_about(owner: FakeOwner, gputui: Gputui, answers: Answers) -> None:
    answers("n\n")
    assert gputui("gpus", "0", "--now").status == 1
    assert owner.events() == []


@pytest.mark.parametrize(("word", "status"), [("-9", NOT_FOUND), ("zero", 2), ("--now", 2)])
def test_an_invalid_list_changes_nothing(owner: FakeOwner, gputui: Gputui, word: str, status: int) -> None:
    assert gputui("gpus", word).status == status
    assert owner.events() == []


def test_gpus_json_has_the_promised_shape(owner: FakeOwner, gputui: Gputui) -> None:
    assert len(valid("gpus", gputui("gpus", "--json").out)["slots"]) == 3
