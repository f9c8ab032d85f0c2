"""The session directory is removed, moved or replaced under a live scheduler: what replaces it is not touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.sessions import Home, alive, kill
from support.waiting import remove_under_its_owner, until

from gputui.cli.output import UNREACHABLE
from gputui.process.directories import DirectoryId, directories_held
from gputui.session.session_dir import Paths


def gated(home: Home, label: str, gate: str) -> str:
    """Return a job that ends when the gate exists."""
    return home.told(label, f"until test -e '{home.directory}/{gate}'; do sleep 0.01; done")


def detached(home: Home, *commands: str) -> int:
    """Start these jobs, of which the first runs, and return the pid of the daemon that schedules them."""
    home.killed_run(home.write(*commands), gpus="0")
    return home.owner()


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "moved"])
def test_a_new_session_in_the_old_place_runs_each_of_its_jobs_once(home: Home, removed: bool) -> None:
    daemon = detached(home, gated(home, "old", "go"), *(home.told(f"old{number}") for number in range(8)))
    if removed:
        remove_under_its_owner(home.root)
    else:
        os.rename(home.root, home.directory / "elsewhere")
    new = (gated(home, "new0", "go on"), *(home.told(f"new{number}") for number in range(1, 8)))
    run = home.start(home.write(*new, name="new.txt"), gpus="0")
    until(lambda: home.runs()["new0"], "the first of the new jobs runs")
    (home.directory / "go").touch()
    until(lambda: not alive(daemon), "the old daemon has gone")
    (home.directory / "go on").touch()
    _, err = run.communicate()
    assert run.returncode == 0, err
    assert home.runs() == {"old": 1, **{f"new{number}": 1 for number in range(8)}}
    assert home.states() == ["succeeded"] * 8
    assert [home.output(number) for number in range(8)] == [""] * 8
    assert home.claims() == []


def test_a_scheduler_whose_directory_was_moved_says_so_and_its_daemon_exits(home: Home) -> None:
    run = home.start(home.write(gated(home, "a", "go"), home.told("b")), gpus="0")
    until(lambda: len(home.runs()) == 1, "the first job runs")
    waiter = home.waiter()
    os.rename(home.root, home.directory / "elsewhere")
    _, err = run.communicate()
    assert run.returncode == UNREACHABLE
    assert f"session directory {home.root} was moved, removed or replaced" in err
    assert "gputui --session DIR" in err
    until(lambda: not alive(waiter), "its daemon has gone")
    assert not home.root.exists()
    (home.directory / "go").touch()


def test_a_moved_session_continues_in_its_new_place(home: Home) -> None:
    daemon = detached(home, gated(home, "a", "go") + "; exit 3", home.told("b"))
    moved = Home(home.directory, "elsewhere")
    os.rename(home.root, moved.root)
    try:
        until(lambda: not alive(daemon), "the daemon has exited")
        run = moved.start(gpus="0")
        moved.waiter()
        (home.directory / "go").touch()
        run.communicate()
        assert run.returncode == 1
        assert moved.states() == ["failed", "succeeded"]
        assert moved.last(0).exit_code == 3
        assert home.runs() == {"a": 1, "b": 1}
    finally:
        moved.end()


def test_a_waiting_daemon_does_not_touch_a_session_in_the_old_place(home: Home) -> None:
    run = home.start(home.write(gated(home, "a", "go")), gpus="0")
    until(lambda: len(home.runs()) == 1, "the job runs")
    waiter = home.waiter()
    os.rename(home.root, home.directory / "elsewhere")
    Paths(str(home.root)).create()
    kill(run.pid)
    run.communicate()
    until(lambda: not alive(waiter), "the daemon has gone")
    assert (home.private / "lock").read_bytes() == b"", "the daemon has not signed it"
    assert not (home.private / "session.db").exists()
    (home.directory / "go").touch()


def test_wrappers_hold_the_session_directory_and_commands_do_not(home: Home) -> None:
    run = home.start(home.write(home.told("a", "ls -l /proc/self/fd; sleep 600")), gpus="0")
    until(lambda: home.runs() and home.output(0), "the job runs")
    assert directories_held(home.claim_pid(0)) == {DirectoryId.of(str(home.private))}
    assert ".gputui" not in home.output(0)
    kill(run.pid)
    run.communicate()


def test_a_moved_session_gets_what_its_jobs_write(home: Home) -> None:
    detached(home, gated(home, "a", "go") + "; echo over; exit 5")
    elsewhere = home.directory / "elsewhere"
    os.rename(home.root, elsewhere)
    home.root.mkdir()
    (home.directory / "go").touch()
    out = Path(elsewhere / "job_0" / "job_0.OUT")
    until(lambda: out.read_text() == "over\n", "the job is over")
    until(lambda: not home.processes(), "its wrapper too")
    left = (elsewhere / ".gputui" / "claims" / "0.1").exists(), (elsewhere / "job_0" / "FAILURE").exists()
    assert any(left)
    assert list(home.root.iterdir()) == []


def test_removed_claims_neither_stall_nor_repeat_running_jobs(home: Home) -> None:
    daemon = detached(home, gated(home, "a", "go") + "; exit 3", home.told("b"))
    shutil.rmtree(home.claims_directory)
    waiter = home.waiter()
    kill(waiter)
    kill(daemon)
    until(lambda: not alive(daemon), "there is no scheduler")
    home.ask("listing")
    (home.directory / "go").touch()
    run = home.start(gpus="0")
    run.communicate()
    assert home.runs() == {"a": 1, "b": 1}
    assert home.states() == ["failed", "succeeded"]
    assert home.last(0).exit_code == 3
