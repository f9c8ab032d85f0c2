"""Verbs on jobs: which are meant, what was seen of them, whether the user is asked, and what is said."""

from __future__ import annotations

from typing import Any

import pytest
from support.calling import Answers, Gputui, only
from support.fake_owner import FakeOwner, job

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
def test_a_request_carries_the_job_and_what_was_seen_of_it(
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
def test_ids_ranges_names_and_all_mean_these_jobs(
    jobs: FakeOwner, gputui: Gputui, words: list[str], ids: list[int]
) -> None:
    gputui(*words)
    assert [event["job"] for event in jobs.events() if "job" in event] == ids


def test_of_many_reruns_one_is_tried_first_unless_all_are_wanted_at_once(jobs: FakeOwner, gputui: Gputui) -> None:
    gputui("rerun", "--all", "-y")
    assert jobs.events()[-1] == {"type": "try_first", "jobs": [4, 5]}
    gputui("rerun", "--all", "--all-at-once", "-y")
    assert jobs.events()[-1] == {"type": "resume"}


@pytest.mark.parametrize(
    ("tried", "told"),
    [
        (13, "they start when #13, which is tried alone, succeeds or lives 1:00"),
        (4, "#4 is tried first; the others start when it succeeds or lives 1:00"),
    ],
)
def test_a_rerun_says_what_it_waits_for(jobs: FakeOwner, gputui: Gputui, tried: int, told: str) -> None:
    scope = {"group": None, "message": "3 jobs: boo", "jobs": [4, 5], "count": 2, "signature": "boo", "since": 0.0}
    probe = {"common": {}, "job": tried, "trying": True, "at": None, "alive_after": 60.0}
    jobs.scheduler = {"state": "paused", "cause": None, "paused": [scope | probe]}
    assert told in gputui("rerun", "--all", "-y").err


def test_failed_means_the_jobs_of_the_current_pause(jobs: FakeOwner, gputui: Gputui) -> None:
    jobs.scheduler = {"state": "paused", "cause": {"kind": "crashes", "message": "3 jobs crashed alike", "jobs": [4]}}
    told = gputui("rerun", "--failed")
    assert only(jobs.events())["job"] == 4
    assert "3 jobs crashed alike" in told.err
    assert "gputui resume" in told.err


def test_that_no_job_has_failed_is_said(jobs: FakeOwner, gputui: Gputui) -> None:
    jobs.jobs = {number: each for number, each in jobs.jobs.items() if each["state"] == "succeeded"}
    assert "no job has failed in " in gputui("rerun", "--failed").err


def test_a_rerun_takes_the_environment_of_this_shell(
    jobs: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAVOUR", "new")
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    gputui("rerun", "4")
    environment = only(jobs.asks("commands"))["environment"]
    assert environment["FLAVOUR"] == "new"
    assert "SSH_TTY" not in environment


def test_several_jobs_are_shown_with_their_session_and_asked_about(
    jobs: FakeOwner, gputui: Gputui, answers: Answers
) -> None:
    answers("n\n")
    told = gputui("kill", "0-2")
    assert told.status == 1
    assert str(jobs.root) in told.err
    assert "3 jobs (1 queued · 1 held · 1 running)" in told.err
    assert jobs.events() == []


def test_a_yes_is_a_yes(jobs: FakeOwner, gputui: Gputui, answers: Answers) -> None:
    answers("y\n")
    assert gputui("kill", "0-2").status == 0
    assert len(jobs.events()) == 3


def test_end_of_input_is_a_no(jobs: FakeOwner, gputui: Gputui, answers: Answers) -> None:
    answers("")
    assert gputui("kill", "0-2").status == 1
    assert jobs.events() == []


def test_without_a_terminal_named_jobs_are_taken_and_others_need_a_yes(jobs: FakeOwner, gputui: Gputui) -> None:
    told = gputui("rerun", "--all")
    assert told.status == 2
    assert "-y" in told.err
    assert jobs.events() == []
    assert gputui("kill", "2", "3").status == 0


def test_one_unknown_job_and_nothing_is_done(jobs: FakeOwner, gputui: Gputui) -> None:
    told = gputui("kill", "2", "99", "-y")
    assert told.status == 1
    assert "#99" in told.err
    assert jobs.events() == []


@pytest.mark.parametrize("words", [["suspend", "--all"], ["rerun", "--failed"], ["rm", "--succeeded"]])
def test_a_verb_on_nothing_says_so(owner: FakeOwner, gputui: Gputui, words: list[str]) -> None:
    told = gputui(*words)
    assert told.status == 1
    assert "nothing was done" in told.err


def test_no_jobs_named_is_wrong_usage(owner: FakeOwner, gputui: Gputui) -> None:
    assert gputui("kill").status == 2
    assert owner.asked == []


def test_refusals_are_said_one_by_one_and_the_status_tells(jobs: FakeOwner, gputui: Gputui) -> None:
    jobs.answers["commands"] = lambda fields: [
        {"job": 2, "refused": "#2 just ended"},
        {"job": 3, "refused": None},
    ]
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
        ["kill", "9-3"],
        ["kill", "--nwo", "0"],
        ["hold", "0", "--now"],
    ],
)
def test_wrong_usage_is_two_and_asks_nobody(jobs: FakeOwner, gputui: Gputui, words: list[str]) -> None:
    assert gputui(*words).status == 2
    assert jobs.events() == []


def test_a_flag_with_a_slip_names_the_nearest(owner: FakeOwner, gputui: Gputui) -> None:
    assert "--now" in gputui("kill", "--nwo", "0").err
