"""The session's folder is removed, moved or replaced under a living owner: what comes in its place is not touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.homes import Home, kill
from support.sessions import alive
from support.waiting import remove_under_its_owner, until

from gputui.process.directories import FolderId, folders_held
from gputui.session.session_dir import Paths


def gated(home: Home, label: str, gate: str) -> str:
    """A job that says that it ran and ends when the gate is there."""
    return home.told(label, f"until test -e '{home.folder}/{gate}'; do sleep 0.01; done")


def detached(home: Home, *commands: str) -> int:
    """The pid of a keeper that owns a session with these jobs, the first of which runs."""
    run = home.start(home.write(*commands), gpus="0")
    until(lambda: len(home.runs()) == 1, "the first job runs")
    home.waiter()
    run.kill()
    run.communicate()
    return home.owner()


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "moved"])
def test_a_new_session_in_the_old_ones_place_runs_every_job_of_its_own_once(home: Home, removed: bool) -> None:
    keeper = detached(home, gated(home, "old", "go"), *(home.told(f"old{number}") for number in range(8)))
    if removed:
        remove_under_its_owner(home.root)
    else:
        os.rename(home.root, home.folder / "elsewhere")
    new = (gated(home, "new0", "go on"), *(home.told(f"new{number}") for number in range(1, 8)))
    run = home.start(home.write(*new, name="new.txt"), gpus="0")
    until(lambda: home.runs()["new0"], "the first of the new jobs runs")
    (home.folder / "go").touch()
    until(lambda: not alive(keeper), "the old keeper has gone")
    (home.folder / "go on").touch()
    _, err = run.communicate()
    assert run.returncode == 0, err
    assert home.runs() == {"old": 1, **{f"new{number}": 1 for number in range(8)}}
    assert home.states() == ["succeeded"] * 8
    assert [home.output(number) for number in range(8)] == [""] * 8
    assert home.claims() == []


def test_an_owner_whose_folder_was_taken_away_says_so_and_its_waiting_keeper_goes(home: Home) -> None:
    run = home.start(home.write(gated(home, "a", "go"), home.told("b")), gpus="0")
    until(lambda: len(home.runs()) == 1, "the first job runs")
    waiter = home.waiter()
    os.rename(home.root, home.folder / "elsewhere")
    _, err = run.communicate()
    assert run.returncode == 1
    assert f"the session's folder {home.root} was moved, removed or replaced" in err
    assert "gputui --session DIR" in err
    until(lambda: not alive(waiter), "its keeper has gone")
    assert not home.root.exists()
    (home.folder / "go").touch()


def test_a_session_that_was_moved_goes_on_at_its_new_place(home: Home) -> None:
    keeper = detached(home, gated(home, "a", "go") + "; exit 3", home.told("b"))
    moved = Home(home.folder, "elsewhere")
    os.rename(home.root, moved.root)
    try:
        until(lambda: not alive(keeper), "the keeper has gone")
        run = moved.start(gpus="0")
        moved.waiter()
        (home.folder / "go").touch()
        run.communicate()
        assert run.returncode == 1
        assert moved.states() == ["failed", "succeeded"]
        assert moved.last(0).exit_code == 3
        assert home.runs() == {"a": 1, "b": 1}
    finally:
        moved.end()


def test_a_waiting_keeper_leaves_a_session_alone_that_took_the_olds_place(home: Home) -> None:
    run = home.start(home.write(gated(home, "a", "go")), gpus="0")
    until(lambda: len(home.runs()) == 1, "the job runs")
    waiter = home.waiter()
    os.rename(home.root, home.folder / "elsewhere")
    Paths(str(home.root)).create()
    kill(run.pid)
    run.communicate()
    until(lambda: not alive(waiter), "the keeper has gone")
    assert (home.private / "lock").read_bytes() == b"", "it has signed nothing"
    assert not (home.private / "session.db").exists()
    (home.folder / "go").touch()


def test_every_wrapper_holds_its_sessions_folder_and_no_command_does(home: Home) -> None:
    run = home.start(home.write(home.told("a", "ls -l /proc/self/fd; sleep 600")), gpus="0")
    until(lambda: home.runs() and home.output(0), "the job runs")
    assert folders_held(home.claim_pid(0)) == {FolderId.of(str(home.private))}
    assert ".gputui" not in home.output(0)
    kill(run.pid)
    run.communicate()


def test_what_is_written_while_the_folder_has_another_name_lands_in_the_folder(home: Home) -> None:
    """A job's end, its log and its notes belong to the session that started it, wherever that is now."""
    detached(home, gated(home, "a", "go") + "; echo over; exit 5")
    elsewhere = home.folder / "elsewhere"
    os.rename(home.root, elsewhere)
    home.root.mkdir()
    (home.folder / "go").touch()
    out = Path(elsewhere / "job_0" / "job_0.OUT")
    until(lambda: out.read_text() == "over\n", "the job is over")
    until(lambda: not home.processes(), "its wrapper too")
    left = (elsewhere / ".gputui" / "claims" / "0.1").exists(), (elsewhere / "job_0" / "FAILURE").exists()
    assert any(left)
    assert list(home.root.iterdir()) == []


def test_a_folder_of_claims_that_is_removed_while_silent_jobs_run_neither_stalls_nor_doubles_them(home: Home) -> None:
    keeper = detached(home, gated(home, "a", "go") + "; exit 3", home.told("b"))
    shutil.rmtree(home.claims_folder)
    waiter = home.waiter()
    kill(waiter)
    kill(keeper)
    until(lambda: not alive(keeper), "nobody owns")
    home.ask("listing")
    (home.folder / "go").touch()
    run = home.start(gpus="0")
    run.communicate()
    assert home.runs() == {"a": 1, "b": 1}
    assert home.states() == ["failed", "succeeded"]
    assert home.last(0).exit_code == 3
