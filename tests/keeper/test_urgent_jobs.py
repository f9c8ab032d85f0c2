"""`gputui add --urgent` on a full machine: a job that can go on later gives way, and goes on later."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.homes import Home
from support.sessions import GPUTUI
from support.waiting import until


def add(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    call = [*map(str, GPUTUI), "add", "--session", str(home.root), *words]
    return subprocess.run(call, cwd=home.folder, capture_output=True, text=True, check=False)


def test_an_urgent_job_runs_at_once_and_the_one_that_gave_way_goes_on_with_its_checkpoint(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.begin()
    home.resume()
    save = 'trap "echo saved >> $GPUTUI_CHECKPOINT_DIR/state; exit 143" TERM; echo begun; while :; do sleep 0.1; done'
    try:
        for words in (("--", "sleep 600"), ("--checkpoint", "--", save)):
            assert add(home, *words).returncode == 0
        until(lambda: len(home.ask("status")["active"]) == 2, "both lanes are taken")
        until(lambda: (home.root / "job_1" / "job_1.OUT").read_text() == "begun\n", "it can save by now")
        go = tmp_path / "go"
        assert add(home, "--urgent", "--", f"until test -e {go}; do sleep 0.05; done").stdout == "2\n"
        until(lambda: home.ask("show", job=2)["state"] == "running", "the urgent one runs")
        gave_way = home.ask("show", job=1)
        assert gave_way["state"] == "queued"
        assert (home.root / "job_1" / "state").read_text() == "saved\n"
        assert "gives way to #2, which is urgent" in str(gave_way["story"])
        assert "#1 gives way to it" in str(home.ask("show", job=2)["story"])
        assert home.ask("show", job=0)["attempt"] == 1, "who declared nothing stays"
        go.touch()
        until(lambda: home.ask("show", job=1)["attempt"] == 2, "it goes on when there is room again")
    finally:
        home.end()


def test_urgent_with_a_low_priority_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.begin()
    said = add(home, "--urgent", "--priority", "50", "--", "true")
    assert said.returncode == 2
    assert "--urgent needs a priority of at least 90, not 50" in said.stderr
