"""No room for a further thread or process: whoever owns answers, leaves when told to, and loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.apps import SIZE, at_home, restored
from support.homes import Home, reap
from support.limits import Limit, few_processes, little_memory
from support.sessions import GPUTUI, VICTIM, Process, finished
from support.terminal import recorded
from support.waiting import until

JOBS = 8
"""All at once, so that several are started by one turn."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.end()
    reap()


def start(home: Home, limit: Limit) -> Process:
    jobs = home.write(*(home.told(job, "sleep 0.05") for job in range(JOBS)))
    words = [*GPUTUI, "run", "--gpus", f"0x{JOBS}", "--pause-after", "0", "--output-dir", str(home.root), str(jobs)]
    return subprocess.Popen(
        [*limit.words, *words],
        cwd=home.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def has_tried_again(home: Home) -> bool:
    """An attempt that found no room was followed by another."""
    if not home.ask_quietly():
        return False
    return any(job["attempt"] > 1 for job in home.ask("listing")["jobs"])


def it_leaves_and_the_rest_is_done_without_the_limit(home: Home, limit: Limit) -> None:
    run = start(home, limit)
    until(lambda: run.poll() is not None or has_tried_again(home), "it has ended, or waits for room")
    run.send_signal(signal.SIGINT)  # drain: what runs goes on to its end, nothing new starts
    done = finished(run)
    assert "Traceback" not in done.stderr, done.stderr
    limit.lift()
    again = finished(start(home, Limit(())))
    assert again.returncode == 0, again.stderr
    home.gone()
    assert home.runs() == {str(job): 1 for job in range(JOBS)}
    assert {job.state.name for job in home.jobs()} == {"succeeded"}
    assert home.claims() == []


@pytest.mark.parametrize("most", [1, 2, 5, 9, 16])
def test_with_few_processes_nothing_hangs_and_every_job_runs_once(home: Home, most: int) -> None:
    with few_processes(most) as limit:
        try:
            it_leaves_and_the_rest_is_done_without_the_limit(home, limit)
        finally:
            limit.lift()
            home.end()


@pytest.mark.parametrize("megabytes", [18, 20, 25, 30, 35, 45, 60, 120])
def test_with_little_memory_nothing_hangs_and_every_job_runs_once(home: Home, megabytes: int) -> None:
    it_leaves_and_the_rest_is_done_without_the_limit(home, little_memory(1000 * megabytes))


def test_a_keeper_that_takes_over_where_there_is_little_room_schedules_on(home: Home) -> None:
    """All the room there is, is what the killed owner had."""
    gate = home.folder / "gate"
    waits = f"until test -e {gate}; do sleep 0.05; done"
    jobs = home.write(home.told(0, waits), home.told(1, waits), "exit 7")
    words = [*GPUTUI, "run", "--gpus", "0,1", "--output-dir", str(home.root), str(jobs)]
    with few_processes(60) as limit:
        run = subprocess.Popen([*limit.words, *words], cwd=home.folder, stderr=subprocess.DEVNULL, stdout=-3)
        keeper = home.waiter()
        until(lambda: home.runs() == {"0": 1, "1": 1}, "both jobs run")
        limit.close_in()
        run.kill()
        run.wait()
        assert home.owner() == keeper
        gate.touch()
        until(lambda: home.ask("listing", jobs=[2])["jobs"][0]["state"] == "failed", "the keeper starts the next")
        limit.lift()
        home.gone()
    assert [job.attempts[-1].exit_code for job in home.jobs()] == [0, 0, 7]


BROKEN = {"step": "watched", "nth": 1, "raise": True, "bad_closing": True}
"""A defect ends the owner's thread, and another one meets it at its closing."""


def test_a_run_whose_owner_fails_twice_ends_and_frees_the_session(home: Home) -> None:
    orders = {**os.environ, "VICTIM": json.dumps({**BROKEN, "tally": str(home.folder / "tally")})}
    words = [*VICTIM, "run", "--gpus", "0", "--output-dir", str(home.root), str(home.write("sleep 600", "true"))]
    run = subprocess.run(words, cwd=home.folder, env=orders, capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert "the scheduler failed; its jobs run on: RuntimeError: a defect" in run.stderr
    home.owner()
    until(lambda: home.ask("status")["counts"] == {"running": 1, "queued": 1}, "the keeper has all of it")


def test_an_app_whose_owner_fails_twice_says_so_and_leaves_the_terminal_clean(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        orders = {"VICTIM": json.dumps({**BROKEN, "tally": str(home.folder / "tally")})}
        words = home.words(home.write("sleep 600", "true"), gpus="cpu:1")[len(GPUTUI) :]
        with recorded([*VICTIM, *words], size=SIZE, cwd=home.folder, env=orders) as terminal:
            assert terminal.status() == 1
            assert "the scheduler failed; its jobs run on: RuntimeError: a defect" in terminal.text
            restored(terminal)
        home.owner()
        until(lambda: home.counts() == {"running": 1, "queued": 1}, "the keeper has all of it")
