"""A `gputui run` with jobs that others add to its session, and under nohup."""

from __future__ import annotations

import signal
import subprocess

from support.sessions import ALONE, GPUTUI, Home, finished
from support.waiting import until


def test_a_run_names_the_daemon_that_runs_the_jobs_of_others(home: Home) -> None:
    run = home.start(home.write(home.told("mine", home.waits)), gpus="0")
    until(home.runs, "the job runs")
    waiter = home.waiter()
    assert home.call("add", "--", home.told("other", "sleep 2")).returncode == 0
    home.gate.touch()
    done = finished(run)
    assert done.returncode == 0
    told = f"1 other job of this session continues under daemon {waiter}. Reattach: gputui --session"
    assert told in done.stderr
    home.gone("the daemon has done the rest and left")
    assert home.runs() == {"mine": 1, "other": 1}


def test_a_run_without_a_daemon_waits_for_what_others_added(home: Home) -> None:
    run = home.start(home.write(home.told("mine", home.waits)), *ALONE, gpus="0")
    until(home.runs, "the job runs")
    assert home.call("add", "--", home.told("other", "sleep 1; exit 7")).returncode == 0
    home.gate.touch()
    done = finished(run)
    assert done.returncode == 0, "the status is that of the jobs it was given"
    assert home.runs() == {"mine": 1, "other": 1}
    assert home.states() == ["succeeded", "failed"]


def test_a_hang_up_that_was_ignored_when_it_began_stays_ignored(home: Home) -> None:
    line = [*GPUTUI, "run", "--gpus", "0", "--output-dir", str(home.root), home.write(home.told("a", home.waits))]
    run = subprocess.Popen(
        ["nohup", *map(str, line)], cwd=home.directory, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    until(home.runs, "the job runs")
    run.send_signal(signal.SIGHUP)
    run.send_signal(signal.SIGUSR1)
    until(lambda: home.ask("status")["scheduler"]["state"] == "draining", "the signal that came after it is obeyed")
    home.gate.touch()
    done = finished(run)
    assert done.returncode == 130, done
    assert home.states() == ["succeeded"]
