"""`gputui gpus` as a way to change lanes."""

from __future__ import annotations

from typing import Any

import pytest
from support.calling import Answers, Gputui
from support.fake_owner import FakeOwner, job
from support.schemas import valid

Lanes = list[tuple[str, ...]]


@pytest.fixture(autouse=True)
def lanes(owner: FakeOwner) -> None:
    def lane(id: int, device: str, busy: int | None = None) -> dict[str, Any]:
        state = "free" if busy is None else "busy"
        return {"id": id, "devices": [device], "kind": "gpu", "job": busy, "state": state}

    owner.jobs = {3: job(3, "running"), 4: job(4, "running")}
    owner.answers["lanes"] = {"lanes": [lane(0, "0"), lane(1, "1", 3), lane(2, "6", 4)]}


def asked_for(owner: FakeOwner) -> Lanes:
    (event,) = (event for event in owner.events() if event["type"] == "lanes")
    return [tuple(lane["devices"]) for lane in event["lanes"]]


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
    owner: FakeOwner, gputui: Gputui, words: list[str], expected: Lanes
) -> None:
    assert gputui("gpus", *words).status == 0
    assert asked_for(owner) == expected


def test_jobs_on_lanes_that_go_run_on_and_that_is_said(owner: FakeOwner, gputui: Gputui) -> None:
    assert "#4 goes on to its end" in gputui("gpus", "-6").err
    assert [event["type"] for event in owner.events()] == ["lanes"]


def test_now_puts_them_back_into_the_queue(owner: FakeOwner, gputui: Gputui) -> None:
    gputui("gpus", "-6", "--now")
    assert owner.events()[1] == {"type": "requeue", "job": 4, "seen": {"attempt": 1, "state": "running"}}


def test_of_equal_lanes_the_busy_one_stays(owner: FakeOwner, gputui: Gputui) -> None:
    first, *_ = owner.answers["lanes"]["lanes"]
    owner.answers["lanes"] = {"lanes": [first, first | {"id": 1, "job": 3, "state": "busy"}]}
    gputui("gpus", "0", "--now")
    assert [event["type"] for event in owner.events()] == ["lanes"]


def test_more_than_one_is_asked_about(owner: FakeOwner, gputui: Gputui, answers: Answers) -> None:
    answers("n\n")
    assert gputui("gpus", "0", "--now").status == 1
    assert owner.events() == []


@pytest.mark.parametrize(("word", "status"), [("-9", 1), ("zero", 2), ("--now", 2)])
def test_what_means_nothing_changes_nothing(owner: FakeOwner, gputui: Gputui, word: str, status: int) -> None:
    assert gputui("gpus", word).status == status
    assert owner.events() == []


def test_gpus_json_has_the_promised_shape(owner: FakeOwner, gputui: Gputui) -> None:
    assert len(valid("gpus", gputui("gpus", "--json").out)["lanes"]) == 3
