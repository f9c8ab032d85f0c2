"""`gputui add --urgent` on a full machine: a job with a checkpoint is preempted and resumes later."""

from __future__ import annotations

from pathlib import Path

from support.sessions import Home
from support.waiting import until


def test_an_urgent_job_preempts_one_with_a_checkpoint_which_resumes_later(home: Home, tmp_path: Path) -> None:
    home.begin()
    home.resume()
    save = 'trap "echo saved >> $GPUTUI_CHECKPOINT_DIR/state; exit 143" TERM; echo ready; while :; do sleep 0.1; done'
    for words in (("--", "sleep 600"), ("--checkpoint", "--", save)):
        assert home.call("add", *words).returncode == 0
    until(lambda: len(home.ask("status")["active"]) == 2, "both slots are taken")
    until(lambda: (home.root / "job_1" / "job_1.OUT").read_text() == "ready\n", "it can save")
    go = tmp_path / "go"
    assert home.call("add", "--urgent", "--", f"until test -e {go}; do sleep 0.05; done").stdout == "2\n"
    until(lambda: home.ask("show", job=2)["state"] == "running", "the urgent one runs")
    preempted = home.ask("show", job=1)
    assert preempted["state"] == "queued"
    assert (home.root / "job_1" / "state").read_text() == "saved\n"
    assert "preempted by urgent #2" in str(preempted["history"])
    assert "preempting #1" in str(home.ask("show", job=2)["history"])
    assert home.ask("show", job=0)["attempt"] == 1, "a job without a checkpoint stays"
    go.touch()
    until(lambda: home.ask("show", job=1)["attempt"] == 2, "it runs again when a GPU is free")


def test_urgent_with_a_low_priority_is_refused(home: Home) -> None:
    home.begin()
    refused = home.call("add", "--urgent", "--priority", "50", "--", "true")
    assert refused.returncode == 2
    assert "--urgent needs priority 90 or higher, not 50" in refused.stderr
