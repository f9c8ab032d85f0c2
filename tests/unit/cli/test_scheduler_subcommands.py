"""pause, resume, drain, stop and wait: what they request and when they return."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.sessions import Gputui
from support.waiting import until
from support.wires import FakeOwner, job, listed

from gputui.cli.commands import scheduler
from gputui.cli.commands import stop as stopping
from gputui.cli.output import NOT_FOUND, UNREACHABLE
from gputui.session.client import Client
from gputui.session.lock import find_leftover_processes

Step = Callable[[], None]


def at_each_nap(monkeypatch: pytest.MonkeyPatch, module: object, *steps: Step) -> None:
    left = list(steps)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: left.pop(0)())  # type: ignore[attr-defined]


def at_each_event(owner: FakeOwner, *steps: Step) -> None:
    """Take a step each time that the command waits for an event, and then report one."""
    left, page = list(steps), {"events": [], "cursor": "log-0", "owned": True}

    def answer(fields: dict[str, Any]) -> dict[str, Any]:
        if "wait" in fields:
            left.pop(0)()
        return page

    owner.answers["events"] = answer


def kinds(owner: FakeOwner) -> list[str]:
    return [event["type"] for event in owner.events()]


def paused(kind: str = "drained") -> dict[str, object]:
    return {"state": "paused", "cause": {"kind": kind, "message": "why", "jobs": [], "signature": None}}


def test_pause_and_resume(owner: FakeOwner, gputui: Gputui) -> None:
    assert gputui("pause").status == 0
    assert gputui("resume").status == 0
    assert owner.events() == [{"type": "pause", "kind": "user"}, {"type": "resume"}]


def test_a_refused_pause_is_an_error(owner: FakeOwner, gputui: Gputui) -> None:
    owner.answers["commands"] = [{"job": None, "refused": "it is paused already"}]
    told = gputui("pause")
    assert (told.status, told.err) == (1, "gputui: it is paused already\n")


def test_drain_waits_until_it_is_drained(owner: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch) -> None:
    owner.jobs = {0: job(0, "running"), 1: job(1)}
    owner.scheduler = {"state": "draining", "cause": None}

    def end() -> None:
        owner.jobs[0] = job(0, "succeeded")
        owner.scheduler = paused()

    at_each_nap(monkeypatch, scheduler, lambda: None, end)
    told = gputui("drain")
    assert told.status == 0
    assert "1 job waiting" in told.err


def test_drain_need_not_wait(owner: FakeOwner, gputui: Gputui) -> None:
    owner.scheduler = {"state": "draining", "cause": None}
    assert gputui("drain", "--no-wait").status == 0


def test_a_drain_that_was_canceled_is_a_failure(owner: FakeOwner, gputui: Gputui) -> None:
    assert gputui("drain").status == 1


@pytest.mark.parametrize(
    ("ends", "status"), [(("succeeded", "succeeded"), 0), (("succeeded", "failed"), 1), (("killed", "succeeded"), 1)]
)
def test_the_status_of_wait_tells_how_jobs_ended(
    owner: FakeOwner, gputui: Gputui, ends: tuple[str, str], status: int
) -> None:
    owner.jobs = {0: job(0, "running"), 1: job(1)}

    def end() -> None:
        owner.jobs = {number: job(number, state) for number, state in enumerate(ends)}

    at_each_event(owner, lambda: None, end)
    assert gputui("wait").status == status


def test_wait_asks_again_only_when_something_has_happened(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0, "running")}
    at_each_event(owner, lambda: None, lambda: None, lambda: owner.jobs.update({0: job(0, "succeeded")}))
    assert gputui("wait").status == 0
    assert [ask.get("wait", 0.0) for ask in owner.asks("events")] == [0.0, 20.0, 20.0, 20.0]
    assert len(owner.asks("pick")) == 4


def test_wait_looks_at_the_jobs_again_only_when_they_may_have_ended(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0, "running"), 1: job(1, "running"), 2: job(2, "running")}
    events = [("ended", 1), ("started", 2), ("ended", 2), ("ended", 0)]

    def answer(fields: dict[str, Any]) -> dict[str, Any]:
        if "wait" not in fields:
            return {"events": [], "cursor": "log-0", "owned": True}
        kind, number = events.pop(0)
        if kind == "ended":
            owner.jobs[number] = job(number, "succeeded")
        event = {"event": kind, "time": 1.0, "job": number, "final": kind == "ended"}
        return {"events": [event], "cursor": "log-1", "owned": True}

    owner.answers["events"] = answer
    assert gputui("wait").status == 0
    assert len(owner.asks("pick")) == 2


def test_wait_for_some_ignores_others(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0, "succeeded"), 1: job(1), 2: job(2, "failed")}
    assert gputui("wait", "0").status == 0
    assert gputui("wait", "2").status == 1


def test_wait_for_any_ends_with_the_first(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0, "succeeded"), 1: job(1, "running")}
    assert gputui("wait", "--any", "0-1").status == 0


def test_wait_reports_a_pause_once(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs, owner.scheduler = {0: job(0)}, paused("crashes")

    def end() -> None:
        owner.jobs = {0: job(0, "succeeded")}

    at_each_event(owner, lambda: None, lambda: None, end)
    assert gputui("wait").err.count("paused") == 1


def test_wait_fails_without_a_scheduler(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs, owner.owner = {0: job(0)}, None
    told = gputui("wait")
    assert told.status == UNREACHABLE
    assert "gputui resume" in told.err


@pytest.mark.parametrize("words", [["wait", "9"], ["wait"]])
def test_waiting_for_no_jobs_is_an_error(owner: FakeOwner, gputui: Gputui, words: list[str]) -> None:
    assert gputui(*words).status == NOT_FOUND


# stop


def test_stop_asks_once_to_end_the_running_jobs_and_then_dismisses_the_daemon(
    owner: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.jobs = {0: job(0, "running"), 1: job(1, "stopping"), 2: job(2)}

    def end() -> None:
        owner.jobs = {number: job(number) for number in range(3)}

    at_each_nap(monkeypatch, stopping, lambda: None, end)
    told = gputui("stop")
    assert told.status == 0, told
    assert owner.events() == [{"type": "pause", "kind": "stopped"}]
    assert len(owner.asks("leave")) == 1
    assert "stopped, nothing left running; 3 jobs waiting" in told.out


def test_stop_names_an_app_that_does_not_exit(
    owner: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "OWNER_EXITS_WITHIN", 0.0)
    owner.owner = {"pid": os.getpid(), "kind": "app", "since": 0.0, "version": "1"}
    told = gputui("stop")
    assert told.status == 1
    assert f"pid {os.getpid()}, gputui app" in told.err
    assert [ask["stop"] for ask in owner.asks("leave")] == [True]


def test_stop_finds_processes_by_the_sessions_token(
    owner: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "OWNER_EXITS_WITHIN", 0.0)
    root = Client(str(owner.root)).root
    told_of = {"PATH": os.environ["PATH"], "GPUTUI_RUN": "s.3.1", "GPUTUI_SESSION": root, "GPUTUI_JOB_ID": "3"}
    leftover = subprocess.Popen(["sleep", "600"], env=told_of)
    other = subprocess.Popen(["sleep", "600"], env=told_of | {"GPUTUI_SESSION": root + "2"})
    script = "import time; time.sleep(600)"
    daemon = subprocess.Popen([sys.executable, "-c", script, "daemon", "--wait", root])
    try:
        until(lambda: len(list(find_leftover_processes(root))) == 2, "both are seen")
        told = gputui("stop")
        assert told.status == 1
        assert f"pid {leftover.pid}, of job 3: sleep 600" in told.err
        assert f"pid {daemon.pid}, a daemon" in told.err
        assert str(other.pid) not in told.err
    finally:
        for process in (leftover, other, daemon):
            process.kill()
            process.wait()
    assert gputui("stop").status == 0


def test_the_countdown_shows_the_rest_of_the_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputui.cli.commands.stop.time.time", lambda: 1000.0)
    jobs = [listed(job(number, "stopping", kill_at=1000.0 + number)) for number in range(7)]
    assert stopping.countdown(jobs, 3.0) == "stopping 7 running: #0, #1, #2, #3, #4 … · SIGKILL in 6 s"
    assert "for 3 s" in stopping.countdown([listed(job(0, "stopping"))], 3.0)
