"""A `run` on a session that another `run` has is a client: it adds, reports, waits, and answers for its own jobs."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest
from support.homes import Home
from support.sessions import Process
from support.waiting import until

from gputui.session.lock import OwnerKind


@pytest.fixture
def first(home: Home) -> Iterator[Process]:
    """The run that owns; its one job goes on until `go` is there."""
    gate = f"until test -e {home.folder}/go; do sleep 0.01; done; exit 3"
    with home.running("--pause-after", "0", home.write(gate, name="first.txt")) as run:
        until(lambda: home.database.exists() and home.ask("status")["active"], "it runs")
        yield run


def go(home: Home) -> None:
    (home.folder / "go").touch()


def test_it_adds_reports_and_answers_for_its_own_jobs(home: Home, first: Process) -> None:
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


def test_what_it_does_not_name_stays_as_the_owner_has_it(home: Home, first: Process) -> None:
    home.ask("begin", lanes=None, given=False, change_lanes=False, cpu_jobs=7, grace=11.0, resume=False)
    before = home.ask("status")["settings"]
    assert (before["cpu_jobs"], before["grace"]) == (7, 11.0)
    assert home.run(home.write(home.told("a"), name="good.txt")).returncode == 0
    assert home.ask("status")["settings"] == before


def test_ctrl_c_leaves_its_jobs_alone(home: Home, first: Process) -> None:
    second = home.start(
        home.write(home.told("a", f"until test -e {home.folder}/go; do sleep 0.01; done"), name="b.txt")
    )
    until(home.runs, "its job runs")
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 130
    assert "1 of its jobs go on or wait" in err
    assert "Traceback" not in err
    assert len(home.ask("status")["active"]) == 2
    go(home)
    assert first.wait(60) == 1
    home.gone()
    assert home.states() == ["failed", "succeeded"]


def test_what_it_reads_from_a_pipe_is_added_as_it_comes(home: Home, first: Process) -> None:
    with home.running("-", stdin=subprocess.PIPE) as second:
        assert second.stdin is not None
        second.stdin.write(home.told("a") + "\n")
        second.stdin.flush()
        until(lambda: home.runs()["a"], "the first line has run")
        _, err = second.communicate(home.told("b", "exit 1") + "\n", timeout=60)
        assert second.returncode == 1, err
        assert home.runs() == {"a": 1, "b": 1}


def test_it_goes_on_when_the_owner_is_killed(home: Home, first: Process) -> None:
    second = home.start(home.write(*(home.told(number, "sleep 0.1") for number in range(12)), name="b.txt"))
    until(home.runs, "its jobs run")
    first.kill()
    go(home)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    home.gone()
    assert home.runs() == {str(number): 1 for number in range(12)}


def test_it_starts_a_keeper_when_the_owner_dies_without_one(home: Home) -> None:
    with home.running("--no-keeper", home.write("exec sleep 600", name="first.txt")) as first:
        until(lambda: home.database.exists() and home.ask("status")["active"], "it runs")
        second = home.start(home.write(*(home.told(number, "sleep 0.1") for number in range(8)), name="b.txt"))
        until(home.runs, "its jobs run")
        first.kill()
        _, err = second.communicate(timeout=60)
        assert second.returncode == 0, err
        assert home.owner(OwnerKind.KEEPER) not in (first.pid, second.pid)
        assert home.runs() == {str(number): 1 for number in range(8)}
        home.end()


def test_it_leaves_when_the_scheduler_is_stopped(home: Home, first: Process) -> None:
    second = home.start(home.write("exec sleep 600", home.told("never"), name="b.txt"))
    until(lambda: len(home.ask("status")["active"]) == 2, "both run")
    first.terminate()
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "paused: stopped" in err
    assert first.wait(60) == 143
    home.gone()
    assert home.runs() == {}


def test_it_leaves_jobs_that_nothing_will_start(home: Home, first: Process) -> None:
    second = home.start(home.write("#: gpus=9", "true", name="b.txt"))
    until(lambda: len(home.ask("listing")["jobs"]) == 2, "it is added")
    go(home)
    _, err = second.communicate(timeout=60)
    assert (second.returncode, first.wait(60)) == (1, 1)
    assert "1 job waits: " in err
    assert "resume" not in err, "that would start nothing"


def test_without_jobs_of_its_own_it_says_so(home: Home, first: Process) -> None:
    done = home.run()
    assert done.returncode == 2
    assert "no jobs given" in done.stderr
