"""`gputui stop` ends the scheduler and its waiting daemon, and says so only when it is true."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from support.sessions import Home, Process, kill
from support.waiting import until

from gputui.core.events import Mode, PauseKind

STOPPED = "stopped, nothing left running"
Run = Callable[[Home], Process]


def on_a_pipe(home: Home) -> Process:
    run = home.start("-", stdin=subprocess.PIPE)
    assert run.stdin is not None
    run.stdin.write(home.told("a") + "\n")
    run.stdin.flush()
    until(home.runs, "its first job ran")
    return run


def following(home: Home, *words: str) -> Process:
    (home.directory / "queue").touch()
    run = home.start("--follow", home.directory / "queue", *words)
    until(home.ask_quietly, "it schedules")
    until(lambda: "slots" in home.ask("slots") and home.ask("sources"), "it follows the file")
    return run


def paused(home: Home) -> Process:
    run = following(home)
    home.command({"type": "pause", "kind": "user"})
    return run


def paused_by_crashes(home: Home) -> Process:
    run = following(home, "--pause-after", "1", "--wait-when-paused")
    (home.directory / "queue").write_text("false\ntrue\n")
    until(lambda: home.ask("status")["scheduler"]["cause"], "the crash has paused it")
    return run


@pytest.mark.parametrize("begin", [on_a_pipe, following, paused, paused_by_crashes], ids=lambda run: run.__name__)
def test_whatever_a_run_waits_for_it_ends_with_its_daemon(home: Home, begin: Run) -> None:
    run = begin(home)
    home.waiter()
    done = home.call("stop")
    assert done.returncode == 0, done
    assert STOPPED in done.stdout
    assert home.members() == []
    assert home.processes() == []
    run.communicate()


@pytest.mark.parametrize("begin", [paused, paused_by_crashes], ids=lambda run: run.__name__)
def test_a_paused_run_that_is_terminated_leaves_no_daemon(home: Home, begin: Run) -> None:
    run = begin(home)
    home.waiter()
    run.terminate()
    assert run.wait(60) == 143
    run.communicate()
    assert home.members() == []
    assert home.load().mode is Mode.PAUSED


def test_a_daemon_that_follows_a_file_ends_too(home: Home) -> None:
    run = paused(home)
    kill(run.pid)
    run.communicate()
    home.owner()
    assert STOPPED in home.call("stop").stdout
    assert home.members() == []


def test_errors_stay_the_cause_of_a_pause_after_stop(home: Home) -> None:
    run = paused_by_crashes(home)
    assert STOPPED in home.call("stop").stdout
    run.communicate()
    cause = home.load().cause
    assert cause is not None
    assert (cause.kind, cause.left) == (PauseKind.CRASHES, True)
