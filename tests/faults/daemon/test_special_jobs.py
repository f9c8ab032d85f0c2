"""Hung jobs, jobs that run out of GPU memory and urgent jobs, also while their scheduler is replaced."""

from __future__ import annotations

import signal
from pathlib import Path

from support.sessions import Home, kill, stop
from support.waiting import until

from gputui.session.lock import OwnerKind

# A hung job, while its scheduler dies and while it is suspended


def test_the_next_scheduler_knows_since_when_a_job_hangs(home: Home, tmp_path: Path) -> None:
    go = tmp_path / "go"
    silent = f"until test -e {go}; do sleep 1; done; echo here I am; sleep 600"
    run = home.start(home.write("#: hang_after=2s", silent), "--pause-after", "0", gpus="0")
    until(lambda: home.database.exists() and _since(home) is not None, "it is reported as hung")
    since = _since(home)
    owner = home.owner(OwnerKind.RUN)
    home.has_waiter(owner)
    kill(run.pid)
    run.communicate()
    home.owner(OwnerKind.DAEMON)
    assert _since(home) == since
    home.command({"type": "suspend", "job": 0})
    assert _since(home) is None, "a suspended job is not hung"
    home.command({"type": "continue", "job": 0})
    until(lambda: _since(home) is not None, "it still hangs")
    go.touch()
    until(lambda: _since(home) is None, "it prints again")


def _since(home: Home) -> float | None:
    shown = home.ask("listing")["jobs"]
    since: float | None = shown[0]["silent_since"] if shown else None
    return since


# A job that runs out of GPU memory beside another one is retried alone on its GPU


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB"


def neighbour_and_big_job(home: Home) -> str:
    """The first stays on the GPU until the file `go` exists; the second fills it when there is `crash`."""
    (home.directory / "big.sh").write_text(
        "while [ ! -e crash ]; do sleep 0.05; done\n"
        f'if [ "$GPUTUI_ATTEMPT" = 1 ]; then echo "{OOM}" >&2; exit 1; fi\n'
        "[ -e neighbour.gone ] && echo alone >>ran\n"
    )
    neighbour = "touch neighbour; while [ ! -e go ]; do sleep 0.05; done; touch neighbour.gone"
    return str(home.write(neighbour, "sh big.sh"))


def test_the_next_scheduler_decides_if_the_first_is_killed_before_recording_the_end(home: Home) -> None:
    run = home.start(neighbour_and_big_job(home), "--pause-after", "1", gpus="0,0")
    until(lambda: (home.directory / "neighbour").exists(), "the neighbour runs")
    until(lambda: home.ask("show", job=1)["state"] == "running", "the big one runs")
    stop(run.pid)
    (home.directory / "crash").touch()
    claim = home.claims_directory / "1.1"
    until(lambda: claim.exists() and "exit 1" in claim.read_text(), "the wrapper has recorded the end")
    kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=60)
    until(lambda: "to itself" in str(home.ask("show", job=1)["why"]), "the job waits for a GPU of its own")
    (home.directory / "go").touch()
    until(lambda: home.ask("show", job=1)["state"] == "succeeded", "it ran alone")
    assert (home.directory / "ran").read_text() == "alone\n"
    history = str(home.ask("show", job=1)["history"])
    assert "alone on its GPU" in history
    assert "attempt 2 succeeded" in history
    assert home.ask("status")["scheduler"]["cause"] is None


# `gputui add --urgent` on a full machine: a job with a checkpoint is preempted and resumes later


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
