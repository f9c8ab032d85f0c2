"""Failures in unattended sessions: every job is run in the end, and a broken group does not take all slots."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.sessions import GPUTUI, Home, Session
from support.waiting import until

from gputui.core.job import Job

SLOTS = 4


def sweep(session: Session, jobs: int = 60, broken: range = range(16, 28)) -> Path:
    """A sweep whose jobs of one model all crash; a sweep of those that come after each other, as grids are."""
    crash = "echo 'RuntimeError: mat1 and mat2 shapes cannot be multiplied' >&2; exit 1"
    lines = [
        f"MODEL={'vit' if number in broken else 'resnet'} SEED={number}; "
        + session.told(number, crash if number in broken else "sleep 0.05")
        for number in range(jobs)
    ]
    return session.write(*lines)


def check_all_ran(session: Session, jobs: int = 60, broken: range = range(16, 28)) -> None:
    assert session.runs() == {str(number): 1 for number in range(jobs)}
    known = session.jobs()
    assert [job.state.name for job in known] == [
        "failed" if number in broken else "succeeded" for number in range(jobs)
    ]
    assert most_at_once(known, broken) <= SLOTS
    crashed_before = crashed_before_caution(known, broken)
    assert crashed_before <= 3 + SLOTS, f"{crashed_before} crashed before it went cautious"


def most_at_once(jobs: list[Job], broken: range) -> int:
    runs = [(jobs[number].attempts[0].started, jobs[number].attempts[0].ended) for number in broken]
    return max(sum(began <= moment < ended for began, ended in runs) for moment, _ in runs)


def crashed_before_caution(jobs: list[Job], broken: range) -> int:
    """How many of the kind began before the third of them had ended."""
    attempts = [jobs[number].attempts[0] for number in broken]
    third = sorted(attempt.ended for attempt in attempts)[2]
    return sum(attempt.started <= third for attempt in attempts)


def test_sixty_jobs_of_which_twelve_fail_are_all_run_by_run(session: Session) -> None:
    done = session.run(sweep(session), gpus="cpu:4")
    assert done.returncode == 1
    said = next(line for line in done.stderr.splitlines() if "one at a time" in line)
    assert "jobs failed: RuntimeError: mat1" in said
    assert said.endswith("running one at a time until one succeeds")
    assert "paused" not in said
    assert "succeeded: resuming" in done.stderr
    assert "12 of 60 jobs failed" in done.stderr
    check_all_ran(session)


def test_sixty_jobs_of_which_twelve_fail_are_all_run_by_a_daemon(home: Home) -> None:
    jobs = sweep(home)
    words = [*GPUTUI, "run", "--gpus", "cpu:4", "--output-dir", str(home.root), "--probe", "0.3", str(jobs)]
    owner = subprocess.Popen(words, cwd=home.directory, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until(lambda: home.lines.exists(), "it has begun")
    owner.kill()  # nobody is there any more but its daemon
    owner.wait()
    until(lambda: sum(home.runs().values()) == 60, "all sixty have run")
    until(lambda: not home.ask("status")["active"], "the last one has ended")
    home.end()
    check_all_ran(home)


def test_jobs_that_all_fail_are_all_run_and_counted(session: Session) -> None:
    jobs = session.write(*(session.told(number, "exit 3") for number in range(12)))
    done = session.run(jobs, gpus="cpu:4")
    assert (done.returncode, session.states()) == (1, ["failed"] * 12)
    assert "12 of 12 jobs failed" in done.stderr


@pytest.mark.parametrize(("flags", "ran"), [(["--fail-fast"], 1), (["--pause-after", "2"], 2)])
def test_a_limit_that_is_named_ends_the_run(session: Session, flags: list[str], ran: int) -> None:
    jobs = session.write(*(session.told(number, "exit 3") for number in range(5)))
    done = session.run(jobs, *flags, gpus="cpu:1")
    assert done.returncode == 1
    assert f"{ran} of 5 jobs failed, {5 - ran} were not run" in done.stderr
    assert session.states() == ["failed"] * ran + ["queued"] * (5 - ran)


def test_a_limit_and_a_probe_are_both_obeyed(session: Session) -> None:
    jobs = session.write(*(session.told(number, "exit 3") for number in range(4)))
    session.run(jobs, "--fail-fast", "--probe", "0", gpus="cpu:1")
    assert session.states() == ["failed"] * 4


def gputui(home: Home, *words: str) -> str:
    done = home.call(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_ten_jobs_without_a_module_are_one_error_and_one_command_fixes_them(home: Home) -> None:
    """Under different paths, so that their messages differ but for what matters."""
    for number in range(10):
        directory = home.directory / f"run{number}"
        directory.mkdir()
        (directory / "train.py").write_text("import lab_settings\n")
    missing = home.directory / "modules"
    missing.mkdir()
    python = f"PYTHONPATH={missing} python3"
    jobs = home.write(*(f"{python} {home.directory}/run{number}/train.py" for number in range(10)))
    done = home.run(jobs, gpus="cpu:4")
    assert "10 of 10 jobs failed" in done.stderr
    (paused,) = json.loads(gputui(home, "ls", "--json"))["scheduler"]["paused"]
    assert paused["message"] == "10 jobs failed: ModuleNotFoundError: No module named 'lab_settings'"
    assert sorted(paused["jobs"]) == list(range(10))
    (missing / "lab_settings.py").write_text("")
    said = gputui(home, "rerun", "--failed", "-y")
    assert "runs first" in said or "succeeded" in said
    until(lambda: home.ask("status")["counts"].get("succeeded") == 10, "all have succeeded")
    history = [line["text"] for line in json.loads(gputui(home, "show", "7", "--json"))["history"]]
    assert [text for text in history if text.startswith("attempt")] == [
        "attempt 1 started",
        "attempt 1 failed: ModuleNotFoundError: No module named 'lab_settings'",
        "attempt 2 started",
        "attempt 2 succeeded",
    ]


def test_a_job_that_can_never_start_is_reported_with_the_reason(session: Session) -> None:
    done = session.run(session.write("true", "#: gpus=4", "true # large"), gpus="cpu:2")
    assert done.returncode == 1
    assert "1 job waiting: needs 4 GPUs; this session has 2 slots without a GPU" in done.stderr
    assert "to continue: gputui run" not in done.stderr, "that would wait as well"


def test_only_the_group_that_fails_is_paused(home: Home) -> None:
    crashing = home.write(*(f"exit 3 # {number}" for number in range(6)), name="bad.txt")
    calm = home.write(*(f"sleep 0.1 # {number}" for number in range(6)), "sleep 600", name="good.txt")
    words = [*GPUTUI, "run", "--gpus", "cpu:1", "--output-dir", str(home.root), "--probe", "10m"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    owner = subprocess.Popen(
        [*words, str(crashing), str(calm)],
        cwd=home.directory, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: home.root.exists() and home.ask("status")["counts"].get("succeeded") == 6, "the calm ones ran")
        listed = json.loads(gputui(home, "ls", "--json"))
        assert (listed["scheduler"]["state"], listed["scheduler"]["cause"]) == ("running", None)
        assert [(one["group"], one["count"]) for one in listed["scheduler"]["paused"]] == [("bad.txt", 3)]
        whys = [job["why"] for job in listed["jobs"] if job["state"] == "queued"]
        assert len(whys) == 3
        assert all(why.startswith("group paused: 3 jobs failed: exit code 3; probe #3 in ") for why in whys)
        assert "bad.txt is paused" in gputui(home, "ls")
    finally:
        owner.kill()
        owner.wait()
