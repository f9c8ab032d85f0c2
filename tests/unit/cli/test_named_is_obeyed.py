"""What flags name of a session that is there, its slots, directories or settings: obeyed or refused, never dropped."""

from __future__ import annotations

import signal

import pytest
from support.sessions import GPUTUI, Home, Process, Session, finished, said
from support.terminal import recorded
from support.waiting import until

SAYS_WHERE = "echo $CUDA_VISIBLE_DEVICES"


def runs(session: Session, process: Process, jobs: int = 1) -> None:
    until(lambda: len(session.runs()) == jobs or process.poll() is not None, f"{jobs} jobs run")
    assert process.poll() is None, process.communicate()


# Nobody owns it


def test_gpus_replace_the_slots_of_a_session_without_a_scheduler(session: Session) -> None:
    jobs = session.write(SAYS_WHERE)
    session.run(jobs, gpus="0,1")
    changed = session.run(jobs, "--force-rerun", gpus="5")
    assert "slots changed to 5; they were 0 1" in changed.stderr
    assert session.output(0) == "5\n"
    assert "slots" not in session.run(jobs, "--force-rerun", gpus="5").stderr


def test_a_gpus_setting_does_not_change_an_existing_session(session: Session) -> None:
    jobs = session.write(SAYS_WHERE)
    session.run(jobs, gpus="0,1")
    kept = session.run(jobs, "--force-rerun", gpus=None, env={"GPUTUI_GPUS": "5"})
    assert "keeping this session's slots (0 1); change with --gpus" in kept.stderr
    assert session.output(0) in ("0\n", "1\n")


def test_jobs_that_wait_start_on_the_slots_that_are_named_and_on_no_others(session: Session) -> None:
    jobs = session.write(session.told("first", session.waits), *[SAYS_WHERE] * 20)
    with session.running(jobs, gpus="0") as run:
        runs(session, run)
    session.gate.touch()
    assert session.run(gpus="7").returncode == 1  # the first was killed with its owner: nobody saw its end
    assert {session.output(job) for job in range(1, 21)} == {"7\n"}


@pytest.mark.parametrize(
    ("flag", "directory"),
    [(("--prefix", "run_"), "run_1"), (("--job-dir", "all/{id}"), "all/1")],
    ids=["prefix", "job-dir"],
)
def test_new_names_of_directories_apply_to_jobs_that_have_not_started(
    session: Session, flag: tuple[str, str], directory: str
) -> None:
    first = session.write("echo one")
    both = session.write("echo one", "echo two", name="both.txt")
    session.run(first)
    assert session.run(both, *flag).returncode == 0
    name = directory.rpartition("/")[2]
    assert (session.root / directory / f"{name}.OUT").read_text() == "two\n"
    assert session.output(0) == "one\n"
    assert not session.job_directory(1).exists()
    assert not (session.root / directory.replace("1", "0")).exists()
    assert session.run(both, "--force-rerun").returncode == 0
    assert (session.job_directory(0) / "attempts" / "2" / "OUT").read_text() == "one\n"
    assert (session.root / directory / "attempts" / "2" / "OUT").read_text() == "two\n"


def test_an_existing_directory_is_not_used_for_a_job(session: Session) -> None:
    session.run(session.write("echo one"))
    (session.root / "run_1").mkdir()
    done = session.run(session.write("echo two"), "--prefix", "run_")
    assert done.returncode == 2
    assert "already contains run_1; choose another --prefix" in done.stderr
    assert session.states() == ["succeeded"]


# A daemon owns it


def test_flags_apply_when_a_daemon_hands_over(home: Home) -> None:
    home.begin(home.told("first", home.waits), home.told("second", SAYS_WHERE))
    home.ask("begin", slots=[{"id": 0, "devices": ["0"]}], given=True, change_slots=True)
    home.resume()
    until(lambda: home.runs() == {"first": 1}, "the first job runs")
    with home.running("--prefix", "new_", gpus="3") as run:
        until(lambda: (home.root / "new_1" / "SUCCESS").exists() or run.poll() is not None, "the second job has run")
        assert (home.root / "new_1" / "new_1.OUT").read_text() == "3\n"
        assert not home.markers(0), "the first runs on where it was"
        home.gate.touch()
        assert finished(run).returncode == 0
    assert home.markers(0) == ["SUCCESS"]
    assert home.runs() == {"first": 1, "second": 1}


# Another run owns it


