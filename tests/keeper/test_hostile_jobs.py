"""Jobs and words that no source of ours would send are refused at the door, and never end an owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.homes import Home
from support.waiting import until
from support.wires import answered, request


@pytest.fixture
def owned(home: Home) -> Iterator[Home]:
    home.begin("sleep 600")
    home.resume()
    keeper = home.owner()
    yield home
    home.add(home.told("after"))
    until(lambda: home.runs()["after"] == 1, "the owner still schedules")
    assert home.ask("status")["owner"]["pid"] == keeper


def load(home: Home, **fields: Any) -> dict[str, Any]:
    asked = home.load_of("true")
    asked["specs"][0].update(fields)
    return {"type": "load", **asked}


WITH_NUL: tuple[dict[str, Any], ...] = (
    {"command": "a\0b"}, {"cwd": "/a\0b"}, {"outfile": "a\0b"}, {"shell": "/bin/\0sh"}, {"name": "a\0b"},
    {"group": "\0"}, {"variables": {"A": "\0"}}, {"variables": {"\0": "a"}}, {"request": {"devices": ["\0"]}},
)  # fmt: skip
IMPOSSIBLE: tuple[dict[str, Any], ...] = (
    {"variables": {"A=B": "1"}}, {"variables": {"": "1"}}, {"cwd": "nowhere"}, {"cwd": ""}, {"command": ""},
    {"command": "x" * 3_000_000}, {"outfile": "/nowhere/out"}, {"shell": "/nowhere/sh"}, {"retries": 2**70},
    {"timeout": 1e308}, {"timeout": 1e-300}, {"not_before": -1e300}, {"not_before": 1e300}, {"name": "n" * 100_000},
    {"request": {"gpus": 2**62}}, {"request": {"gpus": 1, "memory": 2**70}}, {"occurrence": 2**70},
)  # fmt: skip


def test_a_nul_byte_is_refused(owned: Home) -> None:
    for number, fields in enumerate(WITH_NUL):
        said = answered(owned.private, request(load(owned, **fields), uuid=f"{number}"))
        assert (said["ok"], said["message"]) == (False, "a NUL byte can be in no command, path or name"), fields


def test_what_can_be_asked_for_but_not_be_done_ends_the_job_alone(owned: Home) -> None:
    owner = owned.owner()
    for number, fields in enumerate(IMPOSSIBLE):
        said = answered(owned.private, request(load(owned, **fields), uuid=f"{number}"))
        assert said["ok"] or said["kind"] == "refused", said
        assert owned.ask("status")["owner"]["pid"] == owner, fields


def test_a_range_far_beyond_the_last_job_is_answered_at_once(owned: Home) -> None:
    said = answered(owned.private, request({"type": "pick", "ids": [[0, 10**15], [5, 10**15], [-9, -1]]}))
    assert [job["id"] for job in said["value"]["jobs"]] == [0]
    assert said["value"]["missing"] == [f"#5-{10**15}", "#-9--1"]
