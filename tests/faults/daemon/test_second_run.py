"""A `run` that joins another one is a client: it adds jobs, waits and reports on its own jobs."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest
from support.sessions import Home, Process
from support.waiting import until

from gputui.session.lock import OwnerKind


@pytest.fixture
def first(home: Home) -> Iterator[Process]:
    """The run that schedules; its only job runs until the file `go` exists."""
    gate = f"until test -e {home.directory}/go; do sleep 0.01; done; exit 3"
    with home.running("--pause-after", "0", home.write(gate, name="first.txt")) as run:
        until(lambda: home.database.exists() and home.ask("status")["active"], "it runs")
        yield run


def go(home: Home) -> None:
    (home.directory / "go").touch()


def test_it_adds_and_reports_its_own_jobs(home: Home, first: Process) -> None:
    done = home.run(home.write(home.told("a"), home.told("b"), name="good.txt"))
    assert done.returncode == 0
    assert f"open in gputui run (pid {first.pid})" in done.stderr
    assert "2 in good.txt: 2 new." in done.stderr
    assert done.stdout.count("Processing command") == 2
    assert done.stdout.count("succeeded") == 2
    assert home.run(home.write("true", "exit 5", name="bad.txt")).returncode == 1
    go(home)
    assert first.wait(60) == 1
    assert home.runs() == {"a": 1, "b": 1}


def test_settings_that_it_does_not_name_stay(home: Home, first: Process) -> None:
    home.ask(
        "begin", slots=None, given=False, change_slots=False, settings={"cpu_jobs": 7, "grace": 11.0}, resume=False
    )
    before = home.ask("status")["settings"]
    assert (before["cpu_jobs"], before["grace"]) == (7, 11.0)
    assert home.run(home.write(home.told("a"), name="good.txt")).returncode == 0
    assert home.ask("status")["settings"] == before


def test_ctrl_c_leaves_its_jobs_alone(home: Home, first: Process) -> None:
    second = home.start(
        home.write(home.told("a", f"until test -e {home.directory}/go; do sleep 0.01; done"), name="b.txt")
    )
    until(home.runs, "its job runs")
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 130
    assert "detached; 1 of its jobs unfinished" in err
    assert "Traceback" not in err
    assert len(home.ask("status")["active"]) == 2
    go(home)
    assert first.wait(60) == 1
    home.gone()
    assert home.states() == ["failed", "succeeded"]


def test_lines_of_a_pipe_are_added_as_they_come(home: Home, first: Process) -> None:
    with home.running("-", stdin=subprocess.PIPE) as second:
        assert second.stdin is not None
        second.stdin.write(home.told("a") + "\n")
        second.stdin.flush()
        until(lambda: home.runs()["a"], "the first line has run")
        _, err = second.communicate(home.told("b", "exit 1") + "\n", timeout=60)
        assert second.returncode == 1, err
        assert home.runs() == {"a": 1, "b": 1}


@pytest.mark.parametrize("daemon", [[], ["--no-daemon"]], ids=["daemon", "no daemon"])
def test_it_continues_under_a_daemon_when_the_first_run_is_killed(home: Home, daemon: list[str]) -> None:
    with home.running(*daemon, home.write("exec sleep 600", name="first.txt")) as first:
        until(lambda: home.database.exists() and home.ask("status")["active"], "it runs")
        second = home.start(home.write(*(home.told(number, "sleep 0.1") for number in range(8)), name="b.txt"))
        until(home.runs, "its jobs run")
        first.kill()
        _, err = second.communicate(timeout=60)
        assert second.returncode == 0, err
        assert home.owner(OwnerKind.DAEMON) not in (first.pid, second.pid)
        assert home.runs() == {str(number): 1 for number in range(8)}
        home.end()


def test_it_exits_when_the_scheduler_is_stopped(home: Home, first: Process) -> None:
    second = home.start(home.write("exec sleep 600", home.told("never"), name="b.txt"))
    until(lambda: len(home.ask("status")["active"]) == 2, "both run")
    first.terminate()
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "paused: stopped" in err
    assert first.wait(60) == 143
    home.gone()
    assert home.runs() == {}


def test_it_does_not_wait_for_jobs_that_cannot_start(home: Home, first: Process) -> None:
    second = home.start(home.write("#: gpus=9", "true", name="b.txt"))
    until(lambda: len(home.ask("listing")["jobs"]) == 2, "it is added")
    go(home)
    _, err = second.communicate(timeout=60)
    assert (second.returncode, first.wait(60)) == (1, 1)
    assert "1 job waiting: " in err
    assert "resume" not in err, "that would start nothing"


def test_without_jobs_it_says_so(home: Home, first: Process) -> None:
    done = home.run()
    assert done.returncode == 2
    assert "no jobs given" in done.stderr