def test_beside_another_run_other_slots_and_directories_are_refused_with_the_ways_out(session: Session) -> None:
    jobs = session.write(session.told("first", session.waits))
    more = session.write("echo more", name="more.txt")
    with session.running(jobs, gpus="0,1") as run:
        runs(session, run)
        done = session.run(more, gpus="2,3")
        assert said(session.run("--dry-run", more, gpus="2,3")) == said(done)
        assert done.returncode == 2
        for words in (f"open in gputui run (pid {run.pid}) with other slots", "--output-dir", "gputui gpus '2 3'"):
            assert words in said(done)
        done = session.run(more, "--prefix", "x_", gpus=None)
        assert done.returncode == 2
        assert "other job directories" in said(done)
        session.gate.touch()
        finished(run)
    assert len(session.jobs()) == 1, "nothing was added"


def test_beside_another_run_jobs_join_it_when_nothing_else_is_named(session: Session) -> None:
    jobs = session.write(session.told("first", session.waits))
    more = session.write(SAYS_WHERE, name="more.txt")
    with session.running(jobs, gpus="0,1") as run:
        runs(session, run)
        assert session.run(more, "--prefix", "job_", gpus="1,0").returncode == 0
        assert session.run(more, "--force-rerun", gpus=None).returncode == 0
        session.gate.touch()
        assert finished(run).returncode == 0


@pytest.mark.parametrize(
    ("flag", "value", "has"),
    [
        ("--pause-after", "0", "--pause-after 3"),
        ("--max-gpus", "2", "no --max-gpus"),
        ("--share-gpus", "", "no --share-gpus"),
        ("--gpu-file", "gpus.txt", "no --gpu-file"),
    ],
)
def test_beside_another_run_another_setting_is_refused_and_the_same_is_fine(
    session: Session, flag: str, value: str, has: str
) -> None:
    jobs = session.write(session.told("first", session.waits))
    more = session.write("echo more", name="more.txt")
    (session.directory / "gpus.txt").write_text("0\n1\n2\n")
    named = [flag, value] if value else [flag]
    with session.running(jobs, gpus="0-2") as run:
        runs(session, run)
        done = session.run(more, *named, gpus=None)
        assert done.returncode == 2, said(done)
        assert f"open in gputui run (pid {run.pid}) with {has}, not {flag}" in said(done)
        assert f"or omit {flag}" in said(done)
        session.gate.touch()
        finished(run)
    assert len(session.jobs()) == 1, "nothing was added"
    session.gate.unlink()
    with session.running(jobs, "--force-rerun", *named, gpus=None) as run:
        until(lambda: session.runs()["first"] == 2 or run.poll() is not None, "it runs again")
        assert session.run(more, *named, gpus=None).returncode == 0
        session.gate.touch()
        assert finished(run).returncode == 0


def test_beside_another_run_config_files_change_nothing(session: Session) -> None:
    jobs = session.write(session.told("first", session.waits))
    with session.running(jobs) as run:
        runs(session, run)
        more = session.write("echo more", name="more.txt")
        assert session.run(more, gpus=None, env={"GPUTUI_PAUSE_AFTER": "7"}).returncode == 0
        session.gate.touch()
        assert finished(run).returncode == 0
    assert session.load().settings.pause_after == 3


def test_beside_another_run_a_terminal_is_asked_and_the_answer_counts(session: Session) -> None:
    jobs = session.write(session.told("first", session.waits))
    session.write(session.told("more", f"{SAYS_WHERE} >>where"), name="more.txt")
    flags = "--no-daemon --gpus 4 --prefix x_ --grace 5 --output-dir"
    line = [*GPUTUI, "run", *flags.split(), str(session.root), "more.txt"]
    with session.running(jobs, gpus="0") as run:
        runs(session, run)
        with recorded(line, cwd=session.directory, size=(160, 40)) as no:
            no.shows("change to slots 4, job directories x_N and --grace 5? [y/N]")
            no.press("n\n")
            assert no.status() == 2
            assert "nothing added" in no.text
        with recorded(line, cwd=session.directory, size=(160, 40)) as yes:
            yes.shows("[y/N]")
            yes.press("y\n")
            assert yes.status() == 0
        assert (session.directory / "where").read_text() == "4\n"
        assert (session.root / "x_1" / "SUCCESS").exists()
        assert not session.markers(0), "the running job stays where it is"
        run.send_signal(signal.SIGTERM)
        finished(run)
    assert session.load().settings.grace == 5


def test_beside_another_run_yes_on_the_command_line_is_an_answer(session: Session) -> None:
    jobs = session.write(session.told("first", session.waits))
    more = session.write(SAYS_WHERE, name="more.txt")
    with session.running(jobs, gpus="0") as run:
        runs(session, run)
        done = session.run(more, "-y", gpus="3")
        assert (done.returncode, session.output(1)) == (0, "3\n"), done
        session.gate.touch()
        finished(run)
