"""Commands on jobs: selection, the request, the question and the report."""

from __future__ import annotations

from typing import Any

import pytest
from support.sessions import Answers, Gputui, only
from support.wires import FakeOwner, job

from gputui.cli.output import NOT_FOUND

CASES: list[tuple[list[str], list[dict[str, Any]]]] = [
    (["hold", "0"], [{"type": "hold", "job": 0, "seen": {"attempt": 0, "state": "queued"}}]),
    (["release", "1"], [{"type": "release", "job": 1, "seen": {"attempt": 0, "state": "held"}}]),
    (["suspend", "2"], [{"type": "suspend", "job": 2, "seen": {"attempt": 1, "state": "running"}}]),
    (["continue", "3"], [{"type": "continue", "job": 3, "seen": {"attempt": 1, "state": "suspended"}}]),
    (["kill", "2"], [{"type": "kill", "job": 2, "seen": {"attempt": 1, "state": "running"}}]),
    (["kill", "--now", "2"], [{"type": "kill", "job": 2, "now": True, "seen": {"attempt": 1, "state": "running"}}]),
    (["requeue", "2"], [{"type": "requeue", "job": 2, "seen": {"attempt": 1, "state": "running"}}]),
    (["rerun", "4"], [{"type": "rerun", "job": 4, "environment": "", "seen": {"attempt": 1, "state": "failed"}}]),
    (["rm", "5"], [{"type": "remove", "job": 5, "seen": {"attempt": 1, "state": "succeeded"}}]),
    (["priority", "50", "0"], [{"type": "priority", "job": 0, "priority": 50}]),
    (["priority", "+5", "#0"], [{"type": "priority", "job": 0, "priority": 35}]),
    (["priority", "-50", "0"], [{"type": "priority", "job": 0, "priority": 0}]),
    (
        ["move", "0", "--before", "1"],
        [{"type": "move", "job": 0, "where": "before", "before": 1, "seen": {"attempt": 0, "state": "queued"}}],
    ),
]


@pytest.fixture
def jobs(owner: FakeOwner) -> FakeOwner:
    states = ("queued", "held", "running", "suspended", "failed", "succeeded")
    owner.jobs = {id: job(id, state) for id, state in enumerate(states)}
    return owner


@pytest.mark.parametrize(("words", "events"), CASES, ids=lambda case: " ".join(map(str, case))[:30])
def test_a_request_carries_the_job_and_its_state_when_selected(
    jobs: FakeOwner, gputui: Gputui, words: list[str], events: list[dict[str, Any]]
) -> None:
    assert gputui(*words).status == 0
    assert jobs.events() == events


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["kill", "0-2", "-y"], [0, 1, 2]),
        (["kill", "0,2", "-y"], [0, 2]),
        (["kill", "job_1", "2", "-y"], [1, 2]),
        (["kill", "--all", "-y"], [2, 3]),
        (["hold", "--all", "-y"], [0]),
        (["release", "--all", "-y"], [1]),
        (["suspend", "--all", "-y"], [2]),
        (["rerun", "--all", "-y"], [4, 5]),
        (["rm", "--succeeded", "-y"], [5]),
        (["rm", "--all", "-y"], [4, 5]),
    ],
    ids=lambda case: " ".join(map(str, case)),
)
def test_selection_by_id_range_name_and_flag(jobs: FakeOwner, gputui: Gputui, words: list[str], ids: list[int]) -> None:
    gputui(*words)
    assert [event["job"] for event in jobs.events() if "job" in event] == ids


def test_one_of_several_reruns_is_a_probe_unless_all_at_once(jobs: FakeOwner, gputui: Gputui) -> None:
    gputui("rerun", "--all", "-y")
    assert jobs.events()[-1] == {"type": "try_first", "jobs": [4, 5]}
    gputui("rerun", "--all", "--all-at-once", "-y")
    assert jobs.events()[-1] == {"type": "resume"}


