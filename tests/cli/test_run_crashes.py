"""Crashes in sessions that nobody looks at: every job is run in the end, and a broken kind does not take all lanes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.homes import Home
from support.sessions import GPUTUI, Session
from support.waiting import until

from gputui.core.job import Job

LANES = 4


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.end()


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
    assert most_at_once(known, broken) <= LANES
    crashed_before = crashed_before_caution(known, broken)
    assert crashed_before <= 3 + LANES, f"{crashed_before} crashed before it went cautious"


def most_at_once(jobs: list[Job], broken: range) -> int:
    runs = [(jobs[number].attempts[0].started, jobs[number].attempts[0].ended) for number in broken]
    return max(sum(began <= moment < ended for began, ended in runs) for moment, _ in runs)


def crashed_before_caution(jobs: list[Job], broken: range) -> int:
    """How many of the kind began before the third of them had ended."""
    attempts = [jobs[number].attempts[0] for number in broken]
    third = sorted(attempt.ended for attempt in attempts)[2]
    return sum(attempt.started <= third for attempt in attempts)


def test_sixty_jobs_of_which_twelve_crash_are_all_run_by_run(tmp_path: Path) -> None:
    session = Session(tmp_path)
    done = session.run(sweep(session), gpus="cpu:4")
    assert done.returncode == 1
    said = next(line for line in done.stderr.splitlines() if "crashed alike" in line)
    assert "jobs crashed alike: RuntimeError: mat1" in said
    assert said.endswith("; going on one at a time until one succeeds")
    assert "paused" not in said
    assert "succeeded: all go on" in done.stderr
    assert "12 of 60 jobs failed" in done.stderr
    check_all_ran(session)


def test_sixty_jobs_of_which_twelve_crash_are_all_run_by_a_detached_session(home: Home) -> None:
    jobs = sweep(home)
    words = [*GPUTUI, "run", "--gpus", "cpu:4", "--output-dir", str(home.root), "--probe", "0.3", str(jobs)]
    owner = subprocess.Popen(words, cwd=home.folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until(lambda: home.lines.exists(), "it has begun")
    owner.kill()  # nobody is there any more but its keeper
    owner.wait()
    until(lambda: sum(home.runs().values()) == 60, "all sixty have run")
    until(lambda: not home.ask("status")["active"], "the last one has ended")
    home.end()
    check_all_ran(home)


def test_jobs_that_all_crash_are_all_run_and_told(tmp_path: Path) -> None:
    session = Session(tmp_path)
    jobs = session.write(*(session.told(number, "exit 3") for number in range(12)))
    done = session.run(jobs, gpus="cpu:4")
    assert (done.returncode, session.states()) == (1, ["failed"] * 12)
    assert "12 of 12 jobs failed" in done.stderr


@pytest.mark.parametrize(("flags", "ran"), [(["--fail-fast"], 1), (["--pause-after", "2"], 2)])
def test_a_limit_that_is_named_ends_the_run(tmp_path: Path, flags: list[str], ran: int) -> None:
    session = Session(tmp_path)
    jobs = session.write(*(session.told(number, "exit 3") for number in range(5)))
    done = session.run(jobs, *flags, gpus="cpu:1")
    assert done.returncode == 1
    assert f"{ran} of 5 jobs failed, {5 - ran} were not run" in done.stderr
    assert session.states() == ["failed"] * ran + ["queued"] * (5 - ran)


def test_a_limit_and_a_probe_are_both_obeyed(tmp_path: Path) -> None:
    session = Session(tmp_path)
    jobs = session.write(*(session.told(number, "exit 3") for number in range(4)))
    session.run(jobs, "--fail-fast", "--probe", "0", gpus="cpu:1")
    assert session.states() == ["failed"] * 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--probe", "soon"], "'soon' is no time to wait before a job is tried; write 0, 90, 5m, 2h or off"),
        (["--fail-fast", "--pause-after", "4"], "--fail-fast is --pause-after 1; give one of them"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_sentence(tmp_path: Path, words: list[str], sentence: str) -> None:
    session = Session(tmp_path)
    done = session.run(session.write("true"), *words, gpus="cpu:1")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not session.root.exists()


def test_a_bad_probe_in_a_file_names_the_file(tmp_path: Path) -> None:
    session = Session(tmp_path)
    (tmp_path / "gputui.toml").write_text('probe = "never"\n')
    done = session.run(session.write("true"), gpus="cpu:1")
    assert done.returncode == 2
    assert "gputui.toml" in done.stderr
    assert "'never' is no time to wait" in done.stderr


def gputui(home: Home, *words: str) -> str:
    command = [*GPUTUI, *words, "--session", str(home.root)]
    done = subprocess.run(command, cwd=home.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_ten_jobs_without_a_module_are_one_group_and_one_verb_mends_them(home: Home) -> None:
    """Under different paths, so that their messages differ but for what matters."""
    for number in range(10):
        folder = home.folder / f"run{number}"
        folder.mkdir()
        (folder / "train.py").write_text("import lab_settings\n")
    missing = home.folder / "modules"
    missing.mkdir()
    python = f"PYTHONPATH={missing} python3"
    jobs = home.write(*(f"{python} {home.folder}/run{number}/train.py" for number in range(10)))
    done = home.run(jobs, gpus="cpu:4")
    assert "10 of 10 jobs failed" in done.stderr
    (paused,) = json.loads(gputui(home, "ls", "--json"))["scheduler"]["paused"]
    assert paused["message"] == "10 jobs: ModuleNotFoundError: No module named 'lab_settings'"
    assert sorted(paused["jobs"]) == list(range(10))
    (missing / "lab_settings.py").write_text("")
    said = gputui(home, "rerun", "--failed", "-y")
    assert "tried first" in said or "succeeded" in said
    until(lambda: home.ask("status")["counts"].get("succeeded") == 10, "all have succeeded")
    story = [line["text"] for line in json.loads(gputui(home, "show", "7", "--json"))["story"]]
    assert [text for text in story if text.startswith("attempt")] == [
        "attempt 1 started",
        "attempt 1 failed: ModuleNotFoundError: No module named 'lab_settings'",
        "attempt 2 started",
        "attempt 2 succeeded",
    ]


def test_a_job_that_can_never_start_here_is_told_with_its_why(tmp_path: Path) -> None:
    session = Session(tmp_path)
    done = session.run(session.write("true", "#: gpus=4", "true # large"), gpus="cpu:2")
    assert done.returncode == 1
    assert "1 job waits: needs 4 GPUs; this session has 2 lanes without a GPU" in done.stderr
    assert "to go on: gputui run" not in done.stderr, "that would wait as well"


def test_only_the_group_that_crashes_is_paused_and_said_to_be(home: Home) -> None:
    crashing = home.write(*(f"exit 3 # {number}" for number in range(6)), name="bad.txt")
    calm = home.write(*(f"sleep 0.1 # {number}" for number in range(6)), "sleep 600", name="good.txt")
    words = [*GPUTUI, "run", "--gpus", "cpu:1", "--output-dir", str(home.root), "--probe", "10m"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    owner = subprocess.Popen(
        [*words, str(crashing), str(calm)],
        cwd=home.folder, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: home.root.exists() and home.ask("status")["counts"].get("succeeded") == 6, "the calm ones ran")
        listed = json.loads(gputui(home, "ls", "--json"))
        assert (listed["scheduler"]["state"], listed["scheduler"]["cause"]) == ("running", None)
        assert [(one["group"], one["count"]) for one in listed["scheduler"]["paused"]] == [("bad.txt", 3)]
        whys = [job["why"] for job in listed["jobs"] if job["state"] == "queued"]
        assert len(whys) == 3
        assert all(why.startswith("its group is paused: 3 jobs: exit code 3; tries #3 in ") for why in whys)
        assert "bad.txt is paused" in gputui(home, "ls")
    finally:
        owner.kill()
        owner.wait()
