"""A job that runs out of GPU memory beside another one is retried alone on its GPU."""

from __future__ import annotations

import signal

from support.sessions import Home, kill, stop
from support.waiting import until

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
