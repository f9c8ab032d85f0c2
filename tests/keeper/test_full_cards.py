"""A job that runs out of memory beside another on its card runs once more alone, whoever owns the session by then."""

from __future__ import annotations

import json
import signal
import subprocess

from support.homes import Home, kill, stop
from support.sessions import GPUTUI
from support.waiting import until

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB"


def neighbour_and_big_job(home: Home) -> str:
    """The first stays on the card until the file `go` is there; the second fills it when there is `crash`."""
    (home.folder / "big.sh").write_text(
        "while [ ! -e crash ]; do sleep 0.05; done\n"
        f'if [ "$GPUTUI_ATTEMPT" = 1 ]; then echo "{OOM}" >&2; exit 1; fi\n'
        "[ -e neighbour.gone ] && echo alone >>ran\n"
    )
    neighbour = "touch neighbour; while [ ! -e go ]; do sleep 0.05; done; touch neighbour.gone"
    return str(home.write(neighbour, "sh big.sh"))


def shown(home: Home, job: int) -> dict[str, object]:
    words = [*GPUTUI, "show", str(job), "--json", "--session", str(home.root)]
    answer: dict[str, object] = json.loads(subprocess.run(words, capture_output=True, text=True).stdout or "{}")
    return answer


def both_run(home: Home) -> None:
    until(lambda: (home.folder / "neighbour").exists(), "the neighbour runs")
    until(lambda: shown(home, 1).get("state") == "running", "the big one runs")


def waits_alone(home: Home) -> None:
    until(lambda: "to itself" in str(shown(home, 1).get("why")), "the job waits for a card to itself")


def test_it_succeeds_alone_on_its_second_attempt_and_the_queue_is_not_paused(home: Home) -> None:
    run = home.start(neighbour_and_big_job(home), "--pause-after", "1", gpus="0,0")
    both_run(home)
    (home.folder / "crash").touch()
    waits_alone(home)
    (home.folder / "go").touch()
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    assert (home.folder / "ran").read_text() == "alone\n"
    story = str(shown(home, 1)["story"])
    assert "alone on its card" in story
    assert "attempt 2 succeeded" in story


def test_an_owner_killed_between_the_end_and_its_record_leaves_the_decision_to_the_next(home: Home) -> None:
    run = home.start(neighbour_and_big_job(home), "--pause-after", "1", gpus="0,0")
    both_run(home)
    stop(run.pid)
    (home.folder / "crash").touch()
    until(lambda: "exit 1" in _claim(home), "the wrapper wrote how it ended")
    kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=60)
    waits_alone(home)
    (home.folder / "go").touch()
    until(lambda: shown(home, 1)["state"] == "succeeded", "it ran alone")
    assert (home.folder / "ran").read_text() == "alone\n"


def _claim(home: Home) -> str:
    claim = home.claims_folder / "1.1"
    return claim.read_text() if claim.exists() else ""
