"""`gputui run` from one run to the next: run a file, fix what failed, run it again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.sessions import GPUTUI, Session, listened
from support.waiting import until


def lines_of(done: subprocess.CompletedProcess[str], word: str) -> list[str]:
    return [line for line in done.stdout.splitlines() if word in line]


def test_three_commands_one_of_which_fails(session: Session) -> None:
    jobs = session.write("echo a", "false", "echo c")
    done = session.run(jobs)
    assert done.returncode == 1
    assert "3 in jobs.txt: 3 new." in done.stderr
    assert session.markers(0) == ["SUCCESS"]
    assert session.markers(1) == ["FAILURE"]
    assert session.output(2) == "c\n"
    assert "Processing command `echo a` on gpu 0" in done.stdout
    [failed] = lines_of(done, "#1 ")
    assert failed.startswith("#1 failed after ")
    assert failed.endswith(": exit code 1")


def test_a_start_on_a_cpu_slot_names_it(session: Session) -> None:
    done = session.run(session.write("echo a", "#: gpus=0\necho b"), gpus="cpu:1")
    assert lines_of(done, "Processing") == ["Processing command `echo a` on cpu 0", "Processing command `echo b`"]


def test_running_a_file_again_keeps_successes_and_reruns_failures(session: Session) -> None:
    jobs = session.write("echo a", f"echo try; test -e {session.directory}/mended", "echo c")
    assert session.run(jobs).returncode == 1
    (session.directory / "mended").touch()
    done = session.run(jobs)
    assert done.returncode == 0
    assert "3 in jobs.txt: 0 new, 2 done (kept), 1 failed (rerun). Rerun all: --force-rerun" in done.stderr
    assert len(lines_of(done, "Processing")) == 1
    assert lines_of(done, "#1 succeeded after")[0].endswith("(attempt 2)")
    assert session.markers(1) == ["SUCCESS"]
    assert os.readlink(session.job_directory(1) / "job_1.OUT") == "attempts/2/OUT"
    assert (session.job_directory(1) / "attempts/1/OUT").read_text() == "try\n"
    assert session.run(jobs).returncode == 0
    assert [job.issued for job in session.jobs()] == [1, 2, 1]


def test_through_a_pipe_every_line_is_a_new_job(session: Session) -> None:
    for _ in range(2):
        assert session.run(given=f"echo a >>{session.lines}\n").returncode == 0
    assert session.runs() == {"a": 2}
    assert len(session.jobs()) == 2


def test_a_redirected_file_is_the_same_file(session: Session) -> None:
    jobs = session.write(session.told("a"))
    for _ in range(2):
        with open(jobs) as file:
            assert session.run(stdin=file.fileno()).returncode == 0
    assert session.runs() == {"a": 1}


def test_jobs_from_a_pipe_run_while_it_is_being_written(session: Session) -> None:
    with session.running(stdin=subprocess.PIPE) as owner:
        assert owner.stdin is not None
        owner.stdin.write(session.told("a") + "\n")
        owner.stdin.flush()
        until(lambda: session.runs() == {"a": 1}, "the first job has run")
        owner.stdin.write(session.told("b", "exit 2") + "\n")
        owner.stdin.close()
        assert owner.wait(60) == 1
    assert session.runs() == {"a": 1, "b": 1}


def test_a_run_without_jobs_continues_the_session(session: Session) -> None:
    jobs = session.write(session.told("a", "sleep 600"), session.told("b"))
    with session.running(jobs, gpus="0") as owner:
        until(lambda: session.runs(), "a runs")
        owner.kill()
        owner.wait()
        session.sweep()
        done = session.run(gpus="0")
    assert done.returncode == 1
    assert session.states() == ["lost", "succeeded"]
    again = session.run()
    assert again.returncode == 0
    assert "nothing left to do" in again.stderr


def test_force_rerun_runs_all_of_it_again(session: Session) -> None:
    jobs = session.write(session.told("a"), session.told("b", "exit 1"))
    session.run(jobs)
    session.run(jobs, "--force-rerun")
    assert session.runs() == {"a": 2, "b": 2}


def test_lost_jobs_are_rerun_only_when_asked(session: Session) -> None:
    jobs = session.write(session.told("a", f"test -e {session.directory}/quick || sleep 600"))
    with session.running(jobs) as owner:
        wrapper = session.claim_pid(0)
        until(lambda: session.runs(), "a runs")
        os.kill(wrapper, 9)
        assert owner.wait(60) == 1
    (session.directory / "quick").touch()
    assert "1 lost (kept)" in session.run(jobs).stderr
    assert session.runs() == {"a": 1}
    assert session.run(jobs, "--rerun-lost").returncode == 0
    assert session.runs() == {"a": 2}


def test_new_keeps_the_old_session_beside_the_fresh_one(session: Session) -> None:
    jobs = session.write(session.told("a"))
    session.run(jobs)
    done = session.run(jobs, "--new")
    assert done.returncode == 0
    assert f"previous session kept as {session.root}.1" in done.stderr
    assert (session.directory / "out.1/job_0/SUCCESS").exists()
    assert session.runs() == {"a": 2}
    assert [job.id for job in session.jobs()] == [0]


def test_new_does_not_move_a_directory_that_gputui_did_not_make(session: Session) -> None:
    session.root.mkdir()
    (session.root / "thesis.tex").write_text("mine")
    jobs = session.write(session.told("a"))
    assert session.run(jobs).returncode == 0
    done = session.run(jobs, "--new")
    assert done.returncode == 2
    assert "was not created by gputui, so it is not moved" in done.stderr
    assert (session.root / "thesis.tex").read_text() == "mine"


def test_new_does_not_move_a_session_whose_jobs_run(session: Session) -> None:
    jobs = session.write(session.told("a", "sleep 600"))
    with session.running(jobs) as owner:
        until(lambda: session.runs(), "a runs")
        owner.kill()
        owner.wait()
        done = session.run(jobs, "--new")
        assert done.returncode == 2
        assert "1 job still running in" in done.stderr
        assert session.processes()


def test_a_failed_job_is_retried_as_often_as_requested(session: Session) -> None:
    jobs = session.write(session.told("a", "exit 7"))
    done = session.run(jobs, "--retries", "1")
    assert done.returncode == 1
    assert session.runs() == {"a": 2}
    assert [past.exit_code for past in session.jobs()[0].attempts] == [7, 7]


def test_a_job_over_its_time_limit_is_stopped_gracefully(session: Session) -> None:
    jobs = session.write(
        session.told("a", f"trap 'echo saved >{session.directory}/saved; exit 0' TERM; sleep 600 & wait")
    )
    done = session.run(jobs, "--timeout", "3", "--grace", "30")  # time enough to set the trap
    assert done.returncode == 1
    assert session.states() == ["timed_out"]
    assert (session.directory / "saved").exists()
    assert "timed out after 3 s" in done.stdout
    assert session.markers(0) == ["FAILURE"]


def test_a_file_with_dependencies_is_fixed_and_run_again(session: Session) -> None:
    """Skipped jobs come back with the one they were skipped for; those of a killed one stay."""
    mended = f"test -e {session.directory}/mended"
    jobs = session.write(
        "#: name=first", session.told("a", mended), "#: name=second after=first", session.told("b"),
        "#: after=second", session.told("c"),
    )  # fmt: skip
    assert session.run(jobs).returncode == 1
    assert session.states() == ["failed", "skipped", "skipped"]
    (session.directory / "mended").touch()
    done = session.run(jobs)
    assert "3 in jobs.txt: 0 new, 1 failed (rerun), 2 skipped (rerun)." in done.stderr
    assert done.returncode == 0
    assert session.runs() == {"a": 2, "b": 1, "c": 1}


def test_a_pipe_that_ends_long_after_its_jobs_ends_the_run(session: Session) -> None:
    with session.running(stdin=subprocess.PIPE) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        owner.stdin.write(session.told("a") + "\n")
        owner.stdin.flush()
        until(lambda: "succeeded" in owner.stdout.readline(), "the job has ended")  # type: ignore[union-attr]
        owner.stdin.close()
        assert owner.wait(60) == 0


def test_jobs_that_fail_with_the_same_error_pause_the_queue(session: Session) -> None:
    crash = "echo \"ModuleNotFoundError: No module named 'timm'\" >&2; exit 1"
    jobs = session.write(*(session.told(number, crash) for number in range(6)))
    done = session.run(jobs, "--pause-after", "3", gpus="0")
    assert done.returncode == 1
    assert "3 jobs failed: ModuleNotFoundError: No module named 'timm'" in done.stderr
    assert "3 of 6 jobs failed, 3 were not run" in done.stderr
    assert session.states() == ["failed"] * 3 + ["queued"] * 3
    again = session.run(jobs, "--pause-after", "0", gpus="0")
    assert "paused" not in again.stderr
    assert session.states() == ["failed"] * 6
    assert session.runs() == {"0": 2, "1": 2, "2": 2, "3": 1, "4": 1, "5": 1}


def test_a_pause_does_not_drop_jobs_from_a_pipe(session: Session) -> None:
    with session.running("--pause-after", "3", gpus="0", stdin=subprocess.PIPE) as owner:
        told = listened(owner)
        assert owner.stdin is not None
        owner.stdin.write("false\n" * 3)
        owner.stdin.flush()
        until(lambda: "paused: 3 jobs failed: " in "".join(told), "the breaker trips")
        owner.stdin.write("echo late\n" * 5)
        owner.stdin.close()
        assert owner.wait(60) == 1
    assert session.states() == ["failed"] * 3 + ["queued"] * 5


def test_the_default_directory_is_gputui_run(tmp_path: Path) -> None:
    session = Session(tmp_path, "gputui_run")
    jobs = session.write("echo a")
    assert session.run(jobs, output_dir=False).returncode == 0
    assert session.output(0) == "a\n"
    assert (session.root / ".gitignore").read_text() == "*\n"


def test_a_closed_pipe_is_not_an_error(session: Session) -> None:
    jobs = session.write(*(session.told(number) for number in range(20)))
    words = " ".join([*GPUTUI, "run", "--no-daemon", "--gpus", "0", "--output-dir", "out", str(jobs)])
    done = subprocess.run(
        ["bash", "-c", f"{words} | head -n 1"], cwd=session.directory, capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
    assert sum(session.runs().values()) == 20