@pytest.mark.parametrize(
    ("tried", "told"),
    [
        (13, "they start once #13, running alone, succeeds or runs for 1:00"),
        (4, "#4 runs first; the others start once it succeeds or runs for 1:00"),
    ],
)
def test_a_rerun_names_the_probe_it_waits_for(jobs: FakeOwner, gputui: Gputui, tried: int, told: str) -> None:
    scope = {"group": None, "message": "3 jobs: boo", "jobs": [4, 5], "count": 2, "signature": "boo", "since": 0.0}
    probe = {"common": {}, "job": tried, "probing": True, "at": None, "alive_after": 60.0}
    jobs.scheduler = {"state": "paused", "cause": None, "paused": [scope | probe]}
    assert told in gputui("rerun", "--all", "-y").err


def test_failed_means_the_jobs_of_the_current_pause(jobs: FakeOwner, gputui: Gputui) -> None:
    jobs.scheduler = {"state": "paused", "cause": {"kind": "crashes", "message": "3 jobs failed: boo", "jobs": [4]}}
    told = gputui("rerun", "--failed")
    assert only(jobs.events())["job"] == 4
    assert "3 jobs failed: boo" in told.err
    assert "gputui resume" in told.err


def test_a_rerun_takes_the_environment_of_this_shell(
    jobs: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAVOUR", "new")
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    gputui("rerun", "4")
    environment = only(jobs.asks("commands"))["environment"]
    assert environment["FLAVOUR"] == "new"
    assert "SSH_TTY" not in environment


@pytest.mark.parametrize(("answer", "killed"), [("n\n", 0), ("", 0), ("y\n", 3)])
def test_several_jobs_need_confirmation(
    jobs: FakeOwner, gputui: Gputui, answers: Answers, answer: str, killed: int
) -> None:
    answers(answer)
    told = gputui("kill", "0-2")
    assert told.status == (0 if killed else 1)
    assert str(jobs.root) in told.err
    assert "3 jobs (1 queued · 1 held · 1 running)" in told.err
    assert len(jobs.events()) == killed


def test_without_a_terminal_only_named_jobs_need_no_yes(jobs: FakeOwner, gputui: Gputui) -> None:
    told = gputui("rerun", "--all")
    assert told.status == 2
    assert "-y" in told.err
    assert jobs.events() == []
    assert gputui("kill", "2", "3").status == 0


def test_an_unknown_job_prevents_the_whole_request(jobs: FakeOwner, gputui: Gputui) -> None:
    told = gputui("kill", "2", "99", "-y")
    assert told.status == NOT_FOUND
    assert "#99" in told.err
    assert jobs.events() == []


@pytest.mark.parametrize("words", [["suspend", "--all"], ["rerun", "--failed"], ["rm", "--succeeded"]])
def test_an_empty_selection_is_an_error(owner: FakeOwner, gputui: Gputui, words: list[str]) -> None:
    told = gputui(*words)
    assert told.status == NOT_FOUND
    assert "nothing was changed" in told.err


def test_each_refusal_is_printed_and_sets_the_status(jobs: FakeOwner, gputui: Gputui) -> None:
    jobs.answers["commands"] = lambda fields: [{"job": 2, "refused": "#2 just ended"}, {"job": 3, "refused": None}]
    told = gputui("kill", "2", "3", "-y")
    assert told.status == 1
    assert "#2 just ended" in told.err
    assert "#3" in told.err


def test_a_refusal_cannot_act_on_the_terminal(jobs: FakeOwner, gputui: Gputui) -> None:
    jobs.answers["commands"] = [{"job": 2, "refused": "no \x1b[31m\x07"}]
    assert "\x1b" not in gputui("kill", "2").err


def test_moving_several_keeps_their_order(jobs: FakeOwner, gputui: Gputui) -> None:
    gputui("move", "0-2", "--top", "-y")
    gputui("move", "0-2", "--bottom", "-y")
    assert [event["job"] for event in jobs.events()] == [2, 1, 0, 0, 1, 2]


@pytest.mark.parametrize(
    "words",
    [
        ["move", "0"],
        ["move", "0", "--up", "--down"],
        ["priority", "high", "0"],
        ["priority"],
        ["kill"],
        ["kill", "9-3"],
        ["kill", "--nwo", "0"],
        ["hold", "0", "--now"],
    ],
)
def test_usage_errors_exit_with_2_and_request_nothing(jobs: FakeOwner, gputui: Gputui, words: list[str]) -> None:
    assert gputui(*words).status == 2
    assert jobs.events() == []
